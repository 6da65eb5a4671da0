//go:build race

package protocol

// poison spoils freed bytes, so that whoever still uses them fails in tests: under the race detector all of them run
// with it.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}
