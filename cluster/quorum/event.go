package quorum

import (
	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
)

// Event is something that happened, for Step.
type Event interface{ event() }

// Tick is due every Node.TickInterval while Node.Ticking says so.
type Tick struct{}

// Wake is due at Node.Due, if nothing else has happened since: the node looks at the clock.
type Wake struct{}

// Propose asks for a metadata entry (metadata.AppendEntry). It does not say whether the entry is committed: Applied does.
type Propose struct{ Data []byte }

// Receive are messages from other members. They may be late, come twice, or be meant for somebody else.
type Receive struct{ Messages []*raftpb.Message }

// Unreachable reports that messages to a member got lost.
type Unreachable struct{ RaftID uint64 }

// SnapshotSent reports how the sending of a snapshot to a member ended. It must come for every one, or that member is sent
// nothing more.
type SnapshotSent struct {
	RaftID uint64
	OK     bool
}

// Suspect reports that the process of a member is gone: not silent, but refused by its own host. Where that member leads,
// the node stops waiting for it and stands for election within a tick or two, by chance, so that not all do at once.
// Should the report be wrong, nothing happens: whoever still hears the leader votes for nobody else.
type Suspect struct{ RaftID uint64 }

// TransferLeadership has the leader hand over to another voter, at once if that has the whole log. Until it has, or an
// election timeout has passed in vain, proposals are dropped.
type TransferLeadership struct {
	To uint64 // Raft id; 0: whoever of the voters is furthest
}

// ChangeMembers proposes other members, by Raft id. Several changes at once become true together, by joint consensus: from
// one voter to three, say, without being two in between. One change is under way at a time; see Members.Changing. A leader
// does not give up its own vote: it hands over, and drops the change for the next one to be asked.
type ChangeMembers struct {
	Learn   []uint64 // learners to be added
	Promote []uint64 // learners that become voters
	Demote  []uint64 // voters that become learners
	Remove  []uint64 // voters or learners that leave, for ever: a Raft id does not come back
}

func (Tick) event()               {}
func (Wake) event()               {}
func (Propose) event()            {}
func (Receive) event()            {}
func (Unreachable) event()        {}
func (SnapshotSent) event()       {}
func (Suspect) event()            {}
func (TransferLeadership) event() {}
func (ChangeMembers) event()      {}

// Output is what a step led to, for whoever drives the Node.
type Output struct {
	Applied        []Applied
	MembersChanged bool // see Node.Members
	// Dropped: what this step proposed, or asked of the leader, was refused, and nobody will see it.
	Dropped bool
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
	// Ready is true when this node leads and has applied all that was decided before: only then may it decide, and propose.
	Ready bool
}
