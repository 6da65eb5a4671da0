package config

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"weir/internal/kafka"
)

// Server is what the operator set for this process, read once at start and immutable from then on. The fields hold what
// is in force by static settings; what may be changed at run time is resolved by Dynamic and TopicConfig.
type Server struct {
	NodeID    kafka.BrokerID // where NodeIDSet is false it may be another one, which the data directory or the cluster gives
	NodeIDSet bool           // node.id or broker.id is among the settings
	Roles     Roles
	Join      []string // addresses of members of the cluster that a node without data joins, as host:port; it never founds one then
	ClusterID string   // CLUSTER_ID: names a new cluster; empty where it may choose
	Rack      string   // empty: none
	LogLevel  slog.Level

	Listeners           []Listener // those of the settings; PeerListener is not among them
	InterBrokerListener string     // where brokers talk to each other: one of Listeners, or PeerListener's name
	PeerListener        *Listener  // a listener of the brokers' own, where no Kafka setting names one; nil where one does
	ControllerListeners []string   // names
	HTTPListeners       []string   // host:port; empty: none

	DataDirs    []string // at least one, as they were written
	MetadataDir string

	FsyncPolicy            FsyncPolicy
	RecordValidation       RecordValidation
	RetentionCheckInterval time.Duration
	CleanerEnabled         bool
	CleanerBackoff         time.Duration

	Topics       TopicAdmin
	Network      Network
	Limits       Limits
	Fetch        Fetch
	Replication  Replication
	Cluster      Cluster
	Quorum       Quorum
	Gossip       Gossip
	Offsets      Offsets
	Groups       Groups
	Transactions Transactions

	settings map[string]Setting
	inForce  map[string]string // what was worked out for names that nobody set
}

// Roles are the parts that the node plays, at least one of them.
type Roles struct{ Broker, Controller bool }

// FsyncPolicy says when records reach the disk.
type FsyncPolicy string

const (
	FsyncBackground FsyncPolicy = "background"
	FsyncAck        FsyncPolicy = "ack"
	FsyncNever      FsyncPolicy = "never"
)

// RecordValidation says how closely produced batches are checked.
type RecordValidation string

const (
	ValidateFull  RecordValidation = "full"
	ValidateBatch RecordValidation = "batch" // header and checksum only
)

// TopicAdmin is what new topics get, and what requests about topics may do.
type TopicAdmin struct {
	NumPartitions            int32
	DefaultReplicationFactor int16
	AutoCreate               bool
	DeleteEnabled            bool
	DescribeLimit            int32 // partitions in one answer to DescribeTopicPartitions
}

// Network is what Kafka has names for about connections.
type Network struct {
	RequestMaxBytes int32         // socket.request.max.bytes: a Produce frame
	MaxIdle         time.Duration // below 0: never
	RequestTimeout  time.Duration // of requests to other brokers
}

// Limits are Weir's own (weir.limit.*), besides the numbers of connections, which Dynamic gives. Loopback is free of those
// by address and by rate.
type Limits struct {
	FrameRead               time.Duration
	FrameReadBytesPerSecond int32
	Write                   time.Duration
	ConnectionsPerSecond    int32

	inFlightBytes int64
}

// InFlightBytes bounds the bytes of all requests being read or worked on, for a process that may use memoryLimit bytes.
func (l Limits) InFlightBytes(memoryLimit int64) int64 {
	if l.inFlightBytes == 0 {
		return memoryLimit / 4
	}
	return l.inFlightBytes
}

// Fetch bounds answers to consumers.
type Fetch struct {
	MaxBytes     int32
	SessionSlots int
}

// Replication is how followers fetch and when they count.
type Replication struct {
	LagTimeMax          time.Duration
	FetchMaxBytes       int32 // of one partition
	FetchResponseBytes  int32 // over all partitions
	FetchMinBytes       int32
	FetchWaitMax        time.Duration
	FetchBackoff        time.Duration // after a partition could not be fetched
	RackAware           bool          // leaders send consumers to a replica in their rack (KIP-392)
	AutoLeaderRebalance bool
	ImbalanceCheck      time.Duration
}

