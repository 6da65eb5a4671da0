package quorum

import (
	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
)

// Event is something that happened, for Step.
type Event interface{ event() }

// Tick is due every TickInterval while Ticking says so.
type Tick struct{}

// Propose asks for a metadata entry (metadata.AppendEntry). It does not say whether the entry is committed: Applied does.
type Propose struct{ Data []byte }

// Receive are messages from other members.
type Receive struct{ Messages []*raftpb.Message }

// Unreachable reports that messages to a member got lost.
type Unreachable struct{ RaftID uint64 }

// SnapshotSent reports how the sending of a snapshot to a member ended.
type SnapshotSent struct {
	RaftID uint64
	OK     bool
}

// ChangeMembers proposes other voters or learners.
type ChangeMembers struct{ Change *raftpb.ConfChangeV2 }

func (Tick) event()          {}
func (Propose) event()       {}
func (Receive) event()       {}
func (Unreachable) event()   {}
func (SnapshotSent) event()  {}
func (ChangeMembers) event() {}

// Output is what a step led to, for whoever drives the Node.
type Output struct {
	Applied []Applied
	Dropped bool // the proposal of this step was refused: nobody will see it
}

// Applied is an image that came to be true. In the order of the log.
type Applied struct {
	Image *metadata.Image
	Delta *metadata.Delta // against the image before; nil if the entry was skipped, as decided on an older image: then Image is unchanged
	Index int64           // of the entry in the log, or of the last that a snapshot covers
	Term  int32
}

// Leadership is who leads Raft, as far as this node knows.
type Leadership struct {
	Term   int32
	Leader uint64 // Raft id; 0 if unknown
	// Ready is true when this node leads and has applied all that was decided before: only then may it decide.
	Ready bool
}
