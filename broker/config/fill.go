package config

import (
	"math"
	"strings"
	"time"

	"weir/internal/kafka"
)

// fill sets the typed fields from the settings; Load has validated every one of them.
func (s *Server) fill() {
	s.NodeID = kafka.BrokerID(s.int32("node.id"))
	s.Rack = s.value("broker.rack").str

	s.FsyncPolicy = FsyncPolicy(s.value("weir.fsync.policy").str)
	s.RecordValidation = RecordValidation(s.value("weir.record.validation").str)
	s.RetentionCheckInterval = s.millis("log.retention.check.interval.ms")
	s.CleanerEnabled = s.bool("log.cleaner.enable")
	s.CleanerBackoff = s.millis("log.cleaner.backoff.ms")

	s.Topics = TopicAdmin{
		NumPartitions:            s.int32("num.partitions"),
		DefaultReplicationFactor: s.int16("default.replication.factor"),
		AutoCreate:               s.bool("auto.create.topics.enable"),
		DeleteEnabled:            s.bool("delete.topic.enable"),
		DescribeLimit:            s.int32("max.request.partition.size.limit"),
	}
	s.Network = Network{
		RequestMaxBytes: s.int32("socket.request.max.bytes"),
		MaxIdle:         s.millis("connections.max.idle.ms"),
		RequestTimeout:  s.millis("request.timeout.ms"),
	}
	s.Limits = Limits{
		FrameRead:               s.millis("weir.limit.frame.read.ms"),
		FrameReadBytesPerSecond: s.int32("weir.limit.frame.read.bytes.per.second"),
		Write:                   s.millis("weir.limit.write.ms"),
		ConnectionsPerSecond:    s.int32("weir.limit.connections.per.second"),
		inFlightBytes:           s.value("weir.limit.inflight.bytes").num,
	}
	s.Fetch = Fetch{MaxBytes: s.int32("fetch.max.bytes"), SessionSlots: int(s.int32("max.incremental.fetch.session.cache.slots"))}
	s.fillCluster()
	s.fillCoordinators()
}

func (s *Server) fillCluster() {
	s.Replication = Replication{
		LagTimeMax:          s.millis("replica.lag.time.max.ms"),
		FetchMaxBytes:       s.int32("replica.fetch.max.bytes"),
		FetchResponseBytes:  s.int32("replica.fetch.response.max.bytes"),
		FetchMinBytes:       s.int32("replica.fetch.min.bytes"),
		FetchWaitMax:        s.millis("replica.fetch.wait.max.ms"),
		FetchBackoff:        s.millis("replica.fetch.backoff.ms"),
		RackAware:           s.value("replica.selector.class").str == rackAwareSelector,
		AutoLeaderRebalance: s.bool("auto.leader.rebalance.enable"),
		ImbalanceCheck:      s.seconds("leader.imbalance.check.interval.seconds"),
	}
	s.Cluster = Cluster{
		HeartbeatInterval:   s.millis("broker.heartbeat.interval.ms"),
		SessionTimeout:      s.millis("broker.session.timeout.ms"),
		RegistrationTimeout: s.millis("initial.broker.registration.timeout.ms"),
		DirFailureTimeout:   s.millis("log.dir.failure.timeout.ms"),
		ControlledShutdown:  s.bool("controlled.shutdown.enable"),
		SelfFence:           s.bool("weir.broker.self.fence"),
		MetadataVersion:     s.int16("weir.metadata.version"),
	}
	s.Quorum.ElectionTimeout = s.millis("controller.quorum.election.timeout.ms")
	s.Quorum.FetchTimeout = s.millis("controller.quorum.fetch.timeout.ms")
	s.Quorum.MaxVoters = int(s.int32("weir.quorum.max.voters"))
	s.Gossip = Gossip{Port: uint16(s.int32("weir.gossip.port"))}
}

