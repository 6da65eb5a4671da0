package gossip

import (
	"fmt"
	"time"

	"weir/internal/kafka"
)

const (
	// maxProcesses bounds the roster: Raft and heartbeats carry no cluster as large as that, and whoever has the key could tell of
	// nodes without end.
	maxProcesses = 256
	// forgetAfter is how long the name of a process that is gone stays in the roster: memberlist keeps it about as long.
	forgetAfter = time.Minute
)

// News is what there is to say of another node.
type News struct {
	Member      Member
	Incarnation kafka.UUID
	Gone        bool // nobody hears that incarnation any more, or it left, and none of the node is heard
	Leader      uint64
	Term        int32
}

// process is what is known of a process of another node.
type process struct {
	meta
	alive bool
	ended time.Time // while it is not alive
}

func (p *process) news() News {
	return News{Member: p.Member, Incarnation: p.Incarnation, Gone: !p.alive, Leader: p.Leader, Term: p.Term}
}

// roster is who was heard of. It is pure; Gossip.mu guards it.
type roster struct {
	clusterID string
	self      kafka.BrokerID
	name      string              // of this process
	processes map[string]*process // all others, by their names
}

// admit says why a process must not be listened to.
func (r *roster) admit(name string, m *meta, now time.Time) error {
	switch {
	case m.ClusterID != r.clusterID:
		return fmt.Errorf("it is of cluster %q", m.ClusterID)
	case name != m.name():
		return fmt.Errorf("it calls itself %q and is %q", name, m.name())
	case name == r.name || r.processes[name] != nil:
		return nil
	}
	if len(r.processes) >= maxProcesses {
		r.forget(now)
	}
	if len(r.processes) >= maxProcesses {
		return fmt.Errorf("it is more than the %d that are listened to", maxProcesses)
	}
	return nil
}

// forget makes room.
func (r *roster) forget(now time.Time) {
	for name, p := range r.processes {
		if !p.alive && now.Sub(p.ended) >= forgetAfter {
			delete(r.processes, name)
		}
	}
}

// heard notes that a process is alive, and returns what is news of its node: nothing where a later process of it is heard.
func (r *roster) heard(m meta) (News, bool) {
	if m.name() == r.name {
		return News{}, false
	}
	p := &process{meta: m, alive: true}
	r.processes[m.name()] = p
	return p.news(), r.isOther(m.Node) && r.latest(m.Node) == p
}

// lost notes that a process is gone. It is news where it was what its node was known by, and says then which earlier process of
// the node is heard yet, if one is.
func (r *roster) lost(name string, now time.Time) (News, bool) {
	p := r.processes[name]
	if p == nil || !p.alive {
		return News{}, false
	}
	known := r.isOther(p.Node) && r.latest(p.Node) == p
	p.alive, p.ended = false, now
	if other := r.latest(p.Node); other != nil {
		p = other
	}
	return p.news(), known
}

// isOther is false for what this node was before, and for a node that was given the same id by mistake.
func (r *roster) isOther(node kafka.BrokerID) bool { return node != r.self }

// latest is the process that a node is known by: of those that are alive the one that began last. Their clocks may be wrong; then
// the wrong one is known until it is gone.
func (r *roster) latest(node kafka.BrokerID) (latest *process) {
	for _, p := range r.processes {
		if p.alive && p.Node == node && (latest == nil || p.Began > latest.Began || p.Began == latest.Began && p.name() > latest.name()) {
			latest = p
		}
	}
	return latest
}

// alive counts the processes that are heard.
func (r *roster) alive() (n int) {
	for _, p := range r.processes {
		if p.alive {
			n++
		}
	}
	return n
}
