package controller

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"weir/broker/config"
	"weir/cluster/metadata"
	"weir/internal/invariant"
	"weir/internal/kafka"
)

// Settings are the static configs that decisions depend on.
type Settings struct {
	Self                        kafka.BrokerID // whose settings these are
	NumPartitions               int32          // num.partitions
	DefaultReplicationFactor    int16          // default.replication.factor
	MinInSyncReplicas           int32          // min.insync.replicas
	UncleanLeaderElectionEnable bool           // unclean.leader.election.enable
	DeleteTopicEnable           bool           // delete.topic.enable
	// Replicas that internal topics are to have when there are brokers enough; 0 leaves them as they are.
	OffsetsTopicReplicationFactor     int16 // offsets.topic.replication.factor
	TransactionTopicReplicationFactor int16 // transaction.state.log.replication.factor
	ShareTopicReplicationFactor       int16 // share.coordinator.state.topic.replication.factor

	Config *config.Server // validates configurations; nil for the defaults of all values
}

// Decide returns the records that make cmd true and the reply to give when they are committed. No records: the reply can
// be given at once. An error has a code and stands for the whole command; nothing is to be written then.
func Decide(s *Settings, img *metadata.Image, leases Leases, now time.Time, cmd Command) ([]metadata.Record, Reply, error) {
	d := decision{settings: s, img: img, leases: leases, now: now}
	var reply Reply
	var err error
	switch c := cmd.(type) {
	case Initialize:
		reply, err = d.initialize(c)
	case RegisterBroker:
		reply, err = d.registerBroker(c)
	case BrokerHeartbeat:
		reply, err = d.brokerHeartbeat(c)
	case FenceBrokers:
		reply = d.fenceBrokers()
	case AlterPartition:
		reply, err = d.alterPartition(c)
	case ElectLeaders:
		reply, err = d.electLeaders(c)
	case BalanceLeaders:
		reply = d.balanceLeaders(c)
	case AssignReplicasToDirs:
		reply, err = d.assignReplicasToDirs(c)
	case RegisterMember:
		reply, err = d.registerMember(c)
	case JoinNode:
		reply, err = d.joinNode(c)
	case UnregisterBroker:
		reply, err = d.unregisterBroker(c)
	case RemoveMember:
		reply, err = d.removeMember(c)
	case SetGossipKey:
		reply, err = d.setGossipKey(c)
	case DescribeQuorum:
		err = kafka.Errorf(kafka.InvalidRequest, "The image does not tell of the quorum.")
	case RaiseInternalTopics:
		reply = d.raiseInternalTopics()
	case CreateTopics:
		reply = d.createTopics(c)
	case DeleteTopics:
		reply, err = d.deleteTopics(c)
	case CreatePartitions:
		reply = d.createPartitions(c)
	case AlterReassignments:
		reply = d.alterReassignments(c)
	case AllocateProducerIDs:
		reply, err = d.allocateProducerIDs(c)
	case AlterConfigs:
		reply = d.alterConfigs(c)
	case IncrementalAlterConfigs:
		reply = d.incrementalAlterConfigs(c)
	default:
		err = kafka.Errorf(kafka.InvalidRequest, "The controller knows no command %s.", Name(cmd))
	}
	if err != nil {
		return nil, nil, err
	}
	return d.records, reply, nil
}

// decision is one call of Decide.
type decision struct {
	settings *Settings
	img      *metadata.Image
	leases   Leases
	now      time.Time
	records  []metadata.Record
	settled  int // records that img holds already
}

func (d *decision) add(r ...metadata.Record) { d.records = append(d.records, r...) }

// settle has what follows be decided on what was decided so far.
func (d *decision) settle() {
	if d.settled == len(d.records) {
		return
	}
	next, _, err := d.img.With(d.records[d.settled:])
	invariant.Assert(err == nil, "what was decided does not apply: %v", err)
	d.img, d.settled = next, len(d.records)
}

// ok is the outcome of an item that succeeded.
var ok = Result{}

func failed(code kafka.Code, format string, args ...any) Result {
	message := kafka.Text(fmt.Sprintf(format, args...))
	return Result{Code: code, Message: &message}
}

// failedWith makes the outcome of an item out of an error that has a code.
func failedWith(err error) Result {
	return failed(kafka.CodeOf(err), "%s", err.Error())
}

// minISR is what min.insync.replicas is for a topic; a partition with fewer replicas needs just all of them.
func (d *decision) minISR(topic string) int {
	value := int64(d.settings.MinInSyncReplicas)
	for _, m := range []map[string]string{d.img.Configs.BrokerDefault(), d.img.Configs.Topic(topic)} {
		if v, err := strconv.ParseInt(strings.TrimSpace(m[minInSyncReplicas]), 10, 64); err == nil {
			value = v
		}
	}
	return int(value)
}

const (
	minInSyncReplicas     = "min.insync.replicas"
	uncleanLeaderElection = "unclean.leader.election.enable"
)

// uncleanElection is what unclean.leader.election.enable is for a topic. Where the topic leaves it open, what is set for
// the active controller's own broker counts, in Kafka too.
func (d *decision) uncleanElection(topic string) bool {
	value := d.settings.UncleanLeaderElectionEnable
	for _, m := range []map[string]string{d.img.Configs.BrokerDefault(), d.img.Configs.Broker(d.settings.Self), d.img.Configs.Topic(topic)} {
		if v, ok := m[uncleanLeaderElection]; ok {
			value = strings.EqualFold(strings.TrimSpace(v), "true") // as config reads it
		}
	}
	return value
}
