package gossip

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/metrics"
)

const (
	// seekInterval is about how long it takes until nodes that are not heard are looked for again.
	seekInterval = 20 * time.Second
	// hintInterval is how long a hint lasts at least before the next one is spread.
	hintInterval = time.Second
	// leaveTime is how long Close waits for others to be told. The first three are told by then.
	leaveTime = 250 * time.Millisecond
	// lookupTime bounds a look-up of names.
	lookupTime = 2 * time.Second
)

// Options are what all of them need.
type Options struct {
	Clock   clock.Clock
	Logger  *slog.Logger
	Metrics *metrics.Registry

	// For tests, which have less time.
	configure    func(*memberlist.Config)
	seekInterval time.Duration
}

// Self is what a process says of itself, and where it gossips.
type Self struct {
	ClusterID   string
	Member      Member // its GossipPort is what Start returns
	Incarnation kafka.UUID
	BindHost    string // an IP address; empty for all
	BindPort    uint16 // UDP and TCP; 0: any that both have free
}

// Gossip is one process's part in the gossip of its cluster. It is safe for concurrent use.
type Gossip struct {
	o         Options
	members   *metrics.Gauge
	conflicts *metrics.Counter
	refused   *metrics.Counter
	warner    *warner

	life      sync.Mutex // Start and Close come one after the other
	closed    bool
	list      *memberlist.Memberlist // nil until Start, which sets the rest
	transport *transport
	hear      func(News)
	loops     sync.WaitGroup
	stop      chan struct{}
	toTell    chan struct{} // with a buffer of one: there are news, or another hint
	toSeek    chan struct{} // the same: there are other addresses

	mu struct {
		sync.Mutex
		self      meta
		roster    roster
		news      []News // not told yet, one of a node
		addresses []string
	}
}

// New makes one that does nothing yet but show its metrics.
func New(o Options) *Gossip {
	o.seekInterval = cmp.Or(o.seekInterval, seekInterval)
	return &Gossip{
		o:         o,
		members:   o.Metrics.Gauge("weir_gossip_members", "Processes of this cluster's nodes that are heard by gossip, this one included; 0 where there is no gossip."),
		conflicts: o.Metrics.Counter("weir_gossip_conflicts_total", "Times that gossip told of one process at two addresses."),
		refused:   o.Metrics.Counter("weir_gossip_refused_total", "Packets, connections and nodes that gossip refused: another key, another cluster, or too many."),
		warner:    newWarner(o.Logger, o.Clock),
		stop:      make(chan struct{}),
		toTell:    make(chan struct{}, 1),
		toSeek:    make(chan struct{}, 1),
	}
}

// Start begins to gossip with those that have the same key and are of the same cluster; hear is told of all other nodes, in
// order, by one goroutine and until Close returns. It must not block. Of a node that has more than one thing to tell while hear
// is busy only the last is told. Start returns the port that is bound. It may be called once.
//
// Errors: those of the sockets; what Self or key lack. Nothing runs then.
func (g *Gossip) Start(self Self, key []byte, hear func(News)) (uint16, error) {
	if len(key) != 32 {
		return 0, fmt.Errorf("a key of gossip has 32 bytes, and this one %d", len(key))
	}
	g.life.Lock()
	defer g.life.Unlock()
	if g.list != nil || g.closed {
		return 0, errors.New("gossip is started once")
	}
	m := meta{Member: self.Member, ClusterID: self.ClusterID, Incarnation: self.Incarnation, Began: g.o.Clock.Now().UnixMilli()}
	if _, err := m.encode(); err != nil {
		return 0, err
	}
	tcp, udp, err := listen(self.BindHost, self.BindPort)
	if err != nil {
		return 0, err
	}
	bound := tcp.Addr().(*net.TCPAddr).AddrPort()
	advertised, err := advertise(m.Host, bound.Addr().Unmap())
	if err != nil {
		return 0, errors.Join(err, tcp.Close(), udp.Close())
	}
	m.GossipPort = bound.Port()
	g.mu.Lock()
	m.Leader, m.Term = g.mu.self.Leader, g.mu.self.Term
	g.mu.self = m
	g.mu.roster = roster{clusterID: m.ClusterID, self: m.Node, name: m.name(), processes: make(map[string]*process)}
	g.mu.Unlock()
	g.hear = hear
	g.transport = &transport{tcp: tcp, udp: udp, advertised: advertised, clock: g.o.Clock, refused: g.refused, warner: g.warner}
	g.transport.run()
	list, err := memberlist.Create(g.config(m.name(), m.ClusterID, key))
	if err != nil {
		return 0, errors.Join(err, g.transport.Shutdown())
	}
	g.list = list
	g.loops.Go(g.tell)
	g.loops.Go(g.seek)
	return m.GossipPort, nil
}

// config is for clusters of few nodes in one network. A node that says nothing any more is given up after about 3 s where
// another node confirms it; the session of a broker lasts 9 s.
func (g *Gossip) config(name, clusterID string, key []byte) *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	c.Name, c.Label, c.SecretKey = name, clusterID, key
	c.GossipVerifyIncoming, c.GossipVerifyOutgoing, c.RequireNodeNames = true, true, true
	c.EnableCompression = false // there is little to compress
	c.DelegateProtocolVersion, c.DelegateProtocolMin, c.DelegateProtocolMax = metaVersion, metaVersion, metaVersion
	c.TCPTimeout = 3 * time.Second
	c.ProbeInterval, c.ProbeTimeout = 500*time.Millisecond, 200*time.Millisecond
	c.SuspicionMult, c.SuspicionMaxTimeoutMult = 3, 4
	c.DeadNodeReclaimTime = time.Second // names do not come back; should one do, from elsewhere, nobody waits for a minute
	d := delegate{g}
	c.Delegate, c.Events, c.Conflict, c.Alive, c.Merge = d, d, d, d, d
	c.Logger = (&memberlistLog{warner: g.warner, refused: g.refused}).logger()
	c.Transport = g.transport
	if g.o.configure != nil {
		g.o.configure(c)
	}
	return c
}

