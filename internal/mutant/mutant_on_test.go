//go:build mutant

package mutant

import "testing"

func TestOneRuleIsLeftOutAtATime(t *testing.T) {
	defer func(before string) { Mutant = before }(Mutant)
	for _, left := range append(Names(), "") {
		Mutant = left
		for _, name := range Names() {
			if Is(name) != (name == left) {
				t.Errorf("%s: Is(%s) is %t", left, name, Is(name))
			}
		}
	}
}

func TestUnknownNamesAreMistakes(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a name that does not exist was taken")
		}
	}()
	Is("hwUnderMinIsr")
}
