//go:build !mutant

package mutant

import "testing"

func TestNothingIsLeftOutWithoutTheTag(t *testing.T) {
	for _, name := range Names() {
		if Is(name) {
			t.Errorf("%s is left out", name)
		}
	}
}