func (s *Server) fillCoordinators() {
	s.Offsets = Offsets{
		TopicPartitions:        s.int32("offsets.topic.num.partitions"),
		TopicReplicationFactor: s.int16("offsets.topic.replication.factor"),
		TopicSegmentBytes:      s.int32("offsets.topic.segment.bytes"),
		TopicCodec:             int8(s.int32("offsets.topic.compression.codec")),
		CommitTimeout:          s.millis("offsets.commit.timeout.ms"),
		Retention:              durationOf(s.value("offsets.retention.minutes").num, time.Minute),
		RetentionCheck:         s.millis("offsets.retention.check.interval.ms"),
		MetadataMaxBytes:       s.int32("offset.metadata.max.bytes"),
	}
	s.Groups = Groups{
		InitialRebalanceDelay: s.millis("group.initial.rebalance.delay.ms"),
		MinSessionTimeout:     s.millis("group.min.session.timeout.ms"),
		MaxSessionTimeout:     s.millis("group.max.session.timeout.ms"),
		MaxSize:               s.int32("group.max.size"),
		Protocols:             s.value("group.coordinator.rebalance.protocols").list,

		ConsumerSessionTimeout:       s.millis("group.consumer.session.timeout.ms"),
		ConsumerMinSessionTimeout:    s.millis("group.consumer.min.session.timeout.ms"),
		ConsumerMaxSessionTimeout:    s.millis("group.consumer.max.session.timeout.ms"),
		ConsumerHeartbeatInterval:    s.millis("group.consumer.heartbeat.interval.ms"),
		ConsumerMinHeartbeatInterval: s.millis("group.consumer.min.heartbeat.interval.ms"),
		ConsumerMaxHeartbeatInterval: s.millis("group.consumer.max.heartbeat.interval.ms"),
		ConsumerMaxSize:              s.int32("group.consumer.max.size"),
		ConsumerAssignors:            s.value("group.consumer.assignors").list,
		ConsumerMigrationPolicy:      strings.ToLower(s.value("group.consumer.migration.policy").str),
	}
	s.Transactions = Transactions{
		TopicPartitions:        s.int32("transaction.state.log.num.partitions"),
		TopicReplicationFactor: s.int16("transaction.state.log.replication.factor"),
		TopicMinISR:            s.int32("transaction.state.log.min.isr"),
		MaxTimeout:             s.millis("transaction.max.timeout.ms"),
		IDExpiration:           s.millis("transactional.id.expiration.ms"),
		AbortCheck:             s.millis("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
	}
}

// Dynamic is what may change at run time for a broker, besides what topics have.
type Dynamic struct {
	MaxConnections         int32 // the lower of Kafka's setting and Weir's, as for the next
	MaxConnectionsPerIP    int32
	MaxListenerConnections map[string]int32 // by the names of those listeners that have a limit of their own

	ProducerIDExpiration  time.Duration
	VerifyTransactions    bool
	NumReplicaFetchers    int32
	LeaderThrottledRate   int64 // bytes a second
	FollowerThrottledRate int64
	AlterLogDirsRate      int64 // bytes a second
	CleanerThreads        int32
	CleanerBytesPerSecond float64
}

// Dynamic resolves what is in force for this broker. Maps may be nil and are not kept.
func (s *Server) Dynamic(brokerDefault, broker map[string]string) Dynamic {
	l := layers{s, brokerDefault, broker}
	get := func(name string) value {
		v, _ := l.brokerValue(name)
		return v
	}
	return Dynamic{
		MaxConnections:         int32(min(get("max.connections").num, get("weir.limit.connections").num)),
		MaxConnectionsPerIP:    int32(min(get("max.connections.per.ip").num, get("weir.limit.connections.per.ip").num)),
		MaxListenerConnections: l.maxListenerConnections(),

		ProducerIDExpiration:  durationOf(get("producer.id.expiration.ms").num, time.Millisecond),
		VerifyTransactions:    get("transaction.partition.verification.enable").num == 1,
		NumReplicaFetchers:    int32(get("num.replica.fetchers").num),
		LeaderThrottledRate:   get("leader.replication.throttled.rate").num,
		FollowerThrottledRate: get("follower.replication.throttled.rate").num,
		AlterLogDirsRate:      get("replica.alter.log.dirs.io.max.bytes.per.second").num,
		CleanerThreads:        int32(get("log.cleaner.threads").num),
		CleanerBytesPerSecond: get("log.cleaner.io.max.bytes.per.second").dbl,
	}
}

func (l layers) maxListenerConnections() map[string]int32 {
	if l.static == nil {
		return nil
	}
	limits := make(map[string]int32)
	for name, listener := range l.static.listenerLimits() {
		if _, set := l.brokerRaw(name); set {
			v, _ := l.brokerValue(name)
			limits[listener] = int32(v.num)
		}
	}
	return limits
}

// listenerLimits are the listeners by the settings that bound their connections.
func (s *Server) listenerLimits() map[string]string {
	listeners := make(map[string]string)
	for _, l := range s.Listeners {
		listeners["listener.name."+strings.ToLower(l.Name)+".max.connections"] = l.Name
	}
	return listeners
}

func (s *Server) bool(name string) bool   { return s.value(name).num == 1 }
func (s *Server) int32(name string) int32 { return int32(s.value(name).num) }

// int16 holds for configs whose type is wider than the wire's field too: a replication factor of 40000 is as good as
// 32767, which no cluster has.
func (s *Server) int16(name string) int16 {
	return int16(max(math.MinInt16, min(s.value(name).num, math.MaxInt16)))
}

func (s *Server) millis(name string) time.Duration {
	return durationOf(s.value(name).num, time.Millisecond)
}
func (s *Server) seconds(name string) time.Duration {
	return durationOf(s.value(name).num, time.Second)
}

// durationOf is n units, or the longest duration there is to either side.
func durationOf(n int64, unit time.Duration) time.Duration {
	limit := int64(math.MaxInt64 / unit)
	switch {
	case n > limit:
		return math.MaxInt64
	case n < -limit:
		return math.MinInt64
	default:
		return time.Duration(n) * unit
	}
}
