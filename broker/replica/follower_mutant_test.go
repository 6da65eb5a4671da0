//go:build mutant

package replica

import (
	"testing"

	"weir/internal/mutant"
)

// Each rule that a follower keeps can be left out, and then what it is for goes wrong.
func TestRulesOfTheFollowerCanBeLeftOut(t *testing.T) {
	for name, wrong := range map[string]func(*cluster) bool{
		"truncateToHW": func(c *cluster) bool { // a follower forgets what its leader has acknowledged
			c.node(1).produce(1)
			c.answerAll()
			end := c.node(2).log().EndOffset()
			if hw := c.node(2).log().HighWatermark(); hw >= end {
				t.Fatalf("the high watermark is %d already", hw)
			}
			c.elect(1)
			c.node(2).apply()
			c.node(2).step()
			return c.node(2).log().EndOffset() < end
		},
		"hwBeforeTruncation": func(c *cluster) bool { // a follower shows what its leader does not have
			c.cutOff(1)
			c.node(1).produce(1, 1)
			c.elect(2)
			c.node(2).apply()
			c.node(2).produce(1, 1, 1)
			c.heal()
			c.node(1).apply()
			c.answerAll()
			c.answerAll()
			common := int64(1)
			return c.node(1).log().HighWatermark() > common && c.node(1).log().EpochForOffset(common) == 0
		},
	} {
		for _, left := range []string{"", name} {
			c := newCluster(t, 2, 1)
			c.elect(1)
			c.applyAll()
			c.node(1).produce(1)
			c.settle()
			mutant.Mutant = left
			if got := wrong(c); got != (left != "") {
				t.Errorf("%s left out: %q; wrong: %t", name, left, got)
			}
			mutant.Mutant = ""
		}
	}
}
