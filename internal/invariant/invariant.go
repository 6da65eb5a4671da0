// Package invariant states what must hold. A broken invariant is a fault of the program, not of its input: it panics
// with the numbers, and the goroutine that met it must not go on with state it cannot trust. Operating errors (a full
// disk, a lying peer) are returned as errors instead. No state, no goroutines.
package invariant

import "fmt"

// Assert panics with the formatted message unless ok. On a hot path ask the condition first: the arguments are allocated
// for every call.
func Assert(ok bool, format string, args ...any) {
	if !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
