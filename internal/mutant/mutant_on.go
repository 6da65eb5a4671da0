//go:build mutant

package mutant

import (
	"slices"

	"weir/internal/invariant"
)

// Mutant is the rule that is left out; "" for none.
var Mutant string

// Is reports whether the rule of that name is left out.
func Is(name string) bool {
	if !slices.Contains(names, name) {
		invariant.Assert(false, "there is no mutant %q", name)
	}
	return Mutant == name
}
