package quorum

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
)

// Raft's clock: a heartbeat a tick, an election after ten to twenty ticks without one, which is one to two seconds. A
// controller that is gone is replaced before the brokers' sessions run out (9 s).
const (
	TickInterval   = 100 * time.Millisecond // by default; Node.TickInterval is the node's own
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
	since   int64  // bytes of entries applied since the newest snapshot
	// conf is the configuration at applied; confEnd the offset (exclusive) up to which the log may have changes of it.
	conf    *raftpb.ConfState
	confEnd uint64

	lead      Leadership
	ready     uint64 // term of which this node, as its leader, has applied an entry
	candidacy candidacy
	// followers are the other members, for the leader of the term followersOf.
	followers   map[uint64]*follower
	followersOf uint64
	arrived     *snapshot // from the leader, checked, not yet installed
	err         error     // why it does not go on
}

// Open opens the metadata log in o.Dir, founds it, or begins to wait for it. What is not this node's is refused by a
// *RefusedError. It elects nobody and applies nothing beyond the newest snapshot: Step does.
func Open(o Options, now time.Time) (*Node, error) {
	o.fill()
	s, image, err := openStorage(&o)
	if err != nil {
		return nil, err
	}
	n := &Node{
		o: o, storage: s, logger: o.Logger, image: image, applied: s.snap.index, term: s.snap.term, conf: s.snap.conf,
		confEnd: s.last() + 1, // nobody has looked at the entries yet
	}
	n.raft, err = raft.NewRawNode(&raft.Config{
		ID: s.state.RaftID, Storage: s, Applied: s.snap.index,
		ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		PreVote: true, CheckQuorum: true, // a node that was cut off does not disturb; a leader that is cut off steps down
		MaxSizePerMsg: maxMessageBytes, MaxInflightMsgs: maxInflightMessages, MaxUncommittedEntriesSize: maxUncommittedBytes,
		DisableProposalForwarding: true, // proposals are decided on the leader's image, by the leader
		StepDownOnRemoval:         true,
		Logger:                    raftLogger{o.Logger},
	})
	if err != nil {
		return nil, errors.Join(err, s.log.Close())
	}
	if s.founded && o.isFirst() {
		n.candidacy = candidacy{at: now.Add(2 * n.TickInterval()), until: now.Add(o.ElectionTimeout)} // the others follow within a moment
	}
	return n, nil
}

// Image is the newest image. That of a node that waits is the empty one.
func (n *Node) Image() *metadata.Image { return n.image }

// RaftID is this node's own.
func (n *Node) RaftID() uint64 { return n.storage.state.RaftID }

// Waiting reports whether the node has no log yet: it joins, and nobody has sent it a snapshot.
func (n *Node) Waiting() bool { return n.storage.state.Committed == 0 }

// Leadership says who leads.
func (n *Node) Leadership() Leadership { return n.lead }

// Ticking reports whether the node needs ticks: one that is alone does not, and costs nothing while idle.
func (n *Node) Ticking() bool { return !n.alone() || len(n.conf.GetLearners()) > 0 }

// TickInterval is the time between two ticks.
func (n *Node) TickInterval() time.Duration { return n.o.ElectionTimeout / electionTicks }

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

func (n *Node) step(now time.Time, e Event, out *Output) (err error) {
	defer func() {
		if n.storage.failed == nil {
			return
		}
		recover() // Raft panics when what it reads of the log cannot be read
		err = n.storage.failed
	}()
	if err := n.take(now, e, out); err != nil {
		return err
	}
	n.stand(now)
	if err := n.work(now, out); err != nil {
		return err
	}
	if n.alone() && n.lead.Leader != n.RaftID() { // nobody, or one who was removed
		if err := n.raft.Campaign(); err != nil {
			return err
		}
		return n.work(now, out)
	}
	return nil
}

