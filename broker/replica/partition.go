package replica

import (
	"slices"
	"sync"
	"sync/atomic"

	"weir/broker/replica/tracker"
	"weir/cluster/metadata"
	"weir/internal/deferred"
	"weir/internal/kafka"
	"weir/log"
	"weir/protocol/batch"
)

// TopicConfig is what a topic's configuration means for its partitions.
type TopicConfig struct {
	Log               log.Config
	Rules             batch.Rules
	MinInsyncReplicas int
}

// leadership is what readers need to know without a lock; nil while this broker does not lead the partition.
type leadership struct {
	epoch      kafka.LeaderEpoch
	epochStart int64 // log end offset when this leadership began
}

// Partition is one replica on this broker.
type Partition struct {
	tp      kafka.TopicPartition
	id      kafka.TopicID
	self    kafka.BrokerID
	log     *log.Log
	store   Store
	policy  log.FsyncPolicy
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
		waiters      map[*Waiter]struct{}
		hiddenBytes  int // appended and not yet below the high watermark
	}
}

// Store is what partitions need of the set of logs.
type Store interface {
	// Commit calls done once everything appended to l so far is durable, without a lock, possibly before it returns.
	Commit(l *log.Log, done func(error))
	// NeedsCommit reports whether what was appended to l must be durable before it is acknowledged.
	NeedsCommit(l *log.Log) bool
}

func newPartition(tp kafka.TopicPartition, id kafka.TopicID, self kafka.BrokerID, l *log.Log, store Store, policy log.FsyncPolicy, config *TopicConfig) *Partition {
	p := &Partition{tp: tp, id: id, self: self, log: l, store: store, policy: policy}
	p.config.Store(config)
	p.mu.waiters = make(map[*Waiter]struct{})
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
	p.config.Store(c)
	p.log.SetConfig(c.Log)
	p.mu.Lock()
	if p.mu.tracker == nil {
		p.mu.Unlock()
		return
	}
	p.mu.tracker.SetISR(p.mu.registration.ISR, p.minISRLocked())
	due := p.advanceLocked()
	p.mu.Unlock()
	due.release()
	p.commitRest()
}

// minISRLocked is the minimum in force: a topic with fewer replicas than min.insync.replicas never refuses for it.
func (p *Partition) minISRLocked() int {
	return min(p.config.Load().MinInsyncReplicas, len(p.mu.registration.Replicas))
}

// apply takes the partition's registration from the image.
func (p *Partition) apply(r metadata.PartitionRegistration) error {
	p.mu.Lock()
	if r.PartitionEpoch < p.mu.registration.PartitionEpoch {
		p.mu.Unlock()
		return nil
	}
	p.mu.registration = r
	var due due
	var err error
	if r.Leader != p.self {
		due = p.resignLocked()
		p.followLocked(r)
	} else if current := p.leadership.Load(); current != nil && current.epoch == r.LeaderEpoch {
		p.mu.tracker.SetISR(r.ISR, p.minISRLocked())
		due = p.advanceLocked()
	} else {
		due, err = p.leadLocked(r)
	}
	p.mu.Unlock()
	due.release()
	if err == nil {
		p.commitRest()
	}
	return err
}

// commitRest makes durable what does not count before: after a crash the log may end above what is known to be on the
// disk, and no append would ask for it, so that consumers could not see what was acknowledged.
func (p *Partition) commitRest() {
	if p.leadership.Load() != nil && p.countedEnd() < p.log.EndOffset() {
		p.store.Commit(p.log, p.durable)
	}
}

// leadLocked begins a leadership. The epoch starts at the log's end, and is assigned even without data: followers that
// ask for it must not be told that it is unknown (R15, KAFKA-10706).
func (p *Partition) leadLocked(r metadata.PartitionRegistration) (due, error) {
	end := p.log.EndOffset()
	if p.log.LatestEpoch() < r.LeaderEpoch {
		if err := p.log.AssignEpoch(r.LeaderEpoch, end); err != nil {
			return p.resignLocked(), err
		}
	}
	p.mu.following = following{}
	p.mu.tracker = tracker.NewLeader(p.self, r.ISR, p.minISRLocked(), p.countedEnd(), p.log.HighWatermark())
	p.leadership.Store(&leadership{epoch: r.LeaderEpoch, epochStart: end})
	due := p.advanceLocked()
	due.waiters = append(due.waiters, p.takeWaitersLocked()...) // what they were told of the leader is out of date
	return due, nil
}

