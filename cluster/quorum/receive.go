package quorum

import (
	"errors"
	"fmt"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
)

// receive takes one message of another member.
func (n *Node) receive(now time.Time, m *raftpb.Message) {
	err := n.takes(m)
	if err == nil && m.GetType() == raftpb.MsgSnap {
		n.arrived, err = n.decode(m.GetSnapshot())
	}
	if err == nil {
		err = n.raft.Step(m)
	}
	if err == nil {
		n.answered(now, m)
	} else {
		n.logger.Debug("raft message not taken", "from", m.GetFrom(), "type", m.GetType(), "err", err)
	}
}

// takes reports why a message is none for Raft.
func (n *Node) takes(m *raftpb.Message) error {
	if m.GetTo() != n.RaftID() {
		// Who was at this address before, with another directory, answers for itself.
		return fmt.Errorf("it is for raft id 0x%016x, not 0x%016x", m.GetTo(), n.RaftID())
	}
	switch m.GetType() {
	case raftpb.MsgAppResp, raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgSnap,
		raftpb.MsgVoteResp, raftpb.MsgPreVoteResp, raftpb.MsgTimeoutNow:
		return nil
	case raftpb.MsgVote, raftpb.MsgPreVote:
		if n.Waiting() {
			return errors.New("a node without a log has no vote") // it finds any candidate's log as good as its own
		}
		return nil
	case raftpb.MsgApp:
		if n.Waiting() && m.GetIndex() == 0 && len(m.GetEntries()) > 0 {
			return errors.New("the log of a node that joins does not begin with an entry")
		}
		return nil
	default: // proposals and orders, which members do not send each other
		return errors.New("it is no message between members")
	}
}

// decode reads a leader's snapshot. Raft must not be given one that cannot be installed.
func (n *Node) decode(pb *raftpb.Snapshot) (*snapshot, error) {
	s, err := decodeSnapshot(pb.GetData())
	if err == nil && (s.index != pb.GetMetadata().GetIndex() || s.term != pb.GetMetadata().GetTerm() || s.image.ClusterID != n.o.ClusterID) {
		err = fmt.Errorf("it is that of index %d, term %d, cluster %s", s.index, s.term, s.image.ClusterID)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot of index %d from the leader: %w", pb.GetMetadata().GetIndex(), err)
	}
	return s, nil
}

// restore takes a leader's snapshot in the place of everything.
func (n *Node) restore(pb *raftpb.Snapshot, out *Output) (err error) {
	snap := n.arrived
	n.arrived = nil
	if snap == nil || snap.index != pb.GetMetadata().GetIndex() || snap.term != pb.GetMetadata().GetTerm() {
		if snap, err = n.decode(pb); err != nil {
			return err
		}
	}
	image := snap.image
	if err := n.storage.install(pb.GetData(), *snap); err != nil {
		return err
	}
	delta := metadata.Diff(n.image, image)
	n.image, n.applied, n.term, n.since, n.confEnd = image, snap.index, snap.term, 0, snap.index+1
	n.setConf(snap.conf, out)
	out.Applied = append(out.Applied, Applied{Image: image, Delta: delta, Index: int64(snap.index), Term: int32(snap.term)})
	return nil
}

// A snapshot is taken when the log since the last one is four times as large: then snapshots add a quarter to what is
// written, and a start reads five times the image at most. Below 1 MiB neither is worth a thought.
const (
	snapshotGrowth = 4
	smallSnapshot  = 1 << 20
)

// maybeSnapshot takes a snapshot when enough was applied since the last one, or a member needs it.
func (n *Node) maybeSnapshot(now time.Time) error {
	if !n.storage.wanted && n.since < min(n.o.SnapshotBytes, max(smallSnapshot, snapshotGrowth*n.storage.size)) {
		return nil
	}
	n.since, n.storage.wanted = 0, false
	return n.storage.save(snapshot{index: n.applied, term: n.term, conf: n.conf, image: n.image}, n.o.KeepEntries, now)
}
