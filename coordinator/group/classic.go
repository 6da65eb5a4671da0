package group

import (
	"slices"
	"strings"
	"time"

	"weir/coordinator"
	"weir/internal/kafka"
)

// state is where a classic group is in its protocol. A group that does not exist is called Dead.
type state uint8

const (
	stateEmpty               state = iota // no members; offsets may be there
	statePreparingRebalance               // members join, or are waited for
	stateCompletingRebalance              // all have joined; the leader's assignment is waited for
	stateStable                           // members have their assignments
)

const stateDead = "Dead"

var stateNames = [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}

// String gives the name on the wire.
func (s state) String() string { return stateNames[s] }

// consumerProtocol is the protocol type whose subscriptions the coordinator understands; all others are opaque.
const consumerProtocol = "consumer"

// classic is the soft state of one group of the classic protocol. What is not in a record is lost when another broker
// takes over: members that wait, sessions, and a generation that no leader has synced.
type classic struct {
	id         string
	state      state
	since      int64 // ms since the epoch: when the group came into its state; -1: not known
	generation int32

	protocolType string // empty until a first member names it, then kept
	protocol     string // of this generation; empty where there is none

	leader    *liveMember
	list      []*liveMember // in the order of joining
	members   map[string]*liveMember
	instances map[string]*liveMember // the static members among them, by instance id (KIP-345)
	pending   map[string]*liveMember // given an id, not yet back with it (KIP-394); not members

	supported map[string]int // members that support a protocol, by its name
	joining   int            // members whose JoinGroup waits
	unsynced  int            // members that have joined this generation and not asked for its assignment

	initial initialRebalance
	storing *synced // the leader's assignment, while it is being written

	// topics are what the members of this generation subscribe to; nil where that is not known.
	topics map[string]struct{}
}

// initialRebalance is the first rebalance of an empty group: it ends when no member arrived for a whole delay, or with
// the rebalance timeout.
type initialRebalance struct {
	active    bool
	arrived   bool          // a member came since the delay began
	delay     time.Duration // that runs
	remaining time.Duration // that it may be extended by
}

// liveMember is a member of a classic group, or a pending one. Bytes are replaced, never changed in place: answers that
// still have to be written refer to them.
type liveMember struct {
	group      *classic
	id         string
	instanceID *string // of a static member
	clientID   string
	clientHost string

	rebalanceTimeout int32 // ms
	sessionTimeout   int32 // ms
	protocols        []protocol
	assignment       []byte

	join *coordinator.Call // JoinGroup that waits for the others
	sync *coordinator.Call // SyncGroup that waits for the leader's

	isNew    bool // has not had an answer to its first JoinGroup
	unsynced bool
}

// protocol is one that a member supports, in order of preference.
type protocol struct {
	name     string
	metadata []byte
	repeated bool // named before: it does not count
}

// The keys of timers.
type (
	sessionTimer struct{ m *liveMember }
	joinTimer    struct{ g *classic }
	syncTimer    struct{ g *classic }
)

func newClassic(id string, since int64) *classic {
	return &classic{
		id: id, since: since,
		members: make(map[string]*liveMember), instances: make(map[string]*liveMember), pending: make(map[string]*liveMember),
		supported: make(map[string]int),
	}
}

func (g *classic) isEmpty() bool { return g.state == stateEmpty }

// emptySince returns when an empty group became so, in ms since the epoch; -1: not known.
func (g *classic) emptySince() int64 { return g.since }

// subscribed reports whether a member of the group subscribes to a topic. Members of the consumer protocol whose
// subscription is not known count as subscribed to everything.
func (g *classic) subscribed(topic string) bool {
	if g.topics == nil {
		return g.protocolType == consumerProtocol
	}
	_, yes := g.topics[topic]
	return yes
}

func (g *classic) moveTo(s state, now time.Time) { g.state, g.since = s, now.UnixMilli() }

// add makes a member of m, which is none yet.
func (g *classic) add(m *liveMember) {
	g.members[m.id] = m
	g.list = append(g.list, m)
	if m.instanceID != nil {
		g.instances[*m.instanceID] = m
	}
	if g.leader == nil {
		g.leader = m
	}
	g.count(m, 1)
}

