package broker

import (
	"errors"
	"net"
	"slices"
	"sync"
	"syscall"

	"weir/broker/config"
	"weir/cluster"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// lateListener is the brokers' own listener where it was opened after the start: a node that is alone has none before it is
// asked for one.
type lateListener struct {
	needed bool // nothing that is bound at the start is for other nodes; not changed after that
	sync.Mutex
	opening bool
	bound   []boundListener
	known   bool          // the cluster knows the address
	waiting []func(error) // that it does
	closed  bool
}

// listening are all listeners that are bound.
func (b *Broker) listening() []boundListener {
	b.late.Lock()
	defer b.late.Unlock()
	return slices.Concat(b.bound, b.late.bound)
}

// peerEndpoint is where other nodes reach this one: its first controller listener, or that of the brokers.
func (b *Broker) peerEndpoint() (metadata.Endpoint, bool) {
	all := endpoints(b.listening(), func(l config.Listener) bool { return l.Peers })
	names := slices.Concat(b.Config.ControllerListeners, []string{b.Config.InterBrokerListener})
	for _, name := range names {
		if i := slices.IndexFunc(all, func(e metadata.Endpoint) bool { return e.Name == name }); i >= 0 {
			return all[i], true
		}
	}
	return metadata.Endpoint{}, false
}

// address is where this node is reached by now.
func (b *Broker) address() cluster.Address {
	a := cluster.Address{Listeners: endpoints(b.listening(), b.forBrokers), GossipPort: uint16(b.gossip.port.Load())}
	if e, ok := b.peerEndpoint(); ok {
		a.Host, a.Port = e.Host, e.Port
	}
	return a
}

// bindAll opens the sockets that are open from the start. The brokers' own listener is among them if there are others by the
// settings, or there ever were; then it has the port that it had.
func bindAll(o Options, note peerNote) ([]boundListener, error) {
	listeners, own := o.Config.StartListeners(), o.Config.PeerListener
	if own == nil || own.Port != 0 || note.Port == 0 && note.Contacts == nil {
		return bind(listeners, net.Listen)
	}
	again := *own
	again.Port = note.Port
	all := append(slices.Clone(o.Config.Listeners), again)
	bound, err := bind(all, net.Listen)
	var failed *BindError
	if errors.As(err, &failed) && failed.Listener.Name == config.PeerListenerName && errors.Is(err, syscall.EADDRINUSE) {
		o.Logger.Warn("another process has the port at which other nodes knew this one; it takes another", "port", note.Port)
		all[len(all)-1] = *own
		bound, err = bind(all, net.Listen)
	}
	if err == nil && len(all) > len(listeners) {
		warnExposed(o, *own)
	}
	return bound, err
}

// warnExposed warns of a listener that the settings alone do not open.
func warnExposed(o Options, l config.Listener) {
	if warning := config.Exposed([]config.Listener{l}); warning != "" {
		o.Logger.Warn(warning)
	}
}

// keepPeerPort remembers the port of the brokers' own listener for the next start.
func (b *Broker) keepPeerPort(bound []boundListener) error {
	own := b.Config.PeerListener
	i := slices.IndexFunc(bound, func(l boundListener) bool { return l.Name == config.PeerListenerName })
	if own == nil || own.Port != 0 || i < 0 || bound[i].port() == b.peerNote.Port {
		return nil
	}
	b.peerNote.Port = bound[i].port()
	return b.peerNote.write(b.FS, b.store.MetadataDir())
}

// discover is peersOptions.Discover. Who asks may be about to join: so a node that has no listener for others opens one, and
// tells its cluster where that is before it answers.
func (b *Broker) discover(done func(Discovery, error)) {
	answer := func(err error) { done(b.discovery(), err) }
	if b.clusterID() == "" || !b.late.needed {
		answer(nil)
		return
	}
	switch first, known, err := b.awaitLate(answer); {
	case known || err != nil:
		answer(err)
	case first:
		if err := b.openLate(); err != nil {
			b.endWaiting(err)
		}
	}
}

// awaitLate has answer called when the cluster knows where the late listener is, unless it does already. first says that the
// caller is to open it.
func (b *Broker) awaitLate(answer func(error)) (first, known bool, err error) {
	b.late.Lock()
	defer b.late.Unlock()
	switch {
	case b.late.closed:
		return false, false, errStopping
	case b.late.known:
		return false, true, nil
	}
	b.late.waiting = append(b.late.waiting, answer)
	first = !b.late.opening
	b.late.opening = true
	return first, false, nil
}

// openLate opens the late listener and tells the cluster.
func (b *Broker) openLate() error {
	bound, err := bind([]config.Listener{*b.Config.PeerListener}, net.Listen)
	if err == nil {
		err = b.keepPeerPort(bound)
	}
	if err == nil {
		err = b.serveLate(bound)
	}
	if err != nil {
		closeAll(bound)
		b.late.Lock()
		b.late.opening = false // who asks next tries again
		b.late.Unlock()
		return kafka.Errorf(kafka.BrokerNotAvailable, "This node cannot open a listener for other nodes: %v", err)
	}
	warnExposed(b.Options, bound[0].Listener)
	b.belongs() // from here on with an address
	b.node.Moved(b.address())
	return nil
}

// serveLate begins to serve the late listener, unless the broker stops.
func (b *Broker) serveLate(bound []boundListener) error {
	b.late.Lock()
	defer b.late.Unlock()
	if b.late.closed {
		return errStopping
	}
	b.late.bound = bound
	b.serve(bound[0])
	return nil
}

var errStopping = kafka.Errorf(kafka.BrokerNotAvailable, "This node is stopping.")

// tellAddress answers those who wait until the cluster knows where this node's late listener is.
func (b *Broker) tellAddress(img *metadata.Image) {
	e, ok := b.lateEndpoint()
	if !ok {
		return
	}
	member, _ := img.Quorum.ByRaftID(b.raftID())
	broker, registered := img.Brokers.ByID(b.Config.NodeID)
	if member.Host != e.Host || member.Port != e.Port || !registered || !slices.Contains(broker.Listeners, e) {
		return
	}
	b.late.Lock()
	b.late.known = true
	b.late.Unlock()
	b.endWaiting(nil)
}

// lateEndpoint is the address of the late listener; ok is false where the cluster knows that, or there is none.
func (b *Broker) lateEndpoint() (e metadata.Endpoint, ok bool) {
	b.late.Lock()
	defer b.late.Unlock()
	if b.late.known || b.late.bound == nil {
		return e, false
	}
	return endpoints(b.late.bound, func(config.Listener) bool { return true })[0], true
}

// endWaiting answers who waits.
func (b *Broker) endWaiting(err error) {
	b.late.Lock()
	waiting := b.late.waiting
	b.late.waiting = nil
	b.late.Unlock()
	for _, answer := range waiting {
		answer(err)
	}
}

// closeLate closes the late listener, and lets none be opened any more.
func (b *Broker) closeLate() {
	b.late.Lock()
	b.late.closed = true
	b.late.Unlock()
	b.endWaiting(errStopping)
	closeAll(b.late.bound)
}
