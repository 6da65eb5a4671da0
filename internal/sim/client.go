package sim

import (
	"math/rand/v2"
	"time"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// client is what producers and consumers have in common: a host, and what a broker last told of the metadata.
type client struct {
	s     *simulation
	host  *host
	rng   *rand.Rand
	image *metadata.Image
	asks  bool // a request for metadata is under way
}

func newClient(s *simulation, name string) client {
	h := newHost(s.w, firstClient+hostID(s.clients), nil)
	s.clients++
	s.net.add(h)
	h.begin()
	return client{s: s, host: h, rng: s.w.rng(name), image: metadata.Empty()}
}

// callTimeout is how long a client waits for an answer.
const callTimeout = 1500 * time.Millisecond

// refresh asks some broker for the metadata, soon.
func (c *client) refresh() {
	if c.asks {
		return
	}
	c.asks = true
	c.host.after(between(c.rng, time.Millisecond, 50*time.Millisecond), func() {
		n := c.s.nodes[c.rng.IntN(len(c.s.nodes))]
		call(c.s.net, c.host.id, n.host.id, callTimeout, func(reply func(*metadata.Image)) {
			reply(n.published())
		}, func(img *metadata.Image, err error) {
			c.asks = false
			if err == nil && img.Index > c.image.Index { // brokers may be behind
				c.image = img
			}
		})
	})
}

// leader finds the broker that leads a partition, as far as the client knows.
func (c *client) leader(id partitionID) (n *node, epoch kafka.LeaderEpoch) {
	t, ok := c.image.Topics.ByID(id.TopicID)
	if !ok {
		return nil, kafka.NoLeaderEpoch
	}
	p := t.Partition(id.Partition)
	if p == nil || p.Leader == kafka.NoBroker {
		return nil, kafka.NoLeaderEpoch
	}
	return c.s.node(p.Leader), p.LeaderEpoch
}

// choose picks a partition of the load's topics; ok is false while the client knows of none.
func (c *client) choose() (id partitionID, tp kafka.TopicPartition, ok bool) {
	var names []string
	for t := range c.image.Topics.All() {
		if !kafka.IsInternalTopic(t.Name) {
			names = append(names, t.Name)
		}
	}
	if len(names) == 0 {
		return id, tp, false
	}
	t, _ := c.image.Topics.ByName(names[c.rng.IntN(len(names))])
	p := int32(c.rng.IntN(len(t.Partitions)))
	return partitionID{TopicID: t.ID, Partition: p}, kafka.TopicPartition{Topic: t.Name, Partition: p}, true
}

// known reports whether the topic is still there, as far as the client knows.
func (c *client) known(id partitionID) bool {
	_, ok := c.image.Topics.ByID(id.TopicID)
	return ok
}

var _ replica.Acker = (*produceAck)(nil)
