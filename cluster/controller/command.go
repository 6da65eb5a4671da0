package controller

import (
	"strconv"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// Command is what someone wants to become true: one of the struct types of this package that have a reply type of the
// same name with Reply after it.
type Command interface{ command() }

// Reply answers a command once its records are committed. Where a command's items succeed or fail one by one, the reply
// has a Result for each.
type Reply interface{ reply() }

// Result is the outcome of one item of a command.
type Result struct {
	Code    kafka.Code
	Message *string // as Kafka sends it: nil where there is no text
}

// OK reports whether the item succeeded.
func (r Result) OK() bool { return r.Code == kafka.None }

// Initialize makes the first decisions of a new cluster: the dynamic defaults that a new Kafka cluster has. On a cluster
// that has decided anything before it does nothing.
type Initialize struct {
	ClusterID string             // must be the image's
	GossipKey metadata.GossipKey // 32 random bytes; nil leaves the cluster without a key as yet
}

// InitializeReply has nothing to say.
type InitializeReply struct{}

// RegisterBroker registers one incarnation of a broker. Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION,
// INVALID_REQUEST, BROKER_ID_NOT_REGISTERED.
type RegisterBroker struct {
	ClusterID   string
	Broker      kafka.BrokerID
	Incarnation kafka.UUID // drawn at the start of the process
	Listeners   []metadata.Endpoint
	Rack        string // "" for none
	Directories []kafka.DirectoryID
	// PreviousEpoch is the epoch of the incarnation whose logs are known to be whole: it stopped cleanly, or was killed and
	// the machine stayed up. -1 where that is not known; then the broker leaves every ISR and ELR.
	PreviousEpoch kafka.BrokerEpoch
	// PreviousIncarnations are processes whose logs these are whole, likewise: those that started since an epoch was last
	// heard of. Each of them may have registered without ever having heard of that.
	PreviousIncarnations []kafka.UUID
}

// RegisterBrokerReply tells the broker its epoch.
type RegisterBrokerReply struct{ Epoch kafka.BrokerEpoch }

// BrokerHeartbeat asks for the broker's state to become what it wants. Errors: BROKER_ID_NOT_REGISTERED,
// STALE_BROKER_EPOCH.
type BrokerHeartbeat struct {
	Broker         kafka.BrokerID
	Epoch          kafka.BrokerEpoch
	MetadataOffset int64 // index of the image that the broker has published
	WantFence      bool
	WantShutDown   bool                // begins a controlled shutdown, which does not end but with the process
	OfflineDirs    []kafka.DirectoryID // directories that failed since the registration
	// Unreachable are brokers whose own host said that their process is gone: it closed the connection, and a new one was
	// refused. What is merely silent does not belong here.
	Unreachable []UnreachableBroker
}

// UnreachableBroker is one incarnation of a broker that another one found gone.
type UnreachableBroker struct {
	Broker kafka.BrokerID
	Epoch  kafka.BrokerEpoch
}

// BrokerHeartbeatReply is the broker's state.
type BrokerHeartbeatReply struct {
	CaughtUp       bool // the broker has seen its own registration
	Fenced         bool
	ShouldShutDown bool // it leads nothing, and every other active broker knows that
}

// FenceBrokers is the active controller's own: it fences brokers whose session is over, or that are proven gone.
type FenceBrokers struct{}

// FenceBrokersReply names whom it fenced.
type FenceBrokersReply struct{ Fenced []FencedBroker }

// FencedBroker is a process whose session ended.
type FencedBroker struct {
	Broker      kafka.BrokerID
	Incarnation kafka.UUID
}

// String is the broker's id.
func (f FencedBroker) String() string { return strconv.Itoa(int(f.Broker)) }

// AlterPartition is what a leader wants of the ISRs of partitions that it leads (KIP-497, KIP-903). Errors of the whole:
// BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
type AlterPartition struct {
	Broker     kafka.BrokerID
	Epoch      kafka.BrokerEpoch
	Partitions []ISRChange
}

// ISRChange is the ISR that a leader wants for one partition, and the state that it decided that on.
type ISRChange struct {
	TopicID        kafka.TopicID
	Partition      int32
	LeaderEpoch    kafka.LeaderEpoch
	PartitionEpoch kafka.PartitionEpoch
	ISR            []ISRMember
	RecoveryState  int8 // metadata.Recovered or metadata.Recovering
}

// ISRMember is a replica with the broker epoch that it fetched with; -1 is not checked.
type ISRMember struct {
	Broker kafka.BrokerID
	Epoch  kafka.BrokerEpoch
}

// AlterPartitionReply has one row for every partition, in the order of the command.
type AlterPartitionReply struct{ Partitions []AlteredPartition }

// AlteredPartition is what a partition is now, where Code is NONE; that may be what it was.
type AlteredPartition struct {
	TopicID        kafka.TopicID
	Partition      int32
	Code           kafka.Code
	Leader         kafka.BrokerID
	LeaderEpoch    kafka.LeaderEpoch
	PartitionEpoch kafka.PartitionEpoch
	ISR            []kafka.BrokerID
	RecoveryState  int8
}

// ElectionType is the protocol's number of a kind of election (KIP-460).
type ElectionType int8

// The kinds: the first replica if it may lead, or any replica that is there.
const (
	PreferredElection ElectionType = 0
	UncleanElection   ElectionType = 1
)

// ElectLeaders holds elections. All is for every partition that needs one of that type.
type ElectLeaders struct {
	Type       ElectionType
	All        bool
	Partitions []kafka.TopicPartition
}

// ElectLeadersReply has one row for every partition that was named; with All only for those that had an election.
type ElectLeadersReply struct{ Partitions []ElectedPartition }

// ElectedPartition is the outcome for one partition.
type ElectedPartition struct {
	kafka.TopicPartition
	Result
}

// BalanceLeaders is the active controller's own: it gives partitions back to their preferred leaders, at most Max of them.
type BalanceLeaders struct{ Max int }

// BalanceLeadersReply says how many there were, and whether there are more.
type BalanceLeadersReply struct {
	Elected int
	More    bool
}

// RaiseInternalTopics is the active controller's own: internal topics that were created when there were too few brokers get
// the replicas that they are configured to have. It is worth asking when a broker became active, and now and then.
type RaiseInternalTopics struct{}

// RaiseInternalTopicsReply says how many partitions get more replicas.
type RaiseInternalTopicsReply struct{ Partitions int }

// AssignReplicasToDirs tells in which directories a broker's replicas are (KIP-858). Errors: BROKER_ID_NOT_REGISTERED,
// STALE_BROKER_EPOCH.
type AssignReplicasToDirs struct {
	Broker      kafka.BrokerID
	Epoch       kafka.BrokerEpoch
	Assignments []DirAssignment
}

// DirAssignment is the directory of one replica.
type DirAssignment struct {
	TopicID   kafka.TopicID
	Partition int32
	Directory kafka.DirectoryID
}

// AssignReplicasToDirsReply has nothing to say: what is unknown by now is passed over.
type AssignReplicasToDirsReply struct{}

// RegisterMember names the node behind a Raft id, and its address, before it becomes a member of the quorum or when its
// address changed. Errors: INCONSISTENT_CLUSTER_ID, DUPLICATE_BROKER_REGISTRATION (the node id is another directory's).
type RegisterMember struct {
	ClusterID string
	Member    metadata.QuorumMember
}

// RegisterMemberReply has nothing to say.
type RegisterMemberReply struct{}

// DescribeQuorum asks how far the members of the quorum have come. It changes nothing, and is no matter of the image: whoever
// steps Raft answers it (cluster.Node).
type DescribeQuorum struct{}

// DescribeQuorumReply is where the metadata log stands, as far as the node knows that answers.
type DescribeQuorumReply struct {
	Leader           kafka.BrokerID // NoBroker where it is unknown
	LeaderEpoch      kafka.LeaderEpoch
	HighWatermark    int64 // exclusive
	Voters, Learners []QuorumReplica
}

// QuorumReplica is one node's copy of the metadata log.
type QuorumReplica struct {
	Node         kafka.BrokerID
	Directory    kafka.DirectoryID
	LogEndOffset int64 // exclusive; -1 where it is unknown
	// When it last answered the leader, and when it last had all that there was, in Unix time by the leader's clock; 0 where that
	// is unknown.
	LastFetchMs, LastCaughtUpMs int64
}

// CreateTopics creates topics. Results come in Kafka's order: that of the request, then names that it refuses outright.
type CreateTopics struct {
	Topics       []NewTopic
	ValidateOnly bool
	Seed         uint64 // where placement begins; random
}

// NewTopic is one topic to create.
type NewTopic struct {
	Name              string
	ID                kafka.TopicID // random; taken if the topic is created
	NumPartitions     int32         // -1: the default
	ReplicationFactor int16         // -1: the default
	Assignments       []Assignment  // by hand; then the two above are -1
	Configs           []ConfigValue
}

// Assignment names the replicas of one partition, in order of preference.
type Assignment struct {
	Partition int32
	Replicas  []kafka.BrokerID
}

// ConfigValue is a key with its value; nil is the protocol's null.
type ConfigValue struct {
	Name  string
	Value *string
}

// CreateTopicsReply has one row for every name.
type CreateTopicsReply struct{ Topics []CreatedTopic }

// CreatedTopic is a topic that was created, would have been (ValidateOnly), or could not be: then only Name and Result
// are set.
type CreatedTopic struct {
	Name string
	Result
	ID                kafka.TopicID
	NumPartitions     int32
	ReplicationFactor int16
	Configs           map[string]string // what was set at creation; nil for nothing
}

// DeleteTopics deletes topics by name or by id.
type DeleteTopics struct{ Topics []TopicRef }

// TopicRef names a topic by its name (ID is zero) or by its id (Name is nil).
type TopicRef struct {
	Name *string
	ID   kafka.TopicID
}

// DeleteTopicsReply has one row for every topic, in no promised order.
type DeleteTopicsReply struct{ Topics []DeletedTopic }

// DeletedTopic is a topic that was deleted, or could not be.
type DeletedTopic struct {
	Name *string
	ID   kafka.TopicID
	Result
}

// CreatePartitions raises the number of partitions of topics.
type CreatePartitions struct {
	Topics       []MorePartitions
	ValidateOnly bool
	Seed         uint64 // where placement begins; random
}

// MorePartitions is how many partitions one topic shall have.
type MorePartitions struct {
	Name        string
	Count       int32              // in all
	Assignments [][]kafka.BrokerID // one for each new partition, or nil
}

// CreatePartitionsReply has one row for every name.
type CreatePartitionsReply struct{ Topics []PartitionsResult }

// PartitionsResult is the outcome for one topic.
type PartitionsResult struct {
	Name string
	Result
}

// AllocateProducerIDs takes a block of producer ids for a broker. Errors: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
type AllocateProducerIDs struct {
	Broker kafka.BrokerID
	Epoch  kafka.BrokerEpoch
}

// AllocateProducerIDsReply is the block [Start, Start+Count).
type AllocateProducerIDsReply struct {
	Start int64
	Count int32
}

// AlterConfigs replaces the whole configuration of resources: a key that is not named is removed.
type AlterConfigs struct {
	Broker       kafka.BrokerID // that took the request: the only single broker that it can be about
	Resources    []ConfigReplacement
	ValidateOnly bool
}

// ConfigReplacement is all that shall be set for one resource.
type ConfigReplacement struct {
	Resource metadata.ConfigResource
	Configs  []ConfigValue
}

// IncrementalAlterConfigs changes single keys of resources.
type IncrementalAlterConfigs struct {
	Broker       kafka.BrokerID // as in AlterConfigs
	Resources    []ConfigChange
	ValidateOnly bool
}

// ConfigChange is what shall change for one resource.
type ConfigChange struct {
	Resource metadata.ConfigResource
	Ops      []ConfigOp
}

// ConfigOp changes one key.
type ConfigOp struct {
	Name  string
	Op    OpType
	Value *string
}

// OpType is the protocol's number of an operation on a key.
type OpType int8

// The numbers are the protocol's (AlterConfigOp.OpType). Append and subtract are for lists.
const (
	OpSet      OpType = 0
	OpDelete   OpType = 1
	OpAppend   OpType = 2
	OpSubtract OpType = 3
)

// AlterConfigsReply answers AlterConfigs and IncrementalAlterConfigs with one row for every resource.
type AlterConfigsReply struct{ Resources []AlteredResource }

// AlteredResource is the outcome for one resource.
type AlteredResource struct {
	Resource metadata.ConfigResource
	Result
}

func (Initialize) command()              {}
func (FenceBrokers) command()            {}
func (AlterPartition) command()          {}
func (ElectLeaders) command()            {}
func (BalanceLeaders) command()          {}
func (RaiseInternalTopics) command()     {}
func (AssignReplicasToDirs) command()    {}
func (RegisterMember) command()          {}
func (DescribeQuorum) command()          {}
func (RegisterBroker) command()          {}
func (BrokerHeartbeat) command()         {}
func (CreateTopics) command()            {}
func (DeleteTopics) command()            {}
func (CreatePartitions) command()        {}
func (AllocateProducerIDs) command()     {}
func (AlterConfigs) command()            {}
func (IncrementalAlterConfigs) command() {}

func (InitializeReply) reply()           {}
func (FenceBrokersReply) reply()         {}
func (AlterPartitionReply) reply()       {}
func (ElectLeadersReply) reply()         {}
func (BalanceLeadersReply) reply()       {}
func (RaiseInternalTopicsReply) reply()  {}
func (AssignReplicasToDirsReply) reply() {}
func (RegisterMemberReply) reply()       {}
func (DescribeQuorumReply) reply()       {}
func (RegisterBrokerReply) reply()       {}
func (BrokerHeartbeatReply) reply()      {}
func (CreateTopicsReply) reply()         {}
func (DeleteTopicsReply) reply()         {}
func (CreatePartitionsReply) reply()     {}
func (AllocateProducerIDsReply) reply()  {}
func (AlterConfigsReply) reply()         {}
