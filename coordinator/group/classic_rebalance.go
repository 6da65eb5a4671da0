package group

import (
	"time"

	"weir/internal/kafka"
)

// rebalanceOrComplete begins a rebalance, or where one is under way looks whether it has all its members now.
func (st *step) rebalanceOrComplete(g *classic) {
	if g.state == statePreparingRebalance {
		st.completeJoinIfReady(g)
		return
	}
	st.prepareRebalance(g)
}

// prepareRebalance waits for all members to join: as long as the longest rebalance timeout, or for an empty group as
// long as group.initial.rebalance.delay.ms says, so that members that start together share one generation.
func (st *step) prepareRebalance(g *classic) {
	if g.state == stateCompletingRebalance {
		g.storing = nil
		st.resetAssignments(g, kafka.RebalanceInProgress)
	}
	if g.unsynced > 0 {
		for _, m := range g.list {
			m.unsynced = false
		}
		g.unsynced = 0
		st.cancelTimer(syncTimer{g})
	}
	wasEmpty := g.isEmpty()
	g.moveTo(statePreparingRebalance, st.now)
	switch {
	case wasEmpty:
		delay := st.settings.InitialRebalanceDelay
		g.initial = initialRebalance{active: true, delay: delay, remaining: max(g.rebalanceTimeout()-delay, 0)}
		st.setTimer(joinTimer{g}, delay)
	case g.allJoined():
		st.completeJoin(g)
	default:
		st.setTimer(joinTimer{g}, g.rebalanceTimeout())
	}
}

// completeJoinIfReady ends the wait when all members have joined. That of an initial rebalance lasts its time.
func (st *step) completeJoinIfReady(g *classic) {
	if g.state == statePreparingRebalance && !g.initial.active && g.allJoined() {
		st.completeJoin(g)
	}
}

// joinTimedOut ends the wait for members, or extends that of an initial rebalance to which somebody came.
func (st *step) joinTimedOut(g *classic) {
	if !st.lives(g) || g.state != statePreparingRebalance {
		return
	}
	i := &g.initial
	if !i.active || !i.arrived || i.remaining == 0 {
		st.completeJoin(g)
		return
	}
	next := min(st.settings.InitialRebalanceDelay, i.remaining)
	*i = initialRebalance{active: true, delay: next, remaining: max(i.remaining-i.delay, 0)}
	st.setTimer(joinTimer{g}, next)
}

// minAwayWait is how long static members that are away are waited for at least before the group looks again. Kafka has no
// such bound: with a rebalance timeout of 0 it looks without end.
const minAwayWait = time.Second

// completeJoin begins the next generation, with those that have joined and the static members: these may be away until
// their session ends.
func (st *step) completeJoin(g *classic) {
	st.cancelTimer(joinTimer{g})
	g.initial.active = false
	st.removeMembers(g, func(m *liveMember) bool { return m.join == nil && !m.static() })
	if !g.electLeader() && len(g.members) > 0 {
		// Only static members are left, and none is here. Their sessions decide.
		st.setTimer(joinTimer{g}, max(g.rebalanceTimeout(), minAwayWait))
		return
	}
	g.generation++
	if len(g.members) == 0 {
		st.becomeEmpty(g)
		return
	}
	g.protocol = g.elect()
	g.topics = g.subscriptions()
	g.moveTo(stateCompletingRebalance, st.now)
	g.unsynced = len(g.list)
	for _, m := range g.list {
		m.isNew, m.unsynced = false, true
		st.keepSession(m)
		if m.join == nil {
			continue
		}
		resp := acceptedJoin(m.join, m)
		if m == g.leader {
			tellMembers(resp, g)
		}
		st.answerJoin(m, resp)
	}
	st.setTimer(syncTimer{g}, g.rebalanceTimeout())
}

// becomeEmpty writes that nobody is left. Nobody waits for that record: should it be lost, the members of the generation
// before come back when the partition is loaded, and their sessions end.
func (st *step) becomeEmpty(g *classic) {
	g.protocol = ""
	g.topics = g.subscriptions()
	g.moveTo(stateEmpty, st.now)
	st.out.Records = append(st.out.Records, groupMetadataRecord(st.now, g.id, g.metadata(nil)))
}

// syncTimedOut removes the members that joined and have not asked for their assignment.
func (st *step) syncTimedOut(g *classic) {
	if !st.lives(g) || g.unsynced == 0 {
		return
	}
	st.removeMembers(g, func(m *liveMember) bool { return m.unsynced })
	st.prepareRebalance(g)
}

// sessionEnded removes a member that was not heard of in time. Whoever waits for an answer need not send heartbeats, but
// a new member does not wait for ever.
func (st *step) sessionEnded(m *liveMember) {
	g := m.group
	switch {
	case !st.lives(g):
	case g.pending[m.id] == m:
		st.remove(m)
		if g.state == statePreparingRebalance && g.allJoined() {
			st.completeJoin(g)
		}
	case g.members[m.id] == m && (m.isNew || m.join == nil && m.sync == nil):
		st.remove(m)
		if g.state != statePreparingRebalance {
			st.prepareRebalance(g)
		} else if g.allJoined() {
			st.completeJoin(g)
		}
	}
}

// removeMembers removes those of a kind.
func (st *step) removeMembers(g *classic, kind func(*liveMember) bool) {
	var gone []*liveMember
	for _, m := range g.list {
		if kind(m) {
			gone = append(gone, m)
		}
	}
	for _, m := range gone {
		st.remove(m)
	}
}
