package replica

import (
	"testing"
)

func TestAFollowerHasTheLeadersBytes(t *testing.T) {
	for name, sessions := range map[string]bool{"with sessions": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3)
			c.sessions = sessions
			c.elect(1)
			c.applyAll()
			c.node(1).produce(1, 3, 2)
			c.settle()
			c.requireEqual()
			c.node(1).produce(4)
			c.settle()
			c.requireEqual()
			for _, n := range c.nodes {
				if hw := n.partition().Log().HighWatermark(); hw != 10 {
					t.Errorf("broker %d has the high watermark %d", n.id, hw)
				}
			}
		})
	}
}
