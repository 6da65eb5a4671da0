package group

import (
	"maps"
	"slices"
	"time"

	"weir/coordinator"
)

// group returns nil where there is no such group.
func (s *Shard) group(id string) *classic { return s.groups[id] }

// ensureGroup returns a group. Where there is none it makes an empty one, of the type and generation that are on record:
// it was forgotten to be deleted, and is not.
func (s *Shard) ensureGroup(id string) *classic {
	if g := s.groups[id]; g != nil {
		return g
	}
	g := newClassic(id, -1)
	s.groups[id] = g
	if m := s.hard.metadata[id]; m != nil {
		g.since, g.generation, g.protocolType = m.StateTimestamp, m.Generation, m.ProtocolType
		g.topics = g.subscriptions()
	}
	return g
}

// restore takes over the members that are on record. A member supports what it said in the protocol of its generation:
// all that is known until it joins again.
func (g *classic) restore(from *metadata) {
	if from == nil || len(from.Members) == 0 {
		return
	}
	if from.Protocol != nil {
		g.protocol = *from.Protocol
	}
	for i := range from.Members {
		f := &from.Members[i]
		g.add(&liveMember{
			group: g, id: f.ID, instanceID: f.InstanceID, clientID: f.ClientID, clientHost: f.ClientHost,
			rebalanceTimeout: f.RebalanceTimeout, sessionTimeout: f.SessionTimeout,
			protocols: []protocol{{name: g.protocol, metadata: f.Subscription}}, assignment: f.Assignment,
		})
	}
	if from.Leader != nil && g.members[*from.Leader] != nil {
		g.leader = g.members[*from.Leader]
	}
	g.state = stateStable
	g.topics = g.subscriptions()
}

// forget drops the soft state of a group that has no members, and cancels its timers.
func (s *Shard) forget(id string) (timers []coordinator.Timer) {
	g := s.groups[id]
	if g == nil {
		return nil
	}
	delete(s.groups, id)
	for _, m := range slices.SortedFunc(maps.Values(g.pending), byID) {
		timers = append(timers, coordinator.Timer{Key: sessionTimer{m}})
	}
	return timers
}

// loaded makes groups of what has been loaded. Their members have a whole session to be heard of. A group that is above a
// limit which was lowered rebalances, so that it can lose members.
func (s *Shard) loaded(now time.Time) coordinator.Output {
	st := step{Shard: s, now: now}
	ids := slices.AppendSeq(slices.Collect(maps.Keys(s.hard.metadata)), maps.Keys(s.hard.offsets.byGroup))
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		g := s.ensureGroup(id)
		g.restore(s.hard.metadata[id])
		for _, m := range g.list {
			st.keepSession(m)
		}
		if len(g.list) > int(s.settings.MaxSize) {
			st.prepareRebalance(g)
		}
	}
	st.out.Timers = append(st.out.Timers, s.expiryTimer(now))
	return st.out
}
