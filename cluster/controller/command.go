package controller

import (
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
	ClusterID string // must be the image's
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
	// the machine stayed up. -1 where that is not known; then the broker leaves every ISR and ELR (R7).
	PreviousEpoch kafka.BrokerEpoch
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
}

// BrokerHeartbeatReply is the broker's state.
type BrokerHeartbeatReply struct {
	CaughtUp bool // the broker has seen its own registration
	Fenced   bool
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
func (RegisterBroker) command()          {}
func (BrokerHeartbeat) command()         {}
func (CreateTopics) command()            {}
func (DeleteTopics) command()            {}
func (CreatePartitions) command()        {}
func (AllocateProducerIDs) command()     {}
func (AlterConfigs) command()            {}
func (IncrementalAlterConfigs) command() {}

func (InitializeReply) reply()          {}
func (RegisterBrokerReply) reply()      {}
func (BrokerHeartbeatReply) reply()     {}
func (CreateTopicsReply) reply()        {}
func (DeleteTopicsReply) reply()        {}
func (CreatePartitionsReply) reply()    {}
func (AllocateProducerIDsReply) reply() {}
func (AlterConfigsReply) reply()        {}
