package protocol

import (
	"iter"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Listeners is a set of kinds of listener.
type Listeners uint8

const (
	// ClientListener is where clients and tools connect.
	ClientListener Listeners = 1
	// PeerListener is where brokers of the cluster connect to each other.
	PeerListener Listeners = 2
)

// Limits of a request's frame, in bytes. Decoding can take up to maxDecodeFactor times as much.
const (
	maxProduceBytes = 100 << 20 // socket.request.max.bytes, as in Kafka
	maxLargeBytes   = 8 << 20   // requests that name many topics with their settings or offsets, what large groups join with and are assigned, and what fetch sessions begin with
	maxSmallBytes   = 1 << 20   // everything else; a list of 10,000 topics is a third of it
)

// API is one row of the table: what is served of one key.
type API struct {
	Key  int16
	Name string
	// Min and Max are the versions that are accepted.
	Min, Max int16
	// AdvertisedMin is the lowest version that ApiVersions lists. It is Min but for Produce: librdkafka before 2.11.1
	// switches compression off in silence where Produce 0 is not listed (KAFKA-18659), so Kafka lists what it refuses.
	AdvertisedMin int16
	// MaxBytes limits the frame's size.
	MaxBytes int32
	// Pipelined lets the connection's next request start while this one's reply waits.
	Pipelined bool
	// Listeners are where the key is served; elsewhere it is unknown.
	Listeners Listeners

	newRequest func() kmsg.Request
	check      func(kmsg.Request) error // whether a request that was decoded may come here; nil for any
	// firstFlexible is the first version with tagged fields (KIP-482); above Max where there is none.
	firstFlexible int16
}

// apis is THE table, in the order of keys: what is not here is not served, and what is here is complete. Its floors are
// those of Kafka 4 (KIP-896).
var apis = table([]API{
	{Key: 0, Name: "Produce", Min: 3, Max: 13, MaxBytes: maxProduceBytes, Pipelined: true, newRequest: request[kmsg.ProduceRequest]},
	{Key: 1, Name: "Fetch", Min: 4, Max: 18, MaxBytes: maxLargeBytes, newRequest: request[kmsg.FetchRequest]},
	{Key: 2, Name: "ListOffsets", Min: 1, Max: 11, MaxBytes: maxSmallBytes, newRequest: request[kmsg.ListOffsetsRequest]},
	{Key: 3, Name: "Metadata", Min: 0, Max: 13, MaxBytes: maxSmallBytes, newRequest: request[kmsg.MetadataRequest]},
	{Key: 8, Name: "OffsetCommit", Min: 2, Max: 9, MaxBytes: maxLargeBytes, Pipelined: true, newRequest: request[kmsg.OffsetCommitRequest]},
	{Key: 9, Name: "OffsetFetch", Min: 1, Max: 9, MaxBytes: maxLargeBytes, newRequest: request[kmsg.OffsetFetchRequest]},
	{Key: 10, Name: "FindCoordinator", Min: 0, Max: 6, MaxBytes: maxSmallBytes, newRequest: request[kmsg.FindCoordinatorRequest]},
	{Key: 11, Name: "JoinGroup", Min: 0, Max: 9, MaxBytes: maxLargeBytes, newRequest: request[kmsg.JoinGroupRequest]},
	{Key: 12, Name: "Heartbeat", Min: 0, Max: 4, MaxBytes: maxSmallBytes, newRequest: request[kmsg.HeartbeatRequest]},
	{Key: 13, Name: "LeaveGroup", Min: 0, Max: 5, MaxBytes: maxSmallBytes, newRequest: request[kmsg.LeaveGroupRequest]},
	{Key: 14, Name: "SyncGroup", Min: 0, Max: 5, MaxBytes: maxLargeBytes, newRequest: request[kmsg.SyncGroupRequest]},
	{Key: 15, Name: "DescribeGroups", Min: 0, Max: 6, MaxBytes: maxSmallBytes, newRequest: request[kmsg.DescribeGroupsRequest]},
	{Key: 16, Name: "ListGroups", Min: 0, Max: 5, MaxBytes: maxSmallBytes, newRequest: request[kmsg.ListGroupsRequest]},
	{Key: 18, Name: "ApiVersions", Min: 0, Max: 4, MaxBytes: maxSmallBytes, newRequest: request[kmsg.ApiVersionsRequest]},
	{Key: 19, Name: "CreateTopics", Min: 2, Max: 7, MaxBytes: maxLargeBytes, newRequest: request[kmsg.CreateTopicsRequest]},
	{Key: 20, Name: "DeleteTopics", Min: 1, Max: 6, MaxBytes: maxSmallBytes, newRequest: request[kmsg.DeleteTopicsRequest]},
	{Key: 21, Name: "DeleteRecords", Min: 0, Max: 2, MaxBytes: maxSmallBytes, newRequest: request[kmsg.DeleteRecordsRequest]},
	{Key: 22, Name: "InitProducerId", Min: 0, Max: 5, MaxBytes: maxSmallBytes, newRequest: request[kmsg.InitProducerIDRequest]},
	{Key: 23, Name: "OffsetForLeaderEpoch", Min: 2, Max: 4, MaxBytes: maxSmallBytes, newRequest: request[kmsg.OffsetForLeaderEpochRequest]},
	{Key: 32, Name: "DescribeConfigs", Min: 1, Max: 4, MaxBytes: maxLargeBytes, newRequest: request[kmsg.DescribeConfigsRequest]},
	{Key: 33, Name: "AlterConfigs", Min: 0, Max: 2, MaxBytes: maxLargeBytes, newRequest: request[kmsg.AlterConfigsRequest]},
	{Key: 34, Name: "AlterReplicaLogDirs", Min: 1, Max: 2, MaxBytes: maxSmallBytes, newRequest: request[kmsg.AlterReplicaLogDirsRequest]},
	{Key: 35, Name: "DescribeLogDirs", Min: 1, Max: 4, MaxBytes: maxSmallBytes, newRequest: request[kmsg.DescribeLogDirsRequest]},
	{Key: 37, Name: "CreatePartitions", Min: 0, Max: 3, MaxBytes: maxSmallBytes, newRequest: request[kmsg.CreatePartitionsRequest]},
	{Key: 42, Name: "DeleteGroups", Min: 0, Max: 2, MaxBytes: maxSmallBytes, newRequest: request[kmsg.DeleteGroupsRequest]},
	{Key: 43, Name: "ElectLeaders", Min: 0, Max: 2, MaxBytes: maxSmallBytes, newRequest: request[kmsg.ElectLeadersRequest]},
	{Key: 44, Name: "IncrementalAlterConfigs", Min: 0, Max: 1, MaxBytes: maxLargeBytes, newRequest: request[kmsg.IncrementalAlterConfigsRequest]},
	{Key: 45, Name: "AlterPartitionReassignments", Min: 0, Max: 1, MaxBytes: maxSmallBytes, newRequest: request[kmsg.AlterPartitionAssignmentsRequest]},
	{Key: 46, Name: "ListPartitionReassignments", Min: 0, Max: 0, MaxBytes: maxSmallBytes, newRequest: request[kmsg.ListPartitionReassignmentsRequest]},
	{Key: 47, Name: "OffsetDelete", Min: 0, Max: 0, MaxBytes: maxSmallBytes, newRequest: request[kmsg.OffsetDeleteRequest]},
	{Key: 55, Name: "DescribeQuorum", Min: 0, Max: 2, MaxBytes: maxSmallBytes, newRequest: request[kmsg.DescribeQuorumRequest]},
	{Key: 60, Name: "DescribeCluster", Min: 0, Max: 2, MaxBytes: maxSmallBytes, newRequest: request[kmsg.DescribeClusterRequest]},
	{Key: 61, Name: "DescribeProducers", Min: 0, Max: 0, MaxBytes: maxSmallBytes, newRequest: request[kmsg.DescribeProducersRequest]},
	{Key: 64, Name: "UnregisterBroker", Min: 0, Max: 0, MaxBytes: maxSmallBytes, newRequest: request[kmsg.UnregisterBrokerRequest]},
	{Key: 74, Name: "ListConfigResources", Min: 0, Max: 1, MaxBytes: maxSmallBytes, newRequest: request[kmsg.ListConfigResourcesRequest]},
	{Key: 75, Name: "DescribeTopicPartitions", Min: 0, Max: 0, MaxBytes: maxSmallBytes, newRequest: request[kmsg.DescribeTopicPartitionsRequest]},
	{Key: 81, Name: "RemoveRaftVoter", Min: 0, Max: 0, MaxBytes: maxSmallBytes, newRequest: request[kmsg.RemoveRaftVoterRequest]},
	peerAPI,
})

const (
	produceKey     = 0
	apiVersionsKey = 18

	produceAdvertisedMin = 0 // refused below 3, see AdvertisedMin
)

func request[T any, P interface {
	*T
	kmsg.Request
}]() kmsg.Request {
	return P(new(T))
}

// table fills in what follows from the rows.
func table(rows []API) []API {
	for i := range rows {
		a := &rows[i]
		a.AdvertisedMin = a.Min
		if a.Key == produceKey {
			a.AdvertisedMin = produceAdvertisedMin
		}
		if a.Listeners == 0 {
			a.Listeners = ClientListener | PeerListener
		}
		r := a.newRequest()
		noteStrings(reflect.TypeOf(r))
		a.firstFlexible = a.Max + 1
		for v := a.Max; v >= 0; v-- {
			if r.SetVersion(v); r.IsFlexible() {
				a.firstFlexible = v
			}
		}
	}
	return rows
}

// APIs returns the rows of the table that on serves, in the order of keys.
func APIs(on Listeners) iter.Seq[*API] {
	return func(yield func(*API) bool) {
		for i := range apis {
			if apis[i].Listeners&on != 0 && !yield(&apis[i]) {
				return
			}
		}
	}
}

// Lookup finds the row of a key; nil where it is not served on that kind of listener.
func Lookup(key int16, on Listeners) *API {
	if key == PeerKey && on == ClientListener { // not on one that peers share with clients
		return discoverAPI
	}
	i, ok := slices.BinarySearchFunc(apis, key, func(a API, key int16) int { return int(a.Key) - int(key) })
	if !ok || apis[i].Listeners&on == 0 {
		return nil
	}
	return &apis[i]
}

// Accepts reports whether requests of that version are served.
func (a *API) Accepts(version int16) bool { return a.Min <= version && version <= a.Max }

// Flexible reports whether that version has tagged fields. ApiVersions is asked at versions above the table's, whose
// header is that of the highest one known.
func (a *API) Flexible(version int16) bool { return version >= a.firstFlexible }
