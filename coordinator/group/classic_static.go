package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// replaced comes back when it is on record that a static member has a new id, or not.
type replaced struct {
	old, m *liveMember // old as it was
	call   *coordinator.Call
	// oldLeader is the id that led the group before: it may be that of old.
	oldLeader string
}

// replaceStatic gives the place of a static member to one that comes back without an id (KIP-345). Whoever still uses the
// old id is fenced. A stable group goes on as it is, unless the election of the protocol would go otherwise now.
func (st *step) replaceStatic(old *liveMember, c *coordinator.Call, req *kmsg.JoinGroupRequest) {
	g := old.group
	was := replaced{old: new(*old), call: c, oldLeader: g.leader.id}
	m := st.swap(old, st.newMemberID(*req.InstanceID))
	was.m = m
	st.keepSession(m) // with the timeout of old: the new one holds from the answer on
	st.update(m, req)
	st.awaitJoin(m, c)
	switch {
	case g.state == statePreparingRebalance:
		st.completeJoinIfReady(g)
	case g.state == stateStable && g.elect() == g.protocol:
		st.out.Records = append(st.out.Records, groupMetadataRecord(st.now, g.id, g.metadata((*liveMember).assigned)))
		st.out.After = was
	default:
		// While the leader makes the assignment it knows the old id alone.
		st.prepareRebalance(g)
	}
}

func (m *liveMember) assigned() []byte { return m.assignment }

// swap puts a member with another id in the place of a static one, whose calls are answered with FENCED_INSTANCE_ID.
func (st *step) swap(old *liveMember, id string) *liveMember {
	g := old.group
	st.refuseJoin(old, old.id, kafka.FencedInstanceID)
	st.refuseSync(old, kafka.FencedInstanceID)
	st.cancelTimer(sessionTimer{old})
	m := new(*old)
	m.id, m.isNew = id, false
	delete(g.members, old.id)
	g.members[id] = m
	g.instances[*m.instanceID] = m
	g.list[slices.Index(g.list, old)] = m
	if g.leader == old {
		g.leader = m
	}
	return m
}

// staticReplaced answers the member that came back. Where a rebalance has begun meanwhile, its JoinGroup waits in that.
// Without the record the old id is put back: it is the one that a broker which takes over would know.
func (st *step) staticReplaced(r replaced, err error) {
	m, g := r.m, r.m.group
	if !st.lives(g) || g.members[m.id] != m {
		return // answered when it was removed, or fenced in its turn
	}
	waits := m.join == r.call
	if err != nil {
		if waits {
			resp := acceptedJoin(m.join, m)
			resp.ErrorCode, resp.MemberID, resp.LeaderID = int16(kafka.CodeOf(err)), "", r.oldLeader
			st.answerJoin(m, resp)
		}
		g.count(m, -1)
		m.protocols, m.rebalanceTimeout, m.sessionTimeout = r.old.protocols, r.old.rebalanceTimeout, r.old.sessionTimeout
		g.count(m, 1)
		st.keepSession(st.swap(m, r.old.id))
		return
	}
	if g.state != stateStable {
		return
	}
	g.topics = g.subscriptions()
	if !waits {
		return
	}
	resp := acceptedJoin(m.join, m)
	switch {
	case resp.Version < 9:
		// A leader that cannot be told to skip the assignment must not think that it leads.
		resp.LeaderID = r.oldLeader
	case g.leader == m:
		tellMembers(resp, g)
		resp.SkipAssignment = true // KIP-814
	}
	st.answerJoin(m, resp)
	st.keepSession(m) // it may have ended while the record was being written
}
