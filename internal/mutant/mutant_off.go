//go:build !mutant

package mutant

// Mutant is the rule that is left out: none.
const Mutant = ""

// Is reports whether the rule of that name is left out.
func Is(name string) bool { return Mutant == name }
