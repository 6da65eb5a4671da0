package group

import (
	"bytes"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// SyncGroup: v0–5
//   - v3: static members. v5: protocol type and name are mandatory, and must be the group's (KIP-559).

// synced comes back when the assignment of a generation is committed, or not.
type synced struct {
	g           *classic
	assignments map[string][]byte // by member
}

func (s *Shard) sync(now time.Time, c *coordinator.Call, req *kmsg.SyncGroupRequest) coordinator.Output {
	st := step{Shard: s, now: now}
	g := s.groups[req.Group]
	if code := refuseSyncRequest(g, req); code != kafka.None {
		st.reply(c, refusedSync(c, code))
		return st.out
	}
	m := g.members[req.MemberID]
	if g.state == stateStable {
		st.hasSynced(m)
		st.reply(c, assigned(c, m))
		return st.out
	}
	st.awaitSync(m, c)
	if m == g.leader {
		st.storeAssignments(g, req.GroupAssignment)
	}
	return st.out
}

// refuseSyncRequest finds why a member cannot have an assignment; g is nil where the group is not known.
func refuseSyncRequest(g *classic, req *kmsg.SyncGroupRequest) kafka.Code {
	switch {
	case req.Version >= 5 && (req.ProtocolType == nil || req.Protocol == nil):
		return kafka.InconsistentGroupProtocol
	case req.Group == "":
		return kafka.InvalidGroupID
	case g == nil || g.isEmpty():
		return kafka.UnknownMemberID
	}
	if code := g.check(req.MemberID, req.InstanceID); code != kafka.None {
		return code
	}
	other := func(asked *string, is string) bool { return asked != nil && is != "" && *asked != is }
	switch {
	case req.Generation != g.generation:
		return kafka.IllegalGeneration
	case other(req.ProtocolType, g.protocolType) || other(req.Protocol, g.protocol):
		return kafka.InconsistentGroupProtocol
	case g.state == statePreparingRebalance:
		return kafka.RebalanceInProgress
	}
	return kafka.None
}

// storeAssignments writes what the leader assigned. A member that it does not name gets nothing, which is not an error;
// the bytes are the clients' own affair. Nobody is answered before they are committed.
func (st *step) storeAssignments(g *classic, from []kmsg.SyncGroupRequestGroupAssignment) {
	after := &synced{g: g, assignments: make(map[string][]byte, len(g.members))}
	for i := range from {
		if id := from[i].MemberID; g.members[id] != nil {
			after.assignments[id] = bytes.Clone(from[i].MemberAssignment)
		}
	}
	record := groupMetadataRecord(st.now, g.id, g.metadata(func(m *liveMember) []byte { return after.assignments[m.id] }))
	st.out.Records = append(st.out.Records, record)
	st.out.After = after
	g.storing = after
}

// assignmentsStored makes the group stable, unless it has gone on to another rebalance since, or its leader asked again.
func (st *step) assignmentsStored(after *synced, err error) {
	g := after.g
	if !st.lives(g) || g.storing != after {
		return
	}
	g.storing = nil
	if err != nil {
		st.resetAssignments(g, kafka.CodeOf(err))
		st.prepareRebalance(g)
		return
	}
	g.moveTo(stateStable, st.now)
	for _, m := range g.list {
		m.assignment = after.assignments[m.id]
		if m.sync != nil {
			st.reply(m.sync, assigned(m.sync, m))
			m.sync = nil
			st.keepSession(m) // it was not asked to send heartbeats while it waited
		}
	}
}

// resetAssignments answers those that wait for an assignment that will not come.
func (st *step) resetAssignments(g *classic, code kafka.Code) {
	for _, m := range g.list {
		m.assignment = nil
		if m.sync != nil {
			st.refuseSync(m, code)
			st.keepSession(m)
		}
	}
}
