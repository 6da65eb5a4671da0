package replica

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/broker/replica/tracker"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/deferred"
	"weir/internal/kafka"
	"weir/internal/mutant"
	"weir/log"
	"weir/protocol/batch"
)

// TopicConfig is what a topic's configuration means for its partitions.
type TopicConfig struct {
	Log               log.Config
	Rules             batch.Rules
	MinInsyncReplicas int

	LeaderThrottled, FollowerThrottled Throttled // while they catch up (KIP-73)
}

// surroundings are what all partitions of a Manager share.
type surroundings struct {
	self     kafka.BrokerID
	tracking tracker.Options
	store    Store
	policy   log.FsyncPolicy
	clock    clock.Clock
	sending  *Throttle   // to followers
	fenced   atomic.Bool // see Manager.SetFenced

	servesSince atomic.Pointer[time.Time] // since when partitions are not fenced any more; nil if they never were
	// propose says that the partition wants another ISR. It does not block; no lock is held.
	propose func(*Partition)
}

// Store is what partitions need of the set of logs.
type Store interface {
	// Commit calls done once everything appended to l so far is durable, without a lock, possibly before it returns.
	Commit(l *log.Log, done func(error))
	// NeedsCommit reports whether what was appended to l must be durable before it is acknowledged.
	NeedsCommit(l *log.Log) bool
}

// leadership is what readers need to know without a lock; nil while this broker does not lead the partition. Immutable.
type leadership struct {
	epoch      kafka.LeaderEpoch
	epochStart int64 // log end offset when this leadership began
	followers  []kafka.BrokerID
}

// Partition is one replica on this broker.
type Partition struct {
	*surroundings
	tp      kafka.TopicPartition
	id      kafka.TopicID
	log     *log.Log
	traffic *Traffic // of the topic

	config     atomic.Pointer[TopicConfig]
	leadership atomic.Pointer[leadership]

	mu struct {
		sync.Mutex
		registration metadata.PartitionRegistration
		tracker      *tracker.Leader // nil while not leader
		following    following       // zero while leader
		byHW         deferred.Queue[ack]
		byDurable    deferred.Queue[ack]
		byLow        deferred.Queue[ack]  // deletions, by low watermark
		consumers    map[*Waiter]struct{} // that wait for what lies below the high watermark
		followers    map[*Waiter]struct{} // that wait for what is appended
		hidden       hiddenBytes
	}
}

func newPartition(s *surroundings, tp kafka.TopicPartition, id kafka.TopicID, l *log.Log, config *TopicConfig) *Partition {
	p := &Partition{surroundings: s, tp: tp, id: id, log: l}
	p.config.Store(config)
	return p
}

// TP returns the partition's name.
func (p *Partition) TP() kafka.TopicPartition { return p.tp }

// TopicID returns the id of the topic that the partition belongs to.
func (p *Partition) TopicID() kafka.TopicID { return p.id }

// Config returns the topic's configuration in force; it must not be changed.
func (p *Partition) Config() *TopicConfig { return p.config.Load() }

// Log returns the partition's log, for what needs no leadership (sizes, directories).
func (p *Partition) Log() *log.Log { return p.log }

func (p *Partition) setConfig(c *TopicConfig) {
	now := p.clock.Now()
	p.config.Store(c)
	p.log.SetConfig(c.Log)
	p.mu.Lock()
	if p.mu.tracker == nil {
		p.mu.Unlock()
		return
	}
	p.mu.tracker.SetMinISR(c.MinInsyncReplicas)
	due := p.advanceLocked(now)
	p.mu.Unlock()
	due.release()
	p.commitRest()
}

// apply takes the partition's registration from the image. One with a lower partition epoch than the last is late.
func (p *Partition) apply(r metadata.PartitionRegistration) error {
	now := p.clock.Now()
	p.mu.Lock()
	if r.PartitionEpoch < p.mu.registration.PartitionEpoch {
		p.mu.Unlock()
		return nil
	}
	p.mu.registration = r
	var due due
	var err error
	current := p.leadership.Load()
	switch {
	case r.Leader != p.self:
		due = p.resignLocked()
		p.followLocked(r)
	case current != nil && current.epoch == r.LeaderEpoch:
		p.mu.tracker.Update(now, tracked(r), p.config.Load().MinInsyncReplicas)
		p.leadership.Store(&leadership{epoch: current.epoch, epochStart: current.epochStart, followers: p.followersLocked()})
		due = p.advanceLocked(now)
	default:
		due, err = p.leadLocked(now, r)
	}
	proposes := p.mu.tracker != nil && p.mu.tracker.Pending()
	p.mu.Unlock()
	due.release()
	if err != nil {
		return err
	}
	if proposes {
		p.propose(p)
	}
	p.commitRest()
	return nil
}

