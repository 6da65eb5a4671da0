package golden

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// The broker answers each request of each script as Kafka did.
func TestAnswersAreKafkas(t *testing.T) {
	broker := harness.Shared(t)
	offers, err := Offers(harness.Context(t), broker.Bootstrap)
	if err != nil {
		t.Fatal(err)
	}
	for i, script := range Scripts() {
		t.Run(script.Name, func(t *testing.T) {
			if missing := script.Missing(offers); missing != "" {
				t.Skipf("the broker does not offer %s", missing)
			}
			text, err := os.ReadFile(script.File())
			if err != nil {
				t.Fatal(err)
			}
			want := Parse(string(text))
			got, err := script.Run(broker.Bootstrap, fmt.Sprintf("%06x%02x", time.Now().UnixMilli()&0xffffff, i))
			for i, w := range want {
				if i == len(got) {
					t.Fatalf("after %d of %d requests: %v", i, len(want), err)
				}
				t.Run(w.Title, func(t *testing.T) { compare(t, got[i], w) })
			}
			if len(got) != len(want) || err != nil {
				t.Errorf("%d exchanges, want %d, %v", len(got), len(want), err)
			}
		})
	}
}

func compare(t *testing.T, got, want Exchange) {
	t.Helper()
	if got.Title != want.Title || got.Request != want.Request {
		t.Fatalf("the script has changed and was not recorded again: it asks\n%s\n%swas recorded:\n%s\n%s", got.Title, got.Request, want.Title, want.Request)
	}
	if got.Answer != want.Answer {
		t.Errorf("to\n%sit answers\n%swant\n%s", got.Request, got.Answer, want.Answer)
	}
}

func TestParseTakesApartWhatTextWrites(t *testing.T) {
	exchanges := []Exchange{{"a v1: b", "A: 1\nB:\n- C: 2\n", "D: \"=\"\n"}, {"c v0: d", "", "E: none\n"}}
	var text string
	for _, e := range exchanges {
		text += e.Text()
	}
	if got := Parse(text); !slices.Equal(got, exchanges) {
		t.Errorf("%q", got)
	}
}
