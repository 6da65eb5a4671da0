package broker

import (
	"net"
	"strconv"

	"weir/broker/peer"
	"weir/cluster"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
)

// observer is told what this broker sees of the others' processes. cluster.Node is one. It must not block.
type observer interface{ Observe(cluster.Evidence) }

// brokerLinksOptions are what brokerLinks need.
type brokerLinksOptions struct {
	Self     kafka.BrokerID
	Listener string      // on which brokers reach each other; empty, on a controller alone: the first that each has
	Dial     peer.Dialer // nil for TCP
	Clock    clock.Clock
	Name     string // says in other brokers' logs who this is
	Observer observer
}

// brokerLinks are this broker's ways to the brokers that the image knows: connections to fetch over, and one to each
// unfenced broker that only tells when its process is gone. Apply follows the image; it is called by one goroutine.
//
// Goroutines: those of its peer.Pool and peer.Watcher.
type brokerLinks struct {
	o       brokerLinksOptions
	pool    *peer.Pool[kafka.BrokerID]
	watcher *peer.Watcher
}

func newBrokerLinks(o brokerLinksOptions) *brokerLinks {
	return &brokerLinks{
		o:    o,
		pool: peer.NewPool[kafka.BrokerID](peer.Options{Dial: o.Dial, Clock: o.Clock, Name: o.Name}),
		watcher: peer.NewWatcher(peer.WatcherOptions{Dial: o.Dial, Clock: o.Clock, Observe: func(s peer.Sighting) {
			o.Observer.Observe(cluster.Evidence{Broker: s.Broker, Epoch: s.Epoch, Gone: s.Gone})
		}}),
	}
}

// Apply takes the brokers' addresses and epochs from an image. It does not block.
func (l *brokerLinks) Apply(delta *metadata.Delta, img *metadata.Image) {
	if len(delta.Brokers) == 0 {
		return
	}
	for _, change := range delta.Brokers {
		if change.New == nil {
			l.pool.Remove(change.ID)
		} else if e, ok := l.endpoint(change.New); ok {
			l.pool.SetAddress(change.ID, e.Host, e.Port)
		}
	}
	var targets []peer.Target
	for b := range img.Brokers.All() {
		if e, ok := l.endpoint(b); ok && !b.Fenced { // one that is fenced leads nothing: whether it is gone changes nothing
			targets = append(targets, peer.Target{ID: b.ID, Epoch: b.Epoch, Address: net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))})
		}
	}
	l.watcher.SetTargets(targets)
}

// endpoint is where another broker is reached; false for this one, and for one without such a listener.
func (l *brokerLinks) endpoint(b *metadata.BrokerRegistration) (metadata.Endpoint, bool) {
	if b.ID == l.o.Self {
		return metadata.Endpoint{}, false
	}
	if l.o.Listener == "" && len(b.Listeners) > 0 {
		return b.Listeners[0], true
	}
	return b.Endpoint(l.o.Listener)
}

// Close closes all connections and returns when nothing is observed any more.
func (l *brokerLinks) Close() {
	l.watcher.Close()
	l.pool.Close()
}
