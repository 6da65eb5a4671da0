package cluster

import (
	"sync/atomic"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// publication is an image that is to be made known, with the commands that it answers.
type publication struct {
	index   int64
	image   *metadata.Image // nil: only answers
	delta   *metadata.Delta
	answers []answer
}

// publisher makes images known, one after the other. Until the image holds this incarnation of this broker it keeps them to
// itself: what the log says of the past (topics that are gone since, leaderships of the last incarnation) concerns nobody.
// The first image that is published comes with its difference from the empty one.
type publisher struct {
	self        kafka.BrokerID
	incarnation kafka.UUID
	subscribers []func(*metadata.Delta, *metadata.Image)
	image       *atomic.Pointer[metadata.Image]
	open        bool
}

// Step publishes. Subscribers come first, then the image that clients are answered from: so a topic is seen when its
// partitions can be used. The answers come last.
func (p *publisher) Step(publications ...publication) {
	for _, next := range publications {
		if next.image != nil {
			p.publish(next)
		}
		for _, a := range next.answers {
			if r, ok := a.reply.(controller.RegisterBrokerReply); ok {
				a.reply = r.Committed(next.index)
			}
			a.give()
		}
	}
}

func (p *publisher) publish(next publication) {
	if !p.open {
		b, registered := next.image.Brokers.ByID(p.self)
		if !registered || b.Incarnation != p.incarnation {
			return
		}
		p.open = true
		next.delta = metadata.Diff(metadata.Empty(), next.image)
	}
	for _, tell := range p.subscribers {
		tell(next.delta, next.image)
	}
	p.image.Store(next.image)
}
