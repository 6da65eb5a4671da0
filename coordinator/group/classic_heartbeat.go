package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// Heartbeat: v0–4
//   - v3: static members.
//
// While a rebalance is prepared it answers REBALANCE_IN_PROGRESS, and keeps the session all the same: the member is
// about to join again.

func (s *Shard) heartbeat(now time.Time, c *coordinator.Call, req *kmsg.HeartbeatRequest) coordinator.Output {
	st := step{Shard: s, now: now}
	resp := kmsg.NewPtrHeartbeatResponse()
	resp.Version = req.Version
	code := kafka.None
	switch g := s.groups[req.Group]; {
	case req.Group == "":
		code = kafka.InvalidGroupID
	case g == nil:
		code = kafka.UnknownMemberID
	default:
		if code = g.check(req.MemberID, req.InstanceID); code != kafka.None {
			break
		}
		if req.Generation != g.generation {
			code = kafka.IllegalGeneration
			break
		}
		if g.state == statePreparingRebalance {
			code = kafka.RebalanceInProgress
		}
		st.keepSession(g.members[req.MemberID])
	}
	resp.ErrorCode = int16(code)
	st.reply(c, resp)
	return st.out
}

// checkCommit finds why offsets may not be committed. A member's commit keeps its session as a heartbeat does: the timers
// are to be set where the code is None.
func (g *classic) checkCommit(now time.Time, req *kmsg.OffsetCommitRequest) (kafka.Code, []coordinator.Timer) {
	if req.Generation < 0 && g.isEmpty() {
		return kafka.None, nil // by an admin client, or by a consumer without group management
	}
	if req.Generation < 0 && req.MemberID == "" && req.InstanceID == nil {
		return kafka.UnknownMemberID, nil
	}
	if code := g.check(req.MemberID, req.InstanceID); code != kafka.None {
		return code, nil
	}
	switch {
	case req.Generation != g.generation:
		return kafka.IllegalGeneration, nil
	case g.state == stateCompletingRebalance:
		return kafka.RebalanceInProgress, nil
	}
	m := g.members[req.MemberID]
	return kafka.None, []coordinator.Timer{{Key: sessionTimer{m}, At: now.Add(milliseconds(m.sessionTimeout))}}
}