// take hands an event to Raft. Raft's errors about messages and proposals are about their timing, not about this node.
func (n *Node) take(now time.Time, e Event, out *Output) error {
	switch e := e.(type) {
	case Tick:
		n.raft.Tick()
	case Wake:
	case Propose:
		out.Dropped = !n.lead.Ready || n.raft.Propose(e.Data) != nil
	case Receive:
		for _, m := range e.Messages {
			n.receive(now, m)
		}
	case Unreachable:
		n.raft.ReportUnreachable(e.RaftID)
	case SnapshotSent:
		status := raft.SnapshotFailure
		if e.OK {
			status = raft.SnapshotFinish
		}
		n.raft.ReportSnapshot(e.RaftID, status)
	case Suspect:
		n.suspect(now, e.RaftID)
	case TransferLeadership:
		out.Dropped = !n.transfer(e.To)
	case ChangeMembers:
		out.Dropped = !n.changeMembers(e)
	default:
		return fmt.Errorf("quorum knows no event %T", e)
	}
	return nil
}

// work does what Raft has ready until nothing is left. The order is the package's promise; see doc.go.
func (n *Node) work(now time.Time, out *Output) error {
	for n.raft.HasReady() {
		rd := n.raft.Ready()
		if err := n.persist(rd, now, out); err != nil {
			return err
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
	return n.maybeSnapshot(now)
}

// persist makes durable what the messages of a Ready may speak of.
func (n *Node) persist(rd raft.Ready, now time.Time, out *Output) error {
	if hs := rd.HardState; !raft.IsEmptyHardState(hs) {
		if err := n.storage.saveVote(hs.GetTerm(), hs.GetVote()); err != nil {
			return err
		}
	}
	if !raft.IsEmptySnap(rd.Snapshot) {
		if err := n.restore(rd.Snapshot, out); err != nil {
			return err
		}
	}
	return n.append(rd.Entries, n.raft.BasicStatus().HardState.GetCommit(), now)
}

// append makes entries durable. A change of members is not written before the change ahead of it is known, on the disk, to
// be committed, which it is, or nobody would have proposed the next. So a node's log has one change at most beyond the
// configuration that it counts votes by when it starts: two configurations further apart may have majorities that do not
// meet, and a node that is a candidate by the older one would win with a log that has the newer one.
func (n *Node) append(entries []*raftpb.Entry, committed uint64, now time.Time) error {
	for len(entries) > 0 {
		first := entries[0]
		if first.GetType() != raftpb.EntryNormal {
			if n.storage.state.Committed < int64(n.confEnd) {
				if err := n.storage.saveCommitted(int64(min(committed+1, first.GetIndex()))); err != nil {
					return err
				}
			}
			n.confEnd = first.GetIndex() + 1
		}
		count := 1 + slices.IndexFunc(entries[1:], func(e *raftpb.Entry) bool { return e.GetType() != raftpb.EntryNormal })
		if count == 0 {
			count = len(entries)
		}
		if err := n.storage.append(entries[:count], now); err != nil {
			return err
		}
		entries = entries[count:]
	}
	return nil
}

// updateLeadership looks who leads. A leader that takes part in its own removal (it inherited that) appends nothing more:
// it steps down with the change, and who comes after it may need its vote, which an entry too many would forbid.
func (n *Node) updateLeadership() {
	st := n.raft.BasicStatus()
	leads := st.RaftState == raft.StateLeader && slices.Contains(n.conf.GetVoters(), n.RaftID())
	n.lead = Leadership{Term: int32(st.HardState.GetTerm()), Leader: st.Lead, Ready: leads && n.ready == st.HardState.GetTerm()}
	if n.lead.Leader != raft.None {
		n.candidacy = candidacy{}
	}
}

func (n *Node) apply(e *raftpb.Entry, out *Output) error {
	n.applied, n.term = e.GetIndex(), e.GetTerm()
	n.since += int64(len(e.GetData()))
	if n.raft.BasicStatus().RaftState == raft.StateLeader {
		n.ready = e.GetTerm() // the first entry of a leader's own term comes behind all that was decided before
	}
	if e.GetType() != raftpb.EntryNormal {
		return n.applyChange(e, out)
	}
	return n.applyMetadata(e, out)
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