// advertise finds the address that others send packets to: the host's that they are told, rather the bound one, or one of its
// kind; the bound one where the host has none.
func advertise(host string, bound netip.Addr) (net.IP, error) {
	ctx, cancel := context.WithTimeout(context.Background(), lookupTime)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if !bound.IsUnspecified() {
		found = append(found, bound)
	}
	rank := func(a netip.Addr) int {
		switch {
		case a.IsUnspecified():
			return 0
		case a == bound:
			return 3
		case a.Is4() == (bound.Is4() || bound.IsUnspecified()):
			return 2
		}
		return 1
	}
	best := netip.IPv4Unspecified()
	for _, a := range found {
		if a = a.Unmap(); rank(a) > rank(best) {
			best = a
		}
	}
	if best.IsUnspecified() {
		return nil, fmt.Errorf("%s has no address that others could send packets to: %w", host, cmp.Or(err, errNoAddress))
	}
	return best.AsSlice(), nil
}

var errNoAddress = errors.New("no such host")

// Meet names all addresses (host:port) where other nodes may be. They are tried at once, and now and then as long as nobody is
// heard there.
func (g *Gossip) Meet(addresses []string) {
	g.mu.Lock()
	same := slices.Equal(g.mu.addresses, addresses)
	g.mu.addresses = slices.Clone(addresses)
	g.mu.Unlock()
	if !same {
		wake(g.toSeek)
	}
}

// Hint has others told who leads the quorum, in which term.
func (g *Gossip) Hint(leader uint64, term int32) {
	g.mu.Lock()
	same := g.mu.self.Leader == leader && g.mu.self.Term == term
	g.mu.self.Leader, g.mu.self.Term = leader, term
	g.mu.Unlock()
	if !same {
		wake(g.toTell)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Close tells the others that this node leaves, and ends what Start began. A second call does nothing.
func (g *Gossip) Close() error {
	g.life.Lock()
	defer g.life.Unlock()
	closed := g.closed
	g.closed = true
	if closed || g.list == nil {
		return nil
	}
	close(g.stop)
	g.transport.hangUp()
	g.loops.Wait()
	if err := g.list.Leave(leaveTime); err != nil {
		g.o.Logger.Debug("gossip ends before it is known that others heard of it", "error", err)
	}
	err := g.list.Shutdown()
	g.members.Set(0)
	return err
}

// tell hands out the news, and spreads the hint.
func (g *Gossip) tell() {
	var spread meta    // as it was told last
	var next time.Time // a hint may be spread
	for {
		g.mu.Lock()
		news, self := g.mu.news, g.mu.self
		g.mu.news = nil
		g.mu.Unlock()
		for _, n := range news {
			g.hear(n)
		}
		now := g.o.Clock.Now()
		stale := self.Leader != spread.Leader || self.Term != spread.Term
		if stale && !now.Before(next) {
			_ = g.list.UpdateNode(time.Nanosecond) // that it was not sent meanwhile is no error
			spread, next, stale = self, now.Add(hintInterval), false
		}
		if !g.await(g.toTell, next.Sub(now), stale) {
			return
		}
	}
}

// await waits until somebody wakes, or where there is a limit, that is over; false when gossip ends.
func (g *Gossip) await(woken <-chan struct{}, limit time.Duration, limited bool) bool {
	var due <-chan time.Time
	if limited {
		timer := g.o.Clock.NewTimer(limit)
		defer timer.Stop()
		due = timer.C()
	}
	select {
	case <-woken:
	case <-due:
	case <-g.stop:
		return false
	}
	return true
}

// seek looks for nodes at the addresses where none is heard.
func (g *Gossip) seek() {
	for {
		for _, address := range g.missing() {
			if err := g.join(address); err != nil {
				g.o.Logger.Debug("no other node gossips at an address", "address", address, "error", err)
			}
		}
		if !g.await(g.toSeek, g.o.seekInterval/2+rand.N(g.o.seekInterval), true) {
			return
		}
	}
}

// missing are the addresses to be looked at.
func (g *Gossip) missing() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(g.mu.addresses), g.isHeardAtLocked)
}

// isHeardAtLocked compares as text: what is the same and looks different is tried without need.
func (g *Gossip) isHeardAtLocked(address string) bool {
	at := func(m *meta) bool { return address == net.JoinHostPort(m.Host, strconv.Itoa(int(m.GossipPort))) }
	if at(&g.mu.self) {
		return true
	}
	for _, p := range g.mu.roster.processes {
		if p.alive && at(&p.meta) {
			return true
		}
	}
	return false
}

// join exchanges all that is known with whoever is at an address. The look-up is done here: memberlist's asks name servers for
// more, and does not end when it should.
func (g *Gossip) join(address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(g.transport.dials, lookupTime)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return err
	}
	for _, ip := range found {
		// A name is required and not known yet; it is used for nothing.
		if _, err = g.list.Join([]string{"unknown/" + net.JoinHostPort(ip.Unmap().String(), port)}); err == nil {
			return nil
		}
	}
	return err
}
