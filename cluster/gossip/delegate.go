package gossip

import (
	"fmt"
	"slices"

	"github.com/hashicorp/memberlist"
)

// delegate is what memberlist calls, mostly under its lock: all of it copies, notes and returns.
type delegate struct{ g *Gossip }

var (
	_ memberlist.Delegate         = delegate{}
	_ memberlist.EventDelegate    = delegate{}
	_ memberlist.ConflictDelegate = delegate{}
	_ memberlist.AliveDelegate    = delegate{}
	_ memberlist.MergeDelegate    = delegate{}
)

// NodeMeta implements memberlist.Delegate. Start has seen that there is one.
func (d delegate) NodeMeta(int) []byte {
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	b, _ := d.g.mu.self.encode()
	return b
}

// NotifyMsg and the rest of memberlist.Delegate are for messages of our own, and there are none.
func (delegate) NotifyMsg([]byte) {}

// GetBroadcasts implements memberlist.Delegate.
func (delegate) GetBroadcasts(int, int) [][]byte { return nil }

// LocalState implements memberlist.Delegate.
func (delegate) LocalState(bool) []byte { return nil }

// MergeRemoteState implements memberlist.Delegate.
func (delegate) MergeRemoteState([]byte, bool) {}

// NotifyAlive implements memberlist.AliveDelegate: it says whom not to believe to be there.
func (d delegate) NotifyAlive(n *memberlist.Node) error {
	m, err := decodeMeta(n.Meta)
	if err == nil {
		d.g.mu.Lock()
		err = d.g.mu.roster.admit(n.Name, &m, d.g.o.Clock.Now())
		d.g.mu.Unlock()
	}
	if err != nil {
		d.g.refused.Inc()
		d.g.warner.warn("a node that gossip tells of is refused", "name", printable(n.Name), "address", n.Address(), "why", err)
	}
	return err
}

// printable bounds what an unknown node calls itself.
func printable(name string) string { return fmt.Sprintf("%.64q", name) }

// NotifyMerge implements memberlist.MergeDelegate. It refuses a whole view only for what no node of this cluster would have let
// in: single nodes are judged by NotifyAlive, lest one of them that is strange keep nodes from finding each other.
func (d delegate) NotifyMerge(nodes []*memberlist.Node) error {
	err := d.mergeable(nodes)
	if err != nil {
		d.g.refused.Inc()
		d.g.warner.warn("another node's view of the cluster is refused", "why", err)
	}
	return err
}

func (d delegate) mergeable(nodes []*memberlist.Node) error {
	if len(nodes) > 2*maxProcesses { // those that are alive, and as many that are gone
		return fmt.Errorf("it names %d nodes", len(nodes))
	}
	d.g.mu.Lock()
	defer d.g.mu.Unlock()
	for _, n := range nodes {
		if m, err := decodeMeta(n.Meta); err == nil && m.ClusterID != d.g.mu.roster.clusterID {
			return fmt.Errorf("a node at %s is of cluster %q", n.Address(), m.ClusterID)
		}
	}
	return nil
}

// NotifyConflict implements memberlist.ConflictDelegate.
func (d delegate) NotifyConflict(existing, other *memberlist.Node) {
	d.g.conflicts.Inc()
	d.g.warner.warn("gossip tells of one process at two addresses", "name", printable(existing.Name), "address", existing.Address(), "other", other.Address())
}

// NotifyJoin implements memberlist.EventDelegate.
func (d delegate) NotifyJoin(n *memberlist.Node) { d.heard(n) }

// NotifyUpdate implements memberlist.EventDelegate.
func (d delegate) NotifyUpdate(n *memberlist.Node) { d.heard(n) }

func (d delegate) heard(n *memberlist.Node) {
	m, err := decodeMeta(n.Meta)
	if err != nil {
		return // NotifyAlive let it through before that, so it cannot be
	}
	m.GossipPort = n.Port
	d.g.mu.Lock()
	news, ok := d.g.mu.roster.heard(m)
	d.noteLocked(news, ok)
	d.g.mu.Unlock()
}

// NotifyLeave implements memberlist.EventDelegate: the node left, or is not heard.
func (d delegate) NotifyLeave(n *memberlist.Node) {
	d.g.mu.Lock()
	news, ok := d.g.mu.roster.lost(n.Name, d.g.o.Clock.Now())
	d.noteLocked(news, ok)
	d.g.mu.Unlock()
}

// noteLocked replaces what is not told yet of the same node.
func (d delegate) noteLocked(news News, ok bool) {
	d.g.members.Set(int64(1 + d.g.mu.roster.alive()))
	if !ok {
		return
	}
	d.g.mu.news = append(slices.DeleteFunc(d.g.mu.news, func(n News) bool { return n.Member.Node == news.Member.Node }), news)
	wake(d.g.toTell)
}
