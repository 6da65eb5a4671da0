package golden

import "github.com/twmb/franz-go/pkg/kmsg"

// versionSets are the versions of four kinds of client; a key that a set does not name is sent at the newest version.
var versionSets = []struct {
	name     string
	versions Versions
}{
	{"newest", nil},
	// Kafka 4.0, which is as far as most Java clients have come; before topic ids in commits.
	{"kafka-4.0", Versions{
		kmsg.Produce: 12, kmsg.Fetch: 17, kmsg.ListOffsets: 10, kmsg.OffsetCommit: 9, kmsg.OffsetFetch: 9, kmsg.DeleteGroups: 2,
		kmsg.ListConfigResources: 0,
	}},
	// What librdkafka 2.15 sends; kafkajs and aiokafka are near.
	{"librdkafka", Versions{
		kmsg.Produce: 10, kmsg.Fetch: 16, kmsg.ListOffsets: 7, kmsg.OffsetCommit: 9, kmsg.OffsetFetch: 9,
		kmsg.FindCoordinator: 2, kmsg.JoinGroup: 5, kmsg.Heartbeat: 3, kmsg.LeaveGroup: 1, kmsg.SyncGroup: 3, kmsg.DescribeGroups: 4,
		kmsg.ListGroups: 4, kmsg.DeleteGroups: 1, kmsg.CreateTopics: 4, kmsg.DeleteTopics: 4, kmsg.CreatePartitions: 0, kmsg.DescribeConfigs: 1,
		kmsg.AlterConfigs: 2, kmsg.OffsetForLeaderEpoch: 2, kmsg.DeleteRecords: 1,
	}},
	// The oldest that Kafka 4 serves, which kafka-go still sends.
	{"oldest", Versions{
		kmsg.Produce: 3, kmsg.Fetch: 4, kmsg.ListOffsets: 1, kmsg.Metadata: 1, kmsg.OffsetCommit: 2, kmsg.OffsetFetch: 1,
		kmsg.FindCoordinator: 0, kmsg.JoinGroup: 0, kmsg.Heartbeat: 0, kmsg.LeaveGroup: 0, kmsg.SyncGroup: 0, kmsg.DescribeGroups: 0,
		kmsg.ListGroups: 0, kmsg.DeleteGroups: 0, kmsg.CreateTopics: 2, kmsg.DeleteTopics: 1, kmsg.CreatePartitions: 0,
		kmsg.DescribeConfigs: 1, kmsg.AlterConfigs: 0, kmsg.IncrementalAlterConfigs: 0, kmsg.ListConfigResources: 0,
		kmsg.OffsetForLeaderEpoch: 2, kmsg.DeleteRecords: 0, kmsg.InitProducerID: 0,
	}},
}

// atEach makes a script of each set of versions.
func atEach(name string, run func(*Session), needs ...kmsg.Key) (scripts []Script) {
	for _, set := range versionSets {
		scripts = append(scripts, Script{Name: name + "-" + set.name, Versions: set.versions, Needs: needs, run: run})
	}
	return scripts
}

func ptr[T any](v T) *T { return &v }