// drop takes a member, or a pending one, out of the group. Its calls have been answered.
func (g *classic) drop(m *liveMember) {
	if g.pending[m.id] == m {
		delete(g.pending, m.id)
		return
	}
	delete(g.members, m.id)
	g.list = slices.DeleteFunc(g.list, func(other *liveMember) bool { return other == m })
	if m.instanceID != nil {
		delete(g.instances, *m.instanceID)
	}
	g.count(m, -1)
	if m.unsynced {
		m.unsynced = false
		g.unsynced--
	}
	if g.leader == m {
		g.leader = nil
		if len(g.list) > 0 {
			g.leader = g.list[0]
		}
	}
}

// count adds n members that support what m supports.
func (g *classic) count(m *liveMember, n int) {
	for i := range m.protocols {
		p := &m.protocols[i]
		if p.repeated {
			continue
		}
		if g.supported[p.name] += n; g.supported[p.name] == 0 {
			delete(g.supported, p.name)
		}
	}
}

func (g *classic) allJoined() bool { return g.joining == len(g.members) && len(g.pending) == 0 }

// rebalanceTimeout is the longest of the members'.
func (g *classic) rebalanceTimeout() time.Duration {
	longest := int32(0)
	for _, m := range g.list {
		longest = max(longest, m.rebalanceTimeout)
	}
	return milliseconds(longest)
}

// electLeader sees to a leader that has joined. It reports false where no member has.
func (g *classic) electLeader() bool {
	if g.leader == nil {
		return false
	}
	if g.leader.join != nil {
		return true
	}
	i := slices.IndexFunc(g.list, func(m *liveMember) bool { return m.join != nil })
	if i < 0 {
		return false
	}
	g.leader = g.list[i]
	return true
}

// elect returns the protocol that most members prefer among those that all support. Where two have as many votes, the
// members that joined first decide.
func (g *classic) elect() string {
	votes := make(map[string]int, len(g.supported))
	best := ""
	for _, m := range slices.Backward(g.list) {
		for i := range m.protocols {
			name := m.protocols[i].name
			if g.supported[name] != len(g.members) {
				continue
			}
			if votes[name]++; votes[name] >= votes[best] {
				best = name
			}
			break
		}
	}
	return best
}

// check finds what is wrong with how a request names a member: the instance comes before the id.
func (g *classic) check(memberID string, instanceID *string) kafka.Code {
	if instanceID != nil {
		switch m := g.instances[*instanceID]; {
		case m == nil:
			return kafka.UnknownMemberID
		case m.id != memberID:
			return kafka.FencedInstanceID
		}
	}
	if g.members[memberID] == nil {
		return kafka.UnknownMemberID
	}
	return kafka.None
}

// metadata is what a record says of the group, with these assignments.
func (g *classic) metadata(assignment func(*liveMember) []byte) *metadata {
	m := &metadata{ProtocolType: g.protocolType, Generation: g.generation, StateTimestamp: g.since, Members: make([]member, 0, len(g.list))}
	if g.leader != nil {
		m.Leader = &g.leader.id
	}
	if len(g.list) > 0 {
		m.Protocol = &g.protocol
	}
	for _, from := range g.list {
		m.Members = append(m.Members, member{
			ID: from.id, InstanceID: from.instanceID, ClientID: from.clientID, ClientHost: from.clientHost,
			RebalanceTimeout: from.rebalanceTimeout, SessionTimeout: from.sessionTimeout,
			Subscription: from.metadata(g.protocol), Assignment: assignment(from),
		})
	}
	return m
}

// metadata returns what the member says in a protocol; that which is named first counts.
func (m *liveMember) metadata(protocol string) []byte {
	for i := range m.protocols {
		if m.protocols[i].name == protocol {
			return m.protocols[i].metadata
		}
	}
	return nil
}

func byID(a, b *liveMember) int { return strings.Compare(a.id, b.id) }

func (m *liveMember) static() bool { return m.instanceID != nil }

func milliseconds(n int32) time.Duration { return time.Duration(n) * time.Millisecond }
