package quorum

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"weir/cluster/metadata"
)

// Raft's clock: a heartbeat a tick, an election after one to two seconds without one. A controller that is gone is
// replaced before the brokers' sessions run out (9 s).
const (
	TickInterval   = 100 * time.Millisecond
	heartbeatTicks = 1
	electionTicks  = 10
)

const (
	maxMessageBytes     = 1 << 20  // entries in one message, and entries applied at once; one larger entry goes alone
	maxInflightMessages = 64       // to one follower: bounds what a slow one costs to 64 MiB
	maxUncommittedBytes = 64 << 20 // beyond it proposals are dropped; a single entry always passes
)

// Node is one member of the quorum. It is used by one goroutine.
type Node struct {
	o       Options
	storage *storage
	raft    *raft.RawNode
	logger  *slog.Logger

	image   *metadata.Image
	applied uint64 // index of the last entry applied
	term    uint64 // its term
	conf    *raftpb.ConfState
	since   int64 // bytes of entries applied since the newest snapshot

	lead  Leadership
	ready uint64 // term of which this node, as its leader, has applied an entry
	err   error  // why it does not go on
}

// Open opens the metadata log in o.Dir, or founds it. What is not this node's is refused by a *RefusedError. It elects
// nobody and applies nothing beyond the newest snapshot: Step does.
func Open(o Options, now time.Time) (*Node, error) {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.SegmentBytes == 0 {
		o.SegmentBytes = defaultSegmentBytes
	}
	if o.SnapshotBytes == 0 {
		o.SnapshotBytes = defaultSnapshotBytes
	}
	if o.KeepEntries == 0 {
		o.KeepEntries = defaultKeepEntries
	}
	s, image, err := openStorage(&o, now)
	if err != nil {
		return nil, err
	}
	n := &Node{o: o, storage: s, logger: o.Logger, image: image, applied: s.snap.index, term: s.snap.term, conf: s.snap.conf}
	n.raft, err = raft.NewRawNode(&raft.Config{
		ID: s.state.RaftID, Storage: s, Applied: s.snap.index,
		ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		PreVote: true, CheckQuorum: true, // a node that was cut off does not disturb; a leader that is cut off steps down
		MaxSizePerMsg: maxMessageBytes, MaxInflightMsgs: maxInflightMessages, MaxUncommittedEntriesSize: maxUncommittedBytes,
		DisableProposalForwarding: true, // proposals are decided on the leader's image, by the leader
		Logger:                    raftLogger{o.Logger},
	})
	if err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	return n, nil
}

// Image is the newest image.
func (n *Node) Image() *metadata.Image { return n.image }

// RaftID is this node's own.
func (n *Node) RaftID() uint64 { return n.storage.state.RaftID }

// Leadership says who leads.
func (n *Node) Leadership() Leadership { return n.lead }

// Ticking reports whether the node needs ticks: one that is alone does not, and costs nothing while idle.
func (n *Node) Ticking() bool { return !n.alone() || len(n.conf.GetLearners()) > 0 }

func (n *Node) alone() bool {
	return slices.Equal(n.conf.GetVoters(), []uint64{n.RaftID()}) && len(n.conf.GetVotersOutgoing()) == 0
}

// Close closes the log. What was acknowledged is durable already.
func (n *Node) Close() error { return n.storage.log.Close() }

// Step takes one event and does all that follows from it. An error is of the disk or of the log's content, and final: the
// node must not go on, and Step returns the error again from then on. Step after Open, with a Tick, elects a node that is
// alone and applies the log.
func (n *Node) Step(now time.Time, e Event) (Output, error) {
	var out Output
	if n.err == nil {
		n.err = n.step(now, e, &out)
	}
	return out, n.err
}

func (n *Node) step(now time.Time, e Event, out *Output) error {
	if err := n.take(e, out); err != nil {
		return err
	}
	if err := n.work(now, out); err != nil {
		return err
	}
	if n.alone() && n.lead.Leader == 0 {
		if err := n.raft.Campaign(); err != nil {
			return err
		}
		return n.work(now, out)
	}
	return nil
}

// take hands an event to Raft. Raft's errors about messages and proposals are about their timing, not about this node.
func (n *Node) take(e Event, out *Output) error {
	switch e := e.(type) {
	case Tick:
		n.raft.Tick()
	case Propose:
		out.Dropped = n.raft.Propose(e.Data) != nil
	case ChangeMembers:
		out.Dropped = n.raft.ProposeConfChange(e.Change) != nil
	case Receive:
		for _, m := range e.Messages {
			if err := n.raft.Step(m); err != nil {
				n.logger.Debug("raft message not taken", "from", m.GetFrom(), "type", m.GetType(), "err", err)
			}
		}
	case Unreachable:
		n.raft.ReportUnreachable(e.RaftID)
	case SnapshotSent:
		status := raft.SnapshotFailure
		if e.OK {
			status = raft.SnapshotFinish
		}
		n.raft.ReportSnapshot(e.RaftID, status)
	default:
		return fmt.Errorf("quorum knows no event %T", e)
	}
	return nil
}