// Cluster is the node's standing towards the active controller.
type Cluster struct {
	HeartbeatInterval   time.Duration
	SessionTimeout      time.Duration
	RegistrationTimeout time.Duration // how long a start waits for a controller that registers the broker
	DirFailureTimeout   time.Duration // how long a failed directory may be unknown to the controller
	ControlledShutdown  bool
	SelfFence           bool
	MetadataVersion     int16 // that a new cluster is finalized at
}

// Quorum is who founds the cluster and how its Raft keeps time.
type Quorum struct {
	// Voters are those of controller.quorum.voters and controller.quorum.bootstrap.servers, which mean the same; sorted by
	// address. ID is kafka.NoBroker where the setting does not tell it.
	Voters          []Voter
	ElectionTimeout time.Duration
	FetchTimeout    time.Duration
	MaxVoters       int // how many controllers vote at most: 1, 3 or 5
}

// Gossip is how nodes hear of each other beside the quorum.
type Gossip struct {
	Port uint16 // UDP and TCP; 0: any free one
}

// Offsets is about committed offsets and their topic.
type Offsets struct {
	TopicPartitions        int32
	TopicReplicationFactor int16 // or as many as there are brokers
	TopicSegmentBytes      int32
	TopicCodec             int8 // the number of Kafka's record format
	CommitTimeout          time.Duration
	Retention              time.Duration
	RetentionCheck         time.Duration
	MetadataMaxBytes       int32
}

// Groups is about classic groups and, where the name says so, consumer groups (KIP-848).
type Groups struct {
	InitialRebalanceDelay time.Duration
	MinSessionTimeout     time.Duration
	MaxSessionTimeout     time.Duration
	MaxSize               int32
	Protocols             []string // classic, consumer, share, streams

	ConsumerSessionTimeout, ConsumerMinSessionTimeout, ConsumerMaxSessionTimeout          time.Duration
	ConsumerHeartbeatInterval, ConsumerMinHeartbeatInterval, ConsumerMaxHeartbeatInterval time.Duration
	ConsumerMaxSize                                                                       int32
	ConsumerAssignors                                                                     []string
	ConsumerMigrationPolicy                                                               string // disabled, downgrade, upgrade, bidirectional
}

// Transactions is about transactional ids and their topic.
type Transactions struct {
	TopicPartitions        int32
	TopicReplicationFactor int16 // or as many as there are brokers
	TopicMinISR            int32
	MaxTimeout             time.Duration
	IDExpiration           time.Duration
	AbortCheck             time.Duration
}

// Settings are what the operator set, by name, each with where.
func (s *Server) Settings() []Setting {
	if s == nil {
		return nil
	}
	return slices.SortedFunc(maps.Values(s.settings), func(a, b Setting) int { return strings.Compare(a.Name, b.Name) })
}

// raw finds a value that was set statically. A nil Server has none.
func (s *Server) raw(name string) (string, bool) {
	if s == nil {
		return "", false
	}
	setting, ok := s.settings[name]
	return setting.Value, ok
}

// derived finds a value that was worked out for a name that nobody set.
func (s *Server) derived(name string) (string, bool) {
	if s == nil {
		return "", false
	}
	v, ok := s.inForce[name]
	return v, ok
}

// defaultText is what counts where nobody sets a broker config; ok is false where that is nothing.
func (s *Server) defaultText(name string) (string, bool) {
	if v, ok := s.derived(name); ok {
		return v, true
	}
	d, ok := brokerIndex[name]
	if !ok || d.Null {
		return "", false
	}
	return d.Default, true
}

// value is the static value of a broker config; the zero value of its type where there is none.
func (s *Server) value(name string) value {
	v, _ := layers{static: s}.brokerValue(name)
	return v
}
