package broker

import (
	"bufio"
	"net"
	"testing"

	"weir/broker/peer"
	"weir/cluster"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/protocol"
)

type observed chan cluster.Evidence

func (o observed) Observe(e cluster.Evidence) { o <- e }

// host is a listener whose connections a test closes, as the end of a process does.
type host struct {
	t        *testing.T
	listener net.Listener
	accepted chan net.Conn
}

func startHost(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, listener: listenLoopback(t), accepted: make(chan net.Conn, 10)}
	t.Cleanup(func() { _ = h.listener.Close() })
	go func() {
		for {
			nc, err := h.listener.Accept()
			if err != nil {
				return
			}
			h.accepted <- nc
		}
	}()
	return h
}

func (h *host) kill() {
	_ = h.listener.Close()
	for len(h.accepted) > 0 {
		_ = (<-h.accepted).Close()
	}
}

func (h *host) registration(id kafka.BrokerID, fenced bool) metadata.BrokerRegistration {
	return metadata.BrokerRegistration{ID: id, Epoch: metadata.EpochOfEntry, Fenced: fenced, Listeners: []metadata.Endpoint{
		{Name: "PLAINTEXT", Host: "127.0.0.1", Port: 1},
		{Name: "PEER", Host: "127.0.0.1", Port: uint16(h.listener.Addr().(*net.TCPAddr).Port)},
	}}
}

// links are brokerLinks of broker 1, with the image that they follow.
type links struct {
	*brokerLinks
	t    *testing.T
	img  *metadata.Image
	seen observed
}

func startLinks(t *testing.T) *links {
	t.Helper()
	l := &links{t: t, seen: make(observed, 100)}
	img, _, err := metadata.Apply(metadata.Empty(), 0, 1, metadata.AppendEntry(nil, metadata.NoBase, []metadata.Record{metadata.FormatRecord{FormatVersion: metadata.FormatVersion, ClusterID: "x"}}))
	if err != nil {
		t.Fatal(err)
	}
	l.img = img
	l.brokerLinks = newBrokerLinks(brokerLinksOptions{Self: 1, Listener: "PEER", Observer: l.seen})
	t.Cleanup(l.Close)
	return l
}

// apply has records become true, and returns the index at which they did.
func (l *links) apply(records ...metadata.Record) int64 {
	l.t.Helper()
	index := l.img.Index + 1
	img, delta, err := metadata.Apply(l.img, index, 1, metadata.AppendEntry(nil, l.img.Index, records))
	if err != nil || delta == nil {
		l.t.Fatal(err)
	}
	l.img = img
	l.Apply(delta, img)
	return index
}

func TestEvidenceIsAboutTheEpochOfTheImage(t *testing.T) {
	l, h, self := startLinks(t), startHost(t), startHost(t)
	first := l.apply(metadata.RegisterBrokerRecord{BrokerRegistration: self.registration(1, false)}, metadata.RegisterBrokerRecord{BrokerRegistration: h.registration(2, true)})
	if first == 0 {
		t.Fatal("no index")
	}
	l.apply(metadata.BrokerChangeRecord{ID: 2, Epoch: kafka.BrokerEpoch(first)}) // it is unfenced
	nc := soon(t, h.accepted)
	h.accepted <- nc
	h.kill()
	if e := soon(t, l.seen); e != (cluster.Evidence{Broker: 2, Epoch: kafka.BrokerEpoch(first), Gone: true}) {
		t.Fatalf("%+v", e)
	}
	// It is back elsewhere, and gone again.
	h = startHost(t)
	second := l.apply(metadata.RegisterBrokerRecord{BrokerRegistration: h.registration(2, false)})
	h.accepted <- soon(t, h.accepted)
	h.kill()
	if e := soon(t, l.seen); e != (cluster.Evidence{Broker: 2, Epoch: kafka.BrokerEpoch(second), Gone: true}) {
		t.Fatalf("%+v", e)
	}
	if len(self.accepted) > 0 {
		t.Error("a broker watches itself")
	}
}

// Fenced brokers are not watched, and what no image names is not connected to.
func TestLinksFollowTheImage(t *testing.T) {
	l, fenced, gone := startLinks(t), startHost(t), startHost(t)
	index := l.apply(metadata.RegisterBrokerRecord{BrokerRegistration: fenced.registration(2, true)}, metadata.RegisterBrokerRecord{BrokerRegistration: gone.registration(3, false)})
	watched := soon(t, gone.accepted)
	l.apply(metadata.UnregisterBrokerRecord{ID: 3, Epoch: kafka.BrokerEpoch(index)})
	if n, err := watched.Read(make([]byte, 1)); n > 0 || err == nil {
		t.Error("a broker that is not registered any more is watched")
	}
	send := func(id kafka.BrokerID) error {
		return l.pool.Send(id, peer.Purpose{Traffic: peer.Fetches}, peer.Call{Request: &protocol.PeerRequest{}, Done: func([]byte, error) {}})
	}
	if err := send(3); err == nil {
		t.Error("a broker that is not registered any more is sent something")
	}
	if err := send(1); err == nil {
		t.Error("a broker sends itself something")
	}
	if err := send(2); err != nil {
		t.Error(err)
	}
	nc := soon(t, fenced.accepted)
	if b, err := bufio.NewReader(nc).ReadByte(); b != 0 || err != nil { // the size of the request, not a watch's silence
		t.Errorf("%d, %v", b, err)
	}
	if len(fenced.accepted) > 0 || len(l.seen) > 0 {
		t.Error("a fenced broker is watched")
	}
}
