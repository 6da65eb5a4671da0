package group

import (
	"math/rand/v2"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
)

// Settings are the broker settings that a shard acts on.
type Settings struct {
	InitialRebalanceDelay time.Duration // group.initial.rebalance.delay.ms
	MinSessionTimeout     time.Duration // group.min.session.timeout.ms
	MaxSessionTimeout     time.Duration // group.max.session.timeout.ms
	MaxSize               int32         // group.max.size: members of a classic group
	OffsetsRetention      time.Duration // offsets.retention.minutes
	OffsetsRetentionCheck time.Duration // offsets.retention.check.interval.ms
	OffsetMetadataMax     int           // offset.metadata.max.bytes, counted as Kafka does: in UTF-16 units
}

// Shard is the group coordinator of one partition of __consumer_offsets.
type Shard struct {
	settings Settings
	rand     *rand.Rand // for member ids

	hard   hard
	groups map[string]*classic // soft: every group that has members, metadata or offsets
}

// hard is what the records of the partition say.
type hard struct {
	metadata map[string]*metadata // by group
	offsets  offsets
}

// New returns an empty shard. rand is the shard's own.
func New(settings Settings, rand *rand.Rand) *Shard {
	return &Shard{settings: settings, rand: rand, hard: hard{metadata: make(map[string]*metadata), offsets: newOffsets()}, groups: make(map[string]*classic)}
}

// Step implements coordinator.Shard.
func (s *Shard) Step(now time.Time, in coordinator.Input) coordinator.Output {
	switch in := in.(type) {
	case *coordinator.Call:
		return s.call(now, in)
	case coordinator.Loaded:
		return s.loaded(now)
	case coordinator.Fired:
		return s.fired(now, in.Key)
	case coordinator.Outcome:
		return s.outcome(now, in)
	case TopicsDeleted:
		return s.topicsDeleted(now, in)
	case TopicsThere:
		return s.topicsThere(now, in)
	}
	panic("group: unknown kind of input")
}

func (s *Shard) call(now time.Time, c *coordinator.Call) coordinator.Output {
	switch body := c.Body.(type) {
	case *kmsg.JoinGroupRequest:
		return s.join(now, c, body)
	case *kmsg.SyncGroupRequest:
		return s.sync(now, c, body)
	case *kmsg.HeartbeatRequest:
		return s.heartbeat(now, c, body)
	case *kmsg.LeaveGroupRequest:
		return s.leave(now, c, body)
	case *kmsg.OffsetCommitRequest:
		return s.commitOffsets(now, c, body)
	case FetchOffsets:
		return s.fetchOffsets(now, c, body)
	case *kmsg.OffsetDeleteRequest:
		return s.deleteOffsets(now, c, body)
	case Describe:
		return s.describe(now, c, body)
	case List:
		return s.list(now, c, body)
	case Delete:
		return s.delete(now, c, body)
	case Stats:
		return s.stats(now, c)
	}
	panic("group: unknown kind of call")
}

// fired is told of timers that came due, perhaps of what is no more.
func (s *Shard) fired(now time.Time, key any) coordinator.Output {
	st := step{Shard: s, now: now}
	switch key := key.(type) {
	case sessionTimer:
		st.sessionEnded(key.m)
	case joinTimer:
		st.joinTimedOut(key.g)
	case syncTimer:
		st.syncTimedOut(key.g)
	case expireOffsets:
		return s.expire(now)
	}
	return st.out
}

// outcome is told what became of records, perhaps of what is no more.
func (s *Shard) outcome(now time.Time, o coordinator.Outcome) coordinator.Output {
	st := step{Shard: s, now: now}
	switch of := o.Of.(type) {
	case created:
		st.groupCreated(of.g, o.Err)
	case *synced:
		st.assignmentsStored(of, o.Err)
	case replaced:
		st.staticReplaced(of, o.Err)
	case firstCommit:
		return s.firstCommitted(of, o.Err)
	default:
		return s.removalOutcome(now, o)
	}
	return st.out
}