// work does what Raft has ready until nothing is left. The order is the package's promise; see doc.go.
func (n *Node) work(now time.Time, out *Output) error {
	for n.raft.HasReady() {
		rd := n.raft.Ready()
		if !raft.IsEmptySnap(rd.Snapshot) {
			if err := n.restore(rd.Snapshot, out); err != nil {
				return err
			}
		}
		if hs := rd.HardState; !raft.IsEmptyHardState(hs) {
			if err := n.storage.saveState(hs.GetTerm(), hs.GetVote()); err != nil {
				return err
			}
		}
		if len(rd.Entries) > 0 {
			if err := n.storage.append(rd.Entries, now); err != nil {
				return err
			}
		}
		if len(rd.Messages) > 0 && n.o.Transport != nil {
			n.o.Transport.Send(rd.Messages)
		}
		for _, e := range rd.CommittedEntries {
			if err := n.apply(e, out); err != nil {
				return err
			}
		}
		n.raft.Advance(rd)
		if err := n.maybeSnapshot(now); err != nil {
			return err
		}
		n.updateLeadership()
	}
	return nil
}

func (n *Node) updateLeadership() {
	st := n.raft.BasicStatus()
	leads := st.RaftState == raft.StateLeader
	n.lead = Leadership{Term: int32(st.HardState.GetTerm()), Leader: st.Lead, Ready: leads && n.ready == st.HardState.GetTerm()}
}

func (n *Node) apply(e *raftpb.Entry, out *Output) error {
	n.applied, n.term = e.GetIndex(), e.GetTerm()
	n.since += int64(len(e.GetData()))
	if n.raft.BasicStatus().RaftState == raft.StateLeader {
		n.ready = e.GetTerm() // the first entry of a leader's own term comes behind all that was decided before
	}
	switch e.GetType() {
	case raftpb.EntryConfChange:
		var c raftpb.ConfChange
		if err := proto.Unmarshal(e.GetData(), &c); err != nil {
			return fmt.Errorf("configuration change at offset %d of the metadata log: %w", e.GetIndex(), err)
		}
		n.conf = n.raft.ApplyConfChange(&c)
	case raftpb.EntryConfChangeV2:
		var c raftpb.ConfChangeV2
		if err := proto.Unmarshal(e.GetData(), &c); err != nil {
			return fmt.Errorf("configuration change at offset %d of the metadata log: %w", e.GetIndex(), err)
		}
		n.conf = n.raft.ApplyConfChange(&c)
	default:
		return n.applyMetadata(e, out)
	}
	return nil
}

func (n *Node) applyMetadata(e *raftpb.Entry, out *Output) error {
	if len(e.GetData()) == 0 {
		return nil // the beginning of a term
	}
	image, delta, err := metadata.Apply(n.image, int64(e.GetIndex()), int32(e.GetTerm()), e.GetData())
	if err != nil {
		return err
	}
	n.image = image
	out.Applied = append(out.Applied, Applied{Image: image, Delta: delta, Index: int64(e.GetIndex()), Term: int32(e.GetTerm())})
	return nil
}

// restore takes a leader's snapshot in the place of everything.
func (n *Node) restore(pb *raftpb.Snapshot, out *Output) error {
	snap, err := decodeSnapshot(pb.GetData())
	if err == nil && (snap.index != pb.GetMetadata().GetIndex() || snap.term != pb.GetMetadata().GetTerm() || snap.image.ClusterID != n.image.ClusterID) {
		err = fmt.Errorf("it is that of index %d, term %d, cluster %s", snap.index, snap.term, snap.image.ClusterID)
	}
	if err != nil {
		return fmt.Errorf("snapshot of index %d from the leader: %w", pb.GetMetadata().GetIndex(), err)
	}
	if err := n.storage.install(pb.GetData(), *snap); err != nil {
		return err
	}
	delta := metadata.Diff(n.image, snap.image)
	n.image, n.applied, n.term, n.conf, n.since = snap.image, snap.index, snap.term, snap.conf, 0
	out.Applied = append(out.Applied, Applied{Image: snap.image, Delta: delta, Index: int64(snap.index), Term: int32(snap.term)})
	return nil
}

// A snapshot is taken when the log since the last one is four times as large: then snapshots add a quarter to what is
// written, and a start reads five times the image at most. Below 1 MiB neither is worth a thought.
const (
	snapshotGrowth = 4
	smallSnapshot  = 1 << 20
)

// maybeSnapshot takes a snapshot when enough was applied since the last one.
func (n *Node) maybeSnapshot(now time.Time) error {
	if n.since < min(n.o.SnapshotBytes, max(smallSnapshot, snapshotGrowth*n.storage.size)) {
		return nil
	}
	n.since = 0
	return n.storage.save(snapshot{index: n.applied, term: n.term, conf: n.conf, image: n.image}, n.o.KeepEntries, now)
}
