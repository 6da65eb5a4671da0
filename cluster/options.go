package cluster

import (
	"cmp"
	"log/slog"
	"math/rand/v2"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// Options are what a node is made of. A zero duration is the default that its comment names.
type Options struct {
	FS     vfs.FS
	Clock  clock.Clock
	Logger *slog.Logger // nil for the default
	Rand   *rand.Rand   // see quorum.Options; nil: seeded by chance

	MetadataDir string            // the metadata log is kept in __cluster_metadata-0 below it
	DirectoryID kafka.DirectoryID // of MetadataDir; the node's Raft id follows from it
	ClusterID   string
	Self        kafka.BrokerID
	Roles       Roles

	// Founders are the first voters, the same on each of them, this node among them; nil: this node alone. Join are members
	// of a cluster that there is; this node becomes one of its learners. Either counts only until the node has a log.
	Founders []metadata.QuorumMember
	Join     []metadata.QuorumMember
	Peers    Peers   // nil where there is nobody else
	Address  Address // Listeners are those of Registration

	Registration Registration // of the broker
	Settings     controller.Settings

	HeartbeatInterval   time.Duration // broker.heartbeat.interval.ms; 2 s
	SessionTimeout      time.Duration // broker.session.timeout.ms; 9 s
	ElectionTimeout     time.Duration // controller.quorum.election.timeout.ms; 1 s
	RegistrationTimeout time.Duration // initial.broker.registration.timeout.ms; 60 s
	DirFailureTimeout   time.Duration // log.dir.failure.timeout.ms; 30 s
	BalanceInterval     time.Duration // leader.imbalance.check.interval.seconds; 0: auto.leader.rebalance.enable is false

	MaxVoters         int           // weir.quorum.max.voters: more nodes do not vote by themselves; 5
	StabilizationTime time.Duration // how long a learner must have kept up before it gets a vote; 10 s
	DeadVoterAfter    time.Duration // how long a voter must have been silent before a learner takes its place; 10 min

	// SelfFence has LeaseLost told when the broker can no longer be sure of its session (true), and when it is again (false).
	SelfFence bool
	LeaseLost func(lost bool) // called by the control loop; must not block

	// Stalled is how long the disks have kept this broker waiting by now; nil: never. After DirFailureTimeout it sends no
	// heartbeats until they answer. It is called by the control loop, and must not block.
	Stalled func() time.Duration

	// Failed is told, once, why the node cannot go on: its disk, a log that it cannot read, or a cluster that it does not
	// belong to. It must not block.
	Failed func(error)
}

// Roles are what a node does (process.roles). The zero value is both.
type Roles struct {
	NoBroker     bool // a controller alone registers no broker
	NoController bool // a broker alone never becomes a voter of the quorum, but where it founds the cluster
}

func (o *Options) fill() {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	o.HeartbeatInterval = cmp.Or(o.HeartbeatInterval, 2*time.Second)
	o.SessionTimeout = cmp.Or(o.SessionTimeout, 9*time.Second)
	o.ElectionTimeout = cmp.Or(o.ElectionTimeout, time.Second)
	o.RegistrationTimeout = cmp.Or(o.RegistrationTimeout, time.Minute)
	o.DirFailureTimeout = cmp.Or(o.DirFailureTimeout, 30*time.Second)
	o.MaxVoters = cmp.Or(o.MaxVoters, 5)
	o.StabilizationTime = cmp.Or(o.StabilizationTime, 10*time.Second)
	o.DeadVoterAfter = cmp.Or(o.DeadVoterAfter, 10*time.Minute)
}

// tryTimeout is when an unanswered try of a command counts as lost: of a session's heartbeats two may be.
func (o *Options) tryTimeout() time.Duration { return o.SessionTimeout / 3 }

// contacts are the members that a node without a log knows.
func (o *Options) contacts() []metadata.QuorumMember {
	if o.Founders != nil {
		return o.Founders
	}
	return o.Join
}
