package group

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// JoinGroup: v0–9
//   - v0 has no rebalance timeout: the session timeout serves for both.
//   - v4: a new dynamic member is given an id and comes back with it (KIP-394).
//   - v5: static members (KIP-345). v9: a static leader may be told to skip the assignment (KIP-814).
//   - v8: a reason (KIP-800), which only says why: nothing depends on it.

// newMemberJoinTimeout bounds how long the first JoinGroup of a member waits. Such a member has no session: it may not
// know its id, and nobody would notice that it went away. Kafka has the same five minutes.
const newMemberJoinTimeout = 5 * time.Minute

// created comes back when the record of a new group is committed, or not.
type created struct{ g *classic }

func (s *Shard) join(now time.Time, c *coordinator.Call, req *kmsg.JoinGroupRequest) coordinator.Output {
	st := step{Shard: s, now: now}
	if code := s.refuseJoinRequest(req); code != kafka.None {
		st.reply(c, refusedJoin(c, req.MemberID, code))
		return st.out
	}
	g := s.groups[req.Group]
	if g == nil {
		g = newClassic(strings.Clone(req.Group), now.UnixMilli())
		s.groups[g.id] = g
		// As in Kafka the group is there from now on, even where the member is refused.
		st.out.Records = append(st.out.Records, groupMetadataRecord(now, g.id, g.metadata(nil)))
		st.out.After = created{g}
	}
	switch {
	case !st.hasRoom(g, req.MemberID):
		st.reply(c, refusedJoin(c, "", kafka.GroupMaxSizeReached))
		st.turnAway(g, req.MemberID)
	case req.MemberID == "":
		st.joinNew(g, c, req)
	default:
		st.joinKnown(g, c, req)
	}
	return st.out
}

// refuseJoinRequest finds what is wrong with a request before its member is looked for.
func (s *Shard) refuseJoinRequest(req *kmsg.JoinGroupRequest) kafka.Code {
	session := milliseconds(req.SessionTimeoutMillis)
	switch {
	case req.Group == "":
		return kafka.InvalidGroupID
	case session < s.settings.MinSessionTimeout || session > s.settings.MaxSessionTimeout:
		return kafka.InvalidSessionTimeout
	case s.groups[req.Group] == nil && req.MemberID != "":
		return kafka.UnknownMemberID
	}
	return kafka.None
}

// hasRoom reports whether group.max.size admits one more to join. While a rebalance is prepared those count that have
// joined, so that a group above a limit that was lowered loses whoever comes last.
func (st *step) hasRoom(g *classic, memberID string) bool {
	m, limit := g.members[memberID], int(st.settings.MaxSize)
	switch g.state {
	case stateEmpty:
		return true
	case statePreparingRebalance:
		return m != nil && m.join != nil || g.joining < limit
	}
	return m != nil || len(g.members) < limit
}

// turnAway forgets a member that found no room. It may have been the last that the others waited for.
func (st *step) turnAway(g *classic, memberID string) {
	if m := g.members[memberID]; m != nil {
		st.remove(m)
	} else if m := g.pending[memberID]; m != nil {
		st.remove(m)
	} else {
		return
	}
	st.completeJoinIfReady(g)
}

// joinNew lets a member join that has no id yet.
func (st *step) joinNew(g *classic, c *coordinator.Call, req *kmsg.JoinGroupRequest) {
	if !g.supports(req) {
		st.reply(c, refusedJoin(c, "", kafka.InconsistentGroupProtocol))
		return
	}
	prefix := c.ClientID
	if req.InstanceID != nil {
		prefix = *req.InstanceID
	}
	if len(prefix) > maxMemberIDPrefix {
		st.reply(c, refusedJoin(c, "", kafka.UnknownServerError))
		return
	}
	if req.InstanceID != nil {
		if old := g.instances[*req.InstanceID]; old != nil {
			st.replaceStatic(old, c, req)
			return
		}
		st.admit(&liveMember{group: g, id: st.newMemberID(prefix)}, c, req)
		return
	}
	m := &liveMember{group: g, id: st.newMemberID(prefix)}
	if req.Version < 4 {
		st.admit(m, c, req)
		return
	}
	g.pending[m.id] = m
	st.setTimer(sessionTimer{m}, milliseconds(req.SessionTimeoutMillis))
	st.reply(c, refusedJoin(c, m.id, kafka.MemberIDRequired))
}

// joinKnown lets a member join that says who it is.
func (st *step) joinKnown(g *classic, c *coordinator.Call, req *kmsg.JoinGroupRequest) {
	refuse := func(memberID string, code kafka.Code) { st.reply(c, refusedJoin(c, memberID, code)) }
	if !g.supports(req) {
		refuse(req.MemberID, kafka.InconsistentGroupProtocol)
		return
	}
	if m := g.pending[req.MemberID]; m != nil {
		if req.InstanceID != nil { // static members are never pending; Kafka fails here
			refuse("", kafka.UnknownServerError)
			return
		}
		delete(g.pending, m.id)
		st.admit(m, c, req)
		return
	}
	if code := g.check(req.MemberID, req.InstanceID); code != kafka.None {
		refuse(req.MemberID, code)
		return
	}
	m := g.members[req.MemberID]
	if st.answerUnchanged(m, c, req) {
		return
	}
	st.update(m, req)
	st.awaitJoin(m, c)
	st.rebalanceOrComplete(g)
}

