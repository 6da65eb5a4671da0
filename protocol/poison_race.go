//go:build race

package protocol

// poison spoils freed bytes, so that whoever still uses them fails in tests: under the race detector all of them run
// with it.
func poison(b []byte) {
	n := copy(b, "\xdb")
	for n > 0 && n < len(b) {
		n += copy(b[n:], b[:n])
	}
}
