package peer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka"
)

// A step is "watch EPOCH", "connected", "refused", "failed", "closed MS" by the host, or "lost MS" otherwise.
func step(w *Witness, s string) Next {
	name, arg, _ := strings.Cut(s, " ")
	n := int64(0)
	_, _ = fmt.Sscan(arg, &n)
	switch name {
	case "watch":
		return w.Watch(Target{ID: 7, Epoch: kafka.BrokerEpoch(n), Address: "a:1"})
	case "moved":
		return w.Watch(Target{ID: 7, Epoch: kafka.BrokerEpoch(n), Address: "b:1"})
	case "connected":
		return w.Connected()
	case "refused":
		return w.Failed(true)
	case "failed":
		return w.Failed(false)
	case "closed":
		return w.Lost(true, time.Duration(n)*time.Millisecond)
	case "lost":
		return w.Lost(false, time.Duration(n)*time.Millisecond)
	}
	panic(s)
}

func TestWitness(t *testing.T) {
	for name, c := range map[string]struct{ steps, want string }{
		"killed":                        {"watch 5, connected, closed 9000, refused", "gone 5"},
		"killed at once":                {"watch 5, connected, closed 1, refused", "gone 5"},
		"told once":                     {"watch 5, connected, closed 9000, refused, refused, failed, refused", "gone 5"},
		"back":                          {"watch 5, connected, closed 9000, refused, connected", "gone 5, back 5"},
		"back and killed":               {"watch 5, connected, closed 9000, refused, connected, closed 10, refused", "gone 5, back 5, gone 5"},
		"the accept queue's last":       {"watch 5, connected, closed 9000, connected, closed 0, refused", "gone 5"},
		"only restarted its connection": {"watch 5, connected, closed 9000, connected", ""},
		"never seen":                    {"watch 5, refused, refused", ""},
		"cut off":                       {"watch 5, connected, lost 9000, failed, failed", ""},
		"cut off, then refused":         {"watch 5, connected, lost 9000, refused", ""},
		"a slow refusal":                {"watch 5, connected, closed 9000, failed, refused", "gone 5"},
		"registered anew before":        {"watch 5, connected, closed 9000, watch 6, refused", ""},
		"registered anew after":         {"watch 5, connected, closed 9000, refused, watch 6, refused, connected, closed 10, refused", "gone 5, gone 6"},
		"connected to an older one":     {"watch 5, connected, watch 6, connected, closed 10, refused", "gone 6"},
		"replaced, then refused":        {"watch 5, connected, watch 6, refused", ""},
		"moved":                         {"watch 5, connected, moved 5, connected, closed 10, refused", "gone 5"},
	} {
		var w Witness
		var got []string
		for s := range strings.SplitSeq(c.steps, ", ") {
			if next := step(&w, s); next.Sighting != nil {
				word := "back"
				if next.Sighting.Gone {
					word = "gone"
				}
				if next.Sighting.Broker != 7 {
					t.Errorf("%s: broker %d", name, next.Sighting.Broker)
				}
				got = append(got, fmt.Sprint(word, " ", next.Sighting.Epoch))
			}
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: told %q, want %q", name, got, c.want)
		}
	}
}

func TestWitnessTriesAtOnceWhereItMatters(t *testing.T) {
	for _, c := range []struct{ steps, want string }{
		{"watch 5", "drop dial 0s"},
		{"watch 5, watch 5", ""},
		{"watch 5, moved 5", "drop dial 0s"},
		{"watch 5, connected", ""},
		{"watch 5, connected, closed 9000", "dial 0s"},
		{"watch 5, connected, closed 1", "dial 0s"},
		{"watch 5, connected, closed 1, connected, closed 1", "dial 50ms"},
		{"watch 5, connected, closed 1, connected, closed 1, connected, closed 1, connected, closed 1", "dial 200ms"},
		{"watch 5, connected, closed 1, connected, closed 1, connected, closed 1, connected, closed 1000", "dial 0s"},
		{"watch 5, refused", "dial 50ms"},
		{"watch 5, refused, failed, refused, refused, refused, refused, refused", "dial 1s"},
		{"watch 5, refused, failed, watch 6", "drop dial 0s"},
		{"watch 5, refused, failed, watch 6, refused", "dial 50ms"},
	} {
		var w Witness
		var next Next
		for s := range strings.SplitSeq(c.steps, ", ") {
			next = step(&w, s)
		}
		got := ""
		if next.Drop {
			got = "drop "
		}
		if next.Dial {
			got += fmt.Sprint("dial ", next.After)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.steps, got, c.want)
		}
	}
}