// tracked is what the tracker needs to know of a registration.
func tracked(r metadata.PartitionRegistration) tracker.Registration {
	return tracker.Registration{LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, Replicas: r.Replicas, ISR: r.ISR,
		Recovering: r.RecoveryState == metadata.Recovering}
}

func (p *Partition) followersLocked() []kafka.BrokerID {
	return slices.DeleteFunc(slices.Clone(p.mu.registration.Replicas), func(id kafka.BrokerID) bool { return id == p.self })
}

// leadLocked begins a leadership. The epoch starts at the log's end, and is assigned even without data: followers that
// ask for it must not be told that it is unknown (KAFKA-10706).
func (p *Partition) leadLocked(now time.Time, r metadata.PartitionRegistration) (due, error) {
	end, hw := p.log.EndOffset(), p.log.HighWatermark()
	if p.log.LatestEpoch() < r.LeaderEpoch && !mutant.Is("noEpochStartAssign") {
		if err := p.log.AssignEpoch(r.LeaderEpoch, end); err != nil {
			return p.resignLocked(), err
		}
	}
	p.mu.following = following{}
	p.mu.tracker = tracker.NewLeader(p.tracking, now, tracked(r), p.config.Load().MinInsyncReplicas, end, hw)
	p.leadership.Store(&leadership{epoch: r.LeaderEpoch, epochStart: end, followers: p.followersLocked()})
	p.mu.hidden = uncounted(hw, end)
	due := p.advanceLocked(now)
	due.waiters = append(due.waiters, p.takeWaitersLocked()...) // what they were told of the leader is out of date
	return due, nil
}

func (p *Partition) resignLocked() due {
	p.leadership.Store(nil)
	p.mu.tracker = nil
	return p.refuseWaitingLocked()
}

// refuseWaitingLocked has everyone who waits for this leader told that it is none.
func (p *Partition) refuseWaitingLocked() due {
	d := due{err: p.notLeaderLocked(), waiters: p.takeWaitersLocked()}
	d.acks = slices.Concat(p.mu.byHW.FailAll(), p.mu.byDurable.FailAll(), p.mu.byLow.FailAll())
	return d
}

// close ends the partition's life on this broker: it was deleted, or moved away.
func (p *Partition) close() {
	p.mu.Lock()
	p.mu.registration.Leader = kafka.NoBroker
	due := p.resignLocked()
	p.mu.following = following{}
	p.mu.Unlock()
	due.release()
}

func (p *Partition) notLeaderLocked() error {
	return p.notLeader(p.mu.registration.Leader, p.mu.registration.LeaderEpoch)
}

func (p *Partition) notLeader(leader kafka.BrokerID, epoch kafka.LeaderEpoch) error {
	return &Error{code: kafka.NotLeaderOrFollower, TP: p.tp, Leader: leader, LeaderEpoch: epoch, detail: "this broker is not the leader"}
}

// requireLeader is the epoch check of KIP-320; current -1 is not checked. Who has another epoch in mind is told so, rather than
// that this broker does not lead.
func (p *Partition) requireLeader(current kafka.LeaderEpoch) (*leadership, error) {
	l := p.serving()
	if l != nil && (current == kafka.NoLeaderEpoch || current == l.epoch) {
		return l, nil
	}
	leader, epoch := p.self, kafka.NoLeaderEpoch
	if l != nil {
		epoch = l.epoch
	} else {
		p.mu.Lock()
		leader, epoch = p.mu.registration.Leader, p.mu.registration.LeaderEpoch
		p.mu.Unlock()
	}
	if current == kafka.NoLeaderEpoch || current == epoch {
		return nil, p.notLeader(leader, epoch)
	}
	return nil, p.otherEpoch(current, leader, epoch)
}

// otherEpoch refuses a request whose leader epoch is not the broker's.
func (p *Partition) otherEpoch(current kafka.LeaderEpoch, leader kafka.BrokerID, epoch kafka.LeaderEpoch) error {
	if current < epoch {
		return &Error{code: kafka.FencedLeaderEpoch, TP: p.tp, Leader: leader, LeaderEpoch: epoch, detail: "the leader epoch of the request is older than the broker's"}
	}
	return &Error{code: kafka.UnknownLeaderEpoch, TP: p.tp, Leader: leader, LeaderEpoch: epoch, detail: "the leader epoch of the request is newer than the broker's"}
}

// LeaderEpoch returns the epoch that this broker leads the partition in, or NoLeaderEpoch.
func (p *Partition) LeaderEpoch() kafka.LeaderEpoch {
	if l := p.leadership.Load(); l != nil {
		return l.epoch
	}
	return kafka.NoLeaderEpoch
}