func (p *Partition) resignLocked() due {
	p.leadership.Store(nil)
	p.mu.tracker = nil
	d := due{err: p.notLeaderLocked(), waiters: p.takeWaitersLocked()}
	d.acks = append(p.mu.byHW.FailAll(), p.mu.byDurable.FailAll()...)
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
	return &Error{code: kafka.NotLeaderOrFollower, TP: p.tp, Leader: p.mu.registration.Leader,
		LeaderEpoch: p.mu.registration.LeaderEpoch, detail: "this broker is not the leader"}
}

// requireLeader is the epoch check of KIP-320; current -1 is not checked.
func (p *Partition) requireLeader(current kafka.LeaderEpoch) (*leadership, error) {
	l := p.leadership.Load()
	if l == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		return nil, p.notLeaderLocked()
	}
	switch {
	case current == kafka.NoLeaderEpoch || current == l.epoch:
		return l, nil
	case current < l.epoch:
		return nil, &Error{code: kafka.FencedLeaderEpoch, TP: p.tp, Leader: p.self, LeaderEpoch: l.epoch, detail: "the leader epoch of the request is older than the broker's"}
	default:
		return nil, &Error{code: kafka.UnknownLeaderEpoch, TP: p.tp, Leader: p.self, LeaderEpoch: l.epoch, detail: "the leader epoch of the request is newer than the broker's"}
	}
}

// hasFollower reports whether another broker has a replica too.
func (p *Partition) hasFollower(id kafka.BrokerID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return id != p.self && slices.Contains(p.mu.registration.Replicas, id)
}

// LeaderEpoch returns the epoch that this broker leads the partition in, or NoLeaderEpoch.
func (p *Partition) LeaderEpoch() kafka.LeaderEpoch {
	if l := p.leadership.Load(); l != nil {
		return l.epoch
	}
	return kafka.NoLeaderEpoch
}

// countedEnd is how far this replica's own records count: all that are written, or, where every acknowledgement promises
// more, those that are durable.
func (p *Partition) countedEnd() int64 {
	if p.policy == log.FsyncAck || p.policy != log.FsyncNever && p.config.Load().Log.FlushMessages == 1 {
		return p.log.DurableEndOffset()
	}
	return p.log.EndOffset()
}

// due is what became true under the lock and is told after unlocking.
type due struct {
	acks    []ack
	err     error // for acks; nil where they succeeded
	waiters []*Waiter
}

func (d due) release() {
	for _, a := range d.acks {
		a.to.Acked(a.index, d.err)
	}
	for _, w := range d.waiters {
		w.wake()
	}
}

// advanceLocked moves the high watermark to where the in-sync replicas are and collects who waited for it.
func (p *Partition) advanceLocked() due {
	var d due
	if p.mu.tracker == nil {
		return d
	}
	before := p.log.HighWatermark()
	hw := p.log.SetHighWatermark(p.mu.tracker.LogEnd(p.self, p.countedEnd()))
	if p.mu.byHW.Len() > 0 {
		d.acks = p.mu.byHW.CompleteUpTo(hw)
	}
	if p.mu.byDurable.Len() > 0 {
		d.acks = append(d.acks, p.mu.byDurable.CompleteUpTo(p.log.DurableEndOffset())...)
	}
	if hw > before && len(p.mu.waiters) > 0 {
		for w := range p.mu.waiters {
			if w.got(p.mu.hiddenBytes) {
				delete(p.mu.waiters, w)
				d.waiters = append(d.waiters, w)
			}
		}
	}
	if hw > before {
		p.mu.hiddenBytes = 0
	}
	return d
}

// durable is called by the log's group commit.
func (p *Partition) durable(err error) {
	p.mu.Lock()
	var d due
	if err != nil {
		d = due{acks: append(p.mu.byHW.FailAll(), p.mu.byDurable.FailAll()...), err: err}
	} else {
		d = p.advanceLocked()
	}
	p.mu.Unlock()
	d.release()
}
