package cluster

import (
	"slices"
	"sync/atomic"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// publication is an image that is to be made known, with the commands that it answers; or answers alone, which wait until
// the image of their index is known.
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
	epoch       *atomic.Int64 // see Node.Registered
	broker      bool
	open        bool
	seen        int64         // index of the newest entry that is published
	parked      []publication // answers that are ahead of that
}

// Step publishes. Subscribers come first, then the image that clients are answered from: so a topic is seen when its
// partitions can be used. The answers come last. It reports whether there is a new image.
func (p *publisher) Step(publications ...publication) (news bool) {
	for _, next := range publications {
		if next.image != nil && p.publish(next) {
			news = true
			p.seen = next.index
			p.unpark()
		}
		if next.index > p.seen {
			p.parked = append(p.parked, next)
			continue
		}
		next.give()
	}
	return news
}

func (p publication) give() {
	for _, a := range p.answers {
		a.done(Answer{Reply: a.reply, Index: p.index}, a.err)
	}
}

// unpark gives the answers that the image has caught up with.
func (p *publisher) unpark() {
	p.parked = slices.DeleteFunc(p.parked, func(waiting publication) bool {
		if waiting.index > p.seen {
			return false
		}
		waiting.give()
		return true
	})
}

// close fails the answers that the image will not catch up with any more.
func (p *publisher) close() {
	for _, waiting := range p.parked {
		for _, a := range waiting.answers {
			a.done(Answer{}, notController())
		}
	}
	p.parked = nil
}

func (p *publisher) publish(next publication) bool {
	if p.broker {
		b, registered := next.image.Brokers.ByID(p.self)
		if registered && b.Incarnation == p.incarnation {
			p.open = true
			raise(p.epoch, b.Epoch) // the image may be here before the answer to the registration
		}
	}
	if !p.open {
		return false
	}
	if p.image.Load().Index == metadata.NoBase {
		next.delta = metadata.Diff(metadata.Empty(), next.image)
	}
	for _, tell := range p.subscribers {
		tell(next.delta, next.image)
	}
	p.image.Store(next.image)
	return true
}

// raise makes an epoch known, if it is newer than what is known.
func raise(known *atomic.Int64, epoch kafka.BrokerEpoch) {
	for old := known.Load(); int64(epoch) > old && !known.CompareAndSwap(old, int64(epoch)); old = known.Load() {
	}
}