// answerUnchanged repeats the answer of the current generation to a member that brings nothing new. A stable group's
// leader always does: it asks for a rebalance that way, as when there are more partitions.
func (st *step) answerUnchanged(m *liveMember, c *coordinator.Call, req *kmsg.JoinGroupRequest) bool {
	g := m.group
	isLeader := g.leader == m
	if g.state == statePreparingRebalance || g.state == stateStable && isLeader || !m.matches(req.Protocols) {
		return false
	}
	resp := acceptedJoin(c, m)
	if isLeader {
		tellMembers(resp, g)
	}
	st.reply(c, resp)
	return true
}

// admit makes a member of m, whose first JoinGroup this is.
func (st *step) admit(m *liveMember, c *coordinator.Call, req *kmsg.JoinGroupRequest) {
	g := m.group
	if req.InstanceID != nil {
		m.instanceID = new(strings.Clone(*req.InstanceID))
	}
	m.clientID, m.clientHost, m.isNew = strings.Clone(c.ClientID), strings.Clone(c.ClientHost), true
	m.configure(req)
	g.initial.arrived = true
	if len(g.members) == 0 {
		g.protocolType = strings.Clone(req.ProtocolType)
	}
	g.add(m)
	st.awaitJoin(m, c)
	st.setTimer(sessionTimer{m}, newMemberJoinTimeout)
	st.rebalanceOrComplete(g)
}

// update takes over what a member says anew.
func (st *step) update(m *liveMember, req *kmsg.JoinGroupRequest) {
	m.group.count(m, -1)
	m.configure(req)
	m.group.count(m, 1)
}

// configure sets what the request says of its member.
func (m *liveMember) configure(req *kmsg.JoinGroupRequest) {
	m.sessionTimeout, m.rebalanceTimeout = req.SessionTimeoutMillis, req.RebalanceTimeoutMillis
	if req.Version == 0 {
		m.rebalanceTimeout = req.SessionTimeoutMillis
	}
	if m.matches(req.Protocols) {
		return
	}
	m.protocols = make([]protocol, len(req.Protocols))
	seen := make(map[string]bool, len(req.Protocols))
	for i := range req.Protocols {
		name := strings.Clone(req.Protocols[i].Name)
		m.protocols[i] = protocol{name, bytes.Clone(req.Protocols[i].Metadata), seen[name]}
		seen[name] = true
	}
}

// matches reports whether the member says the same as before, in the same order.
func (m *liveMember) matches(protocols []kmsg.JoinGroupRequestProtocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(p protocol, q kmsg.JoinGroupRequestProtocol) bool {
		return p.name == q.Name && bytes.Equal(p.metadata, q.Metadata)
	})
}

// supports reports whether a member may join with what it supports: the group's type, and one protocol that all have.
func (g *classic) supports(req *kmsg.JoinGroupRequest) bool {
	if g.state == stateEmpty {
		return req.ProtocolType != "" && len(req.Protocols) > 0
	}
	return req.ProtocolType == g.protocolType && slices.ContainsFunc(req.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return g.supported[p.Name] == len(g.members)
	})
}

// maxMemberIDPrefix leaves a member's id a string that records and old answers can hold.
const maxMemberIDPrefix = math.MaxInt16 - len("-00000000-0000-4000-8000-000000000000")

// newMemberID makes an id of a random UUID (version 4), after the client's id or the instance's as operators expect it.
func (s *Shard) newMemberID(prefix string) string {
	high, low := s.rand.Uint64(), s.rand.Uint64()
	high = high&^0xf000 | 0x4000
	low = low&^(3<<62) | 2<<62
	return fmt.Sprintf("%s-%08x-%04x-%04x-%04x-%012x", prefix, high>>32, high>>16&0xffff, high&0xffff, low>>48, low&0xffffffffffff)
}

// groupCreated answers whoever waits in a new group whose record was not written. Where it was appended after all, the
// group stays.
func (st *step) groupCreated(g *classic, err error) {
	if err == nil || !st.lives(g) {
		return
	}
	code := kafka.CodeOf(err)
	for _, m := range g.list {
		st.refuseJoin(m, "", code)
	}
	if st.hard.metadata[g.id] != nil || st.hasOffsets(g.id) {
		return
	}
	for _, m := range g.list {
		st.cancelTimer(sessionTimer{m})
	}
	st.cancelTimer(joinTimer{g})
	st.out.Timers = append(st.out.Timers, st.forget(g.id)...)
}
