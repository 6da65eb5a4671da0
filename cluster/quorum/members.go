package quorum

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3/confchange"
	"go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"
)

// Members is who takes part, by Raft id, as this node has applied it. The image's Quorum says which nodes they are.
type Members struct {
	Voters   []uint64 // sorted; while voters change, the old and the new ones
	Learners []uint64 // sorted
	// Changing is true while another change would be refused: one is in the log and not applied, or voters change just now.
	Changing bool
}

// Members says who takes part. The result is the caller's.
func (n *Node) Members() Members {
	m := Members{
		Voters:   slices.Concat(n.conf.GetVoters(), n.conf.GetVotersOutgoing()),
		Learners: slices.Clone(n.conf.GetLearners()),
		Changing: n.changing(),
	}
	slices.Sort(m.Voters)
	slices.Sort(m.Learners)
	m.Voters = slices.Compact(m.Voters)
	return m
}

// IsVoter reports whether this node has a vote.
func (n *Node) IsVoter() bool { return isVoter(n.conf, n.RaftID()) }

func isVoter(c *raftpb.ConfState, id uint64) bool {
	return slices.Contains(c.GetVoters(), id) || slices.Contains(c.GetVotersOutgoing(), id)
}

func (n *Node) changing() bool {
	return len(n.conf.GetVotersOutgoing()) > 0 || n.applied+1 < n.confEnd
}

// changeMembers proposes a change; false: it is not one that can be made now. A leader that is to go hands over first, for
// nobody may be left who knows that its removal is committed.
func (n *Node) changeMembers(e ChangeMembers) bool {
	if slices.Contains(e.Remove, n.RaftID()) || slices.Contains(e.Demote, n.RaftID()) {
		n.transfer(0)
		return false
	}
	change, err := n.plan(e)
	if err == nil {
		err = n.raft.ProposeConfChange(change)
	}
	if err != nil {
		n.logger.Info("change of the quorum's members refused", "change", fmt.Sprintf("%+v", e), "reason", err)
	}
	return err == nil
}

// plan makes a change for Raft, which itself would replace an untimely one by nothing, and panic at one that is impossible.
func (n *Node) plan(e ChangeMembers) (*raftpb.ConfChangeV2, error) {
	if !n.lead.Ready {
		return nil, errors.New("this node does not lead")
	}
	if n.changing() {
		return nil, errors.New("the change before is under way")
	}
	var c raftpb.ConfChangeV2
	add := func(ids []uint64, typ raftpb.ConfChangeType, allowed func(uint64) bool, why string) error {
		for _, id := range ids {
			if id == 0 || !allowed(id) {
				return fmt.Errorf("raft id 0x%016x %s", id, why)
			}
			c.Changes = append(c.Changes, &raftpb.ConfChangeSingle{Type: typ.Enum(), NodeId: new(id)})
		}
		return nil
	}
	learns := func(id uint64) bool { return slices.Contains(n.conf.GetLearners(), id) }
	votes := func(id uint64) bool { return isVoter(n.conf, id) }
	err := errors.Join(
		add(e.Learn, raftpb.ConfChangeAddLearnerNode, func(id uint64) bool { return !learns(id) && !votes(id) }, "is a member already"),
		add(e.Promote, raftpb.ConfChangeAddNode, learns, "is no learner"),
		add(e.Demote, raftpb.ConfChangeAddLearnerNode, votes, "is no voter"),
		add(e.Remove, raftpb.ConfChangeRemoveNode, func(id uint64) bool { return learns(id) || votes(id) }, "is no member"),
	)
	if err == nil && len(c.Changes) == 0 {
		err = errors.New("nothing is to change")
	}
	if err == nil {
		err = checkChange(n.conf, &c)
	}
	return &c, err
}

// checkChange reports why a change cannot follow on a configuration.
func checkChange(conf *raftpb.ConfState, c *raftpb.ConfChangeV2) error {
	changer := confchange.Changer{Tracker: tracker.MakeProgressTracker(1, 0)}
	var err error
	if changer.Tracker.Config, changer.Tracker.Progress, err = confchange.Restore(changer, conf); err != nil {
		return err
	}
	if c.LeaveJoint() {
		_, _, err = changer.LeaveJoint()
	} else if autoLeave, joint := c.EnterJoint(); joint {
		_, _, err = changer.EnterJoint(autoLeave, c.Changes...)
	} else {
		_, _, err = changer.Simple(c.Changes...)
	}
	return err
}

// applyChange makes a committed change of members true. One that cannot follow on what there is, which all nodes find
// alike, is none: Raft is then not told of it, as it wants.
func (n *Node) applyChange(e *raftpb.Entry, out *Output) error {
	change, err := decodeChange(e)
	if err != nil {
		return fmt.Errorf("configuration change at offset %d of the metadata log: %w", e.GetIndex(), err)
	}
	if err := checkChange(n.conf, change); err != nil {
		n.logger.Warn("a change of the quorum's members has no effect", "offset", e.GetIndex(), "reason", err)
		return nil
	}
	// From here on votes count by it; see persist for what depends on that.
	if err := n.storage.saveCommitted(int64(e.GetIndex()) + 1); err != nil {
		return err
	}
	n.storage.changed, n.storage.conf = true, nil
	n.setConf(n.raft.ApplyConfChange(change), out)
	return nil
}

func decodeChange(e *raftpb.Entry) (*raftpb.ConfChangeV2, error) {
	if e.GetType() == raftpb.EntryConfChange {
		var c raftpb.ConfChange
		err := proto.Unmarshal(e.GetData(), &c)
		return c.AsV2(), err
	}
	var c raftpb.ConfChangeV2
	err := proto.Unmarshal(e.GetData(), &c)
	return &c, err
}

func (n *Node) setConf(c *raftpb.ConfState, out *Output) {
	n.conf, n.storage.conf = c, c
	out.MembersChanged = true
}
