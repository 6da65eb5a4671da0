package wire

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// on opens a connection to a node.
func on(t *testing.T, c *harness.Cluster, id int) *conn {
	t.Helper()
	return dial(t, c.Node(id).Bootstrap)
}

// replicated creates a topic of one partition, with a replica on each of three nodes, that all of them know.
func replicated(t *testing.T, cluster *harness.Cluster) topic {
	t.Helper()
	name := harness.TopicName(t)
	cluster.CreateTopic(t, name, 1, 3)
	for _, n := range cluster.Nodes() {
		awaitPartition(t, on(t, cluster, n.ID), name, "known", func(kmsg.MetadataResponseTopicPartition) bool { return true })
	}
	return topic{name, metadataOfAll(t, on(t, cluster, 1), name).Topics[0].TopicID}
}

// metadataOfAll asks for one topic, and for the nodes.
func metadataOfAll(t *testing.T, c *conn, name string) *kmsg.MetadataResponse {
	t.Helper()
	req := at(12, kmsg.NewPtrMetadataRequest())
	req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
	req.AllowAutoTopicCreation = false
	return ask(t, c, req)
}

// awaitPartition waits until a node describes partition 0 as ok wants it.
func awaitPartition(t *testing.T, c *conn, name, what string, ok func(kmsg.MetadataResponseTopicPartition) bool) kmsg.MetadataResponseTopicPartition {
	t.Helper()
	for deadline := time.Now().Add(longestJoin); ; time.Sleep(10 * time.Millisecond) {
		got := metadataOfAll(t, c, name).Topics[0]
		if len(got.Partitions) > 0 && ok(got.Partitions[0]) {
			return got.Partitions[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s[0] is not %s: %+v", name, what, got)
		}
	}
}

// describeQuorum asks who leads the metadata log.
func describeQuorum(t *testing.T, c *conn) *kmsg.DescribeQuorumResponse {
	t.Helper()
	req := at(2, kmsg.NewPtrDescribeQuorumRequest())
	req.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: "__cluster_metadata", Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	resp := ask(t, c, req)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		t.Fatalf("DescribeQuorum: %+v", resp)
	}
	return resp
}

// elect asks for the preferred leader of partition 0.
func elect(t *testing.T, c *conn, name string) kmsg.ElectLeadersResponseTopicPartition {
	t.Helper()
	req := at(2, kmsg.NewPtrElectLeadersRequest())
	req.Topics = []kmsg.ElectLeadersRequestTopic{{Topic: name, Partitions: []int32{0}}}
	resp := ask(t, c, req)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		t.Fatalf("ElectLeaders: %+v", resp)
	}
	return resp.Topics[0].Partitions[0]
}

// Whatever a client asks of a cluster, it may ask any of its nodes.
func TestAClusterOfThree(t *testing.T) {
	t.Parallel()
	cluster := harness.StartCluster(t, harness.ClusterOptions{})
	for _, c := range []struct {
		name string
		run  func(*testing.T, *harness.Cluster)
	}{
		{"every node tells the same of all", everyNodeTellsTheSame},
		{"a node knows what was changed through it", nodesKnowTheirChanges},
		{"producer ids are given once", producerIDsOfAllNodesDiffer},
		{"whoever does not lead names the leader", followersNameTheLeader},
		{"a group lives on one node", groupsLiveOnOneNode},
		{"a node keeps its own settings", nodesKeepTheirSettings},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, cluster) })
	}
}

// The addresses are those of clients, and never those by which the nodes talk to each other.
func everyNodeTellsTheSame(t *testing.T, cluster *harness.Cluster) {
	var first *kmsg.DescribeQuorumResponse
	for _, n := range cluster.Nodes() {
		c := on(t, cluster, n.ID)
		metadata, described := ask(t, c, at(12, kmsg.NewPtrMetadataRequest())), ask(t, c, at(2, kmsg.NewPtrDescribeClusterRequest()))
		quorum := describeQuorum(t, c)
		if first == nil {
			first = quorum
		}
		row, other := quorum.Topics[0].Partitions[0], first.Topics[0].Partitions[0]
		if row.LeaderID != other.LeaderID || row.LeaderEpoch != other.LeaderEpoch || len(row.CurrentVoters) != 3 || len(row.Observers) != 0 || len(quorum.Nodes) != 3 {
			t.Errorf("node %d says of the quorum %+v, node 1 %+v", n.ID, row, other)
		}
		if len(metadata.Brokers) != 3 || len(described.Brokers) != 3 {
			t.Fatalf("node %d knows brokers %+v and %+v", n.ID, metadata.Brokers, described.Brokers)
		}
		for i, want := range cluster.Nodes() {
			b, d, v := metadata.Brokers[i], described.Brokers[i], quorum.Nodes[i]
			for _, got := range []string{net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))), net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port))),
				net.JoinHostPort(v.Listeners[0].Host, strconv.Itoa(int(v.Listeners[0].Port)))} {
				if got != want.Bootstrap || int(b.NodeID) != want.ID || int(d.NodeID) != want.ID || int(v.NodeID) != want.ID || len(v.Listeners) != 1 {
					t.Errorf("node %d says that node %d is at %s", n.ID, want.ID, got)
				}
			}
			if row.CurrentVoters[i].ReplicaID != int32(want.ID) {
				t.Errorf("node %d says that the voters are %+v", n.ID, row.CurrentVoters)
			}
		}
		if id := metadata.ControllerID; id < 1 || id > 3 || described.ControllerID < 1 || described.ControllerID > 3 {
			t.Errorf("node %d says that the controller is %d and %d", n.ID, id, described.ControllerID)
		}
	}
}

// A tool creates a topic and uses it with its next request, to the same node: what was answered is true there.
func nodesKnowTheirChanges(t *testing.T, cluster *harness.Cluster) {
	for round := range 5 {
		for _, n := range cluster.Nodes() {
			c := on(t, cluster, n.ID)
			name := fmt.Sprintf("%s-%d-%d", harness.TopicName(t), round, n.ID)
			req := createRequest(name, 2)
			req.Topics[0].ReplicationFactor = 3
			if row := ask(t, c, at(7, req)).Topics[0]; row.ErrorCode != 0 || row.ReplicationFactor != 3 {
				t.Fatalf("node %d: %+v", n.ID, row)
			}
			if got := metadataOf(t, c, name); got.ErrorCode != 0 || len(got.Partitions) != 2 || len(got.Partitions[0].Replicas) != 3 || got.Partitions[0].ErrorCode != 0 {
				t.Errorf("node %d created a topic and says %+v", n.ID, got)
			}
			grow := at(3, kmsg.NewPtrCreatePartitionsRequest())
			grow.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: name, Count: 5}}
			wantCode(t, "CreatePartitions", ask(t, c, grow).Topics[0].ErrorCode, nil)
			if got := metadataOf(t, c, name); len(got.Partitions) != 5 {
				t.Errorf("node %d added partitions and says %+v", n.ID, got)
			}
			wantCode(t, "IncrementalAlterConfigs", alterConfigs(t, c, name, false, set("retention.ms", "777")).ErrorCode, nil)
			if got := topicConfig(t, c, name, "retention.ms"); text(got.Value) != "777" {
				t.Errorf("node %d set 777 and says %s", n.ID, text(got.Value))
			}
			remove := at(5, kmsg.NewPtrDeleteTopicsRequest())
			remove.TopicNames = []string{name}
			wantCode(t, "DeleteTopics", ask(t, c, remove).Topics[0].ErrorCode, nil)
			wantCode(t, "a topic that was deleted", metadataOf(t, c, name).ErrorCode, kerr.UnknownTopicOrPartition)
		}
	}
}

// Two producers with one id would be taken for each other's retries, and records be lost.
func producerIDsOfAllNodesDiffer(t *testing.T, cluster *harness.Cluster) {
	const each = 1100 // more than a block
	var mu sync.Mutex
	given := make(map[int64]int)
	var all sync.WaitGroup
	for _, n := range cluster.Nodes() {
		c := on(t, cluster, n.ID)
		all.Go(func() {
			for range each {
				resp, err := at(4, kmsg.NewPtrInitProducerIDRequest()).RequestWith(t.Context(), c)
				if err != nil || resp.ErrorCode != 0 {
					t.Errorf("node %d: %+v, %v", n.ID, resp, err)
					return
				}
				mu.Lock()
				given[resp.ProducerID]++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if want := each * len(cluster.Nodes()); len(given) != want {
		t.Errorf("%d producers have %d different ids", want, len(given))
	}
}

// A client that has old metadata is told where to go (KIP-951), or at least that it is wrong here.
func followersNameTheLeader(t *testing.T, cluster *harness.Cluster) {
	topic := replicated(t, cluster)
	leader := cluster.Leader(t, topic.name, 0)
	mustProduce(t, on(t, cluster, leader), topic.name, 0, textBatch("a"))
	for _, id := range cluster.Others(leader) {
		c := on(t, cluster, id)
		wantLeaderNamed(t, c, cluster, topic, leader, 0)
		wantCode(t, "ListOffsets", listOffset(t, c, topic.name, latest).ErrorCode, kerr.NotLeaderForPartition)
		wantCode(t, "DeleteRecords", deleteRecords(t, c, topic.name, 0).ErrorCode, kerr.NotLeaderForPartition)
		epochs := at(3, kmsg.NewPtrOffsetForLeaderEpochRequest())
		epochs.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: topic.name, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: -1}}}}
		wantCode(t, "OffsetForLeaderEpoch", ask(t, c, epochs).Topics[0].Partitions[0].ErrorCode, kerr.NotLeaderForPartition)
	}
	if got := endOffset(t, on(t, cluster, leader), topic.name); got != 1 {
		t.Errorf("the log ends at %d: others appended to it", got)
	}
}

// wantLeaderNamed checks that a node that does not lead partition 0 names the one that does, in an epoch not below epoch.
func wantLeaderNamed(t *testing.T, c *conn, cluster *harness.Cluster, topic topic, leader int, epoch int32) {
	t.Helper()
	want := cluster.Node(leader).Bootstrap
	produced := ask(t, c, at(11, produceRequest(topic.name, 0, textBatch("b").bytes())))
	row := produced.Topics[0].Partitions[0]
	wantCode(t, "Produce", row.ErrorCode, kerr.NotLeaderForPartition)
	if int(row.CurrentLeader.LeaderID) != leader || row.CurrentLeader.LeaderEpoch < epoch || len(produced.Brokers) != 1 ||
		net.JoinHostPort(produced.Brokers[0].Host, strconv.Itoa(int(produced.Brokers[0].Port))) != want {
		t.Errorf("Produce: the leader is %+v at %+v, want %d at %s", row.CurrentLeader, produced.Brokers, leader, want)
	}
	old := ask(t, c, at(10, fetchRequest(topic.name, 0, 0))) // from version 11 on any replica may be read from (KIP-392)
	wantCode(t, "Fetch v10", old.Topics[0].Partitions[0].ErrorCode, kerr.NotLeaderForPartition)
	if epoch == 0 {
		return
	}
	req := at(17, fetchRequest(topic.name, 0, 0))
	req.Topics[0].TopicID, req.Topics[0].Partitions[0].CurrentLeaderEpoch = topic.id, 0
	fetched := ask(t, c, req)
	part := fetched.Topics[0].Partitions[0]
	wantCode(t, "Fetch", part.ErrorCode, kerr.FencedLeaderEpoch)
	if int(part.CurrentLeader.LeaderID) != leader || part.CurrentLeader.LeaderEpoch < epoch || len(fetched.Brokers) != 1 ||
		net.JoinHostPort(fetched.Brokers[0].Host, strconv.Itoa(int(fetched.Brokers[0].Port))) != want {
		t.Errorf("Fetch: the leader is %+v at %+v, want %d at %s", part.CurrentLeader, fetched.Brokers, leader, want)
	}
}

// coordinatorOf returns the node that a node names as the coordinator of a group, and its address; 0 for none.
func coordinatorOf(t *testing.T, c *conn, group string) (id int, address string) {
	t.Helper()
	resp := ask(t, c, at(3, findCoordinator(0, group)))
	switch {
	case resp.ErrorCode == 0:
		return int(resp.NodeID), net.JoinHostPort(resp.Host, strconv.Itoa(int(resp.Port)))
	case resp.ErrorCode != kerr.CoordinatorNotAvailable.Code:
		t.Errorf("FindCoordinator: %s", codeName(resp.ErrorCode))
	}
	return 0, ""
}

// awaitCoordinator waits until a node knows a coordinator, which is not not, and that answers.
func awaitCoordinator(t *testing.T, c *conn, group string, not int) (id int, address string) {
	t.Helper()
	for deadline := time.Now().Add(longestJoin); ; time.Sleep(5 * time.Millisecond) {
		if id, address = coordinatorOf(t, c, group); id != 0 && id != not {
			there := dial(t, address)
			code := ask(t, there, at(7, offsetFetchRequest(group))).ErrorCode
			there.Close()
			if code == 0 {
				return id, address
			}
			if !slices.Contains([]int16{kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code}, code) {
				t.Fatalf("OffsetFetch: %s", codeName(code))
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("group %s has no coordinator", group)
		}
	}
}

// groupOf finds the name of a group that a node coordinates.
func groupOf(t *testing.T, c *conn, prefix string, node int) string {
	t.Helper()
	for i := range 500 {
		name := fmt.Sprintf("group-%s-%d", prefix, i)
		if id, _ := awaitCoordinator(t, c, name, 0); id == node {
			return name
		}
	}
	t.Fatalf("node %d coordinates no group: %+v", node, metadataOf(t, c, "__consumer_offsets"))
	return ""
}

// Every node knows which one it is; the others refuse all that is a group's, and do not list it.
func groupsLiveOnOneNode(t *testing.T, cluster *harness.Cluster) {
	topic := replicated(t, cluster)
	group := "group-" + topic.name
	coordinator, address := awaitCoordinator(t, on(t, cluster, 1), group, 0)
	m := newMember(t, address, group)
	settle(t, m)
	wantCode(t, "OffsetCommit", commit(t, m.conn, m.commitRequest(topic.name, 0, 5)), nil)
	for _, n := range cluster.Nodes() {
		c := on(t, cluster, n.ID)
		if id, at := coordinatorOf(t, c, group); id != coordinator || at != address {
			t.Errorf("node %d names node %d at %s, node 1 node %d at %s", n.ID, id, at, coordinator, address)
		}
		here := n.ID == coordinator
		if there := listed(t, c, group, at(4, kmsg.NewPtrListGroupsRequest())) != nil; there != here {
			t.Errorf("node %d lists the group: %v; node %d coordinates it", n.ID, there, coordinator)
		}
		want := kerr.NotCoordinator
		if here {
			want = nil
		}
		wantCode(t, "Heartbeat", m.heartbeat(t, c), want)
		wantCode(t, "OffsetCommit", commit(t, c, m.commitRequest(topic.name, 0, 5)), want)
		wantCode(t, "OffsetFetch", ask(t, c, at(7, offsetFetchRequest(group))).ErrorCode, want)
		wantCode(t, "DescribeGroups", describeGroup(t, c, group).ErrorCode, want)
		if !here {
			wantCode(t, "JoinGroup", ask(t, c, m.entry).ErrorCode, want)
			wantCode(t, "SyncGroup", ask(t, c, m.synced).ErrorCode, want)
			wantCode(t, "DeleteGroups", deleteGroup(t, c, group), want)
			whole, _ := deleteOffset(t, c, group, topic.name)
			wantCode(t, "OffsetDelete", whole, want)
		}
	}
	m.leave(t)
	for _, p := range metadataOf(t, m.conn, "__consumer_offsets").Partitions {
		if len(p.Replicas) != 3 {
			t.Fatalf("partition %d of the offsets' topic has replicas %v", p.Partition, p.Replicas)
		}
	}
}

// A broker's settings are changed on that broker; those of all brokers on any.
func nodesKeepTheirSettings(t *testing.T, cluster *harness.Cluster) {
	c := on(t, cluster, 1)
	alter := func(broker, value string) kmsg.IncrementalAlterConfigsResponseResource {
		req := at(1, kmsg.NewPtrIncrementalAlterConfigsRequest())
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: broker,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "log.retention.ms", Value: &value}}}}
		return ask(t, c, req).Resources[0]
	}
	row := alter("2", "1000000")
	wantCode(t, "the settings of another broker", row.ErrorCode, kerr.InvalidRequest)
	if got := text(row.ErrorMessage); got != "Unexpected broker id, expected 1, but received 2" {
		t.Errorf("the refusal says %q", got)
	}
	wantCode(t, "its own settings", alter("1", "2000000").ErrorCode, nil)
	wantCode(t, "those of all brokers", alter("", "3000000").ErrorCode, nil)
	wantCode(t, "another broker, described", describeConfigs(t, c, kmsg.ConfigResourceTypeBroker, "2").ErrorCode, kerr.InvalidRequest)
	for _, n := range cluster.Nodes() {
		own, want := on(t, cluster, n.ID), "3000000"
		if n.ID == 1 {
			want = "2000000"
		}
		for deadline := time.Now().Add(replyWithin); ; time.Sleep(10 * time.Millisecond) { // the others hear of it
			row := describeConfigs(t, own, kmsg.ConfigResourceTypeBroker, strconv.Itoa(n.ID), "log.retention.ms")
			if got := text(row.Configs[0].Value); got == want {
				break
			} else if time.Now().After(deadline) {
				t.Fatalf("node %d has %s, want %s", n.ID, got, want)
			}
		}
	}
}

// When a node dies its partitions and groups are somewhere else, and everybody says where.
func TestANodeDiesAndComesBack(t *testing.T) {
	t.Parallel()
	cluster := harness.StartCluster(t, harness.ClusterOptions{})
	topic := replicated(t, cluster)
	dead := cluster.Leader(t, topic.name, 0)
	others := cluster.Others(dead)
	witness := on(t, cluster, others[0])
	before := metadataOfAll(t, witness, topic.name).Topics[0].Partitions[0]
	group := groupOf(t, witness, topic.name, dead)
	c := on(t, cluster, dead)
	mustProduce(t, c, topic.name, 0, textBatch("a"))
	mustCommit(t, c, group, topic.name, 0, 1)

	cluster.Kill(dead)
	after := awaitPartition(t, witness, topic.name, "led by another", func(p kmsg.MetadataResponseTopicPartition) bool { return p.Leader >= 0 && int(p.Leader) != dead })
	if after.LeaderEpoch <= before.LeaderEpoch || slices.Contains(after.ISR, int32(dead)) || !slices.Equal(after.OfflineReplicas, []int32{int32(dead)}) {
		t.Errorf("after the death of %d: %+v; before %+v", dead, after, before)
	}
	leader := int(after.Leader)
	follower := slices.DeleteFunc(slices.Clone(others), func(id int) bool { return id == leader })[0]
	for _, id := range others {
		awaitPartition(t, on(t, cluster, id), topic.name, "known to be led by another", func(p kmsg.MetadataResponseTopicPartition) bool { return int(p.Leader) == leader })
	}
	wantLeaderNamed(t, on(t, cluster, follower), cluster, topic, leader, after.LeaderEpoch)
	mustProduce(t, on(t, cluster, leader), topic.name, 0, textBatch("b"))
	wantAway(t, witness, dead)
	wantCode(t, "electing who is away", elect(t, witness, topic.name).ErrorCode, kerr.PreferredLeaderNotAvailable)
	if _, address := awaitCoordinator(t, witness, group, dead); address != "" {
		wantCommitted(t, dial(t, address), "after the coordinator died", group, topic.name, 1)
	}

	cluster.Restart(dead)
	awaitPartition(t, witness, topic.name, "in sync everywhere", func(p kmsg.MetadataResponseTopicPartition) bool { return len(p.ISR) == 3 })
	wantCode(t, "electing who is back", elect(t, witness, topic.name).ErrorCode, nil)
	back := awaitPartition(t, on(t, cluster, dead), topic.name, "led by the first again", func(p kmsg.MetadataResponseTopicPartition) bool { return int(p.Leader) == dead })
	if back.LeaderEpoch <= after.LeaderEpoch || len(back.OfflineReplicas) != 0 {
		t.Errorf("when %d leads again: %+v", dead, back)
	}
	wantCode(t, "electing who leads", elect(t, witness, topic.name).ErrorCode, kerr.ElectionNotNeeded)
	if got := endOffset(t, on(t, cluster, dead), topic.name); got != 2 {
		t.Errorf("the log ends at %d, want 2", got)
	}
}

// wantAway checks that a node is among those that are away.
func wantAway(t *testing.T, c *conn, dead int) {
	t.Helper()
	req := at(2, kmsg.NewPtrDescribeClusterRequest())
	if alive := ask(t, c, req); len(alive.Brokers) != 2 || int(alive.ControllerID) == dead {
		t.Errorf("alive are %+v, the controller is %d", alive.Brokers, alive.ControllerID)
	}
	req.IncludeFencedBrokers = true
	all := ask(t, c, req).Brokers
	if len(all) != 3 {
		t.Fatalf("there are %+v", all)
	}
	for _, b := range all {
		if b.IsFenced != (int(b.NodeID) == dead) {
			t.Errorf("broker %d is fenced: %v", b.NodeID, b.IsFenced)
		}
	}
}

// Records are deleted when they are gone from every replica on a broker that is alive: until then the answer waits.
func TestDeleteRecordsWaitsForTheReplicas(t *testing.T) {
	t.Parallel()
	cluster := harness.StartCluster(t, harness.ClusterOptions{})
	topic := replicated(t, cluster)
	leader := cluster.Leader(t, topic.name, 0)
	c := on(t, cluster, leader)
	mustProduce(t, c, topic.name, 0, textBatch("a", "b", "c"))
	if row := deleteRecords(t, c, topic.name, 1); row.ErrorCode != 0 || row.LowWatermark != 1 {
		t.Errorf("with all replicas: %s, low watermark %d", codeName(row.ErrorCode), row.LowWatermark)
	}
	paused := cluster.Others(leader)[0]
	if leads := cluster.Controller(t); paused == leads { // whoever leads the metadata log is not paused: then there would be another story
		paused = cluster.Others(leader)[1]
	}
	cluster.Pause(paused)
	req := at(2, kmsg.NewPtrDeleteRecordsRequest())
	req.TimeoutMillis = 300
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic.name, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: 2}}}}
	row := ask(t, c, req).Topics[0].Partitions[0]
	wantCode(t, "while a replica is paused", row.ErrorCode, kerr.RequestTimedOut)
	if p := listOffset(t, c, topic.name, earliest); p.Offset != 2 {
		t.Errorf("the leader's log begins at %d", p.Offset)
	}
	cluster.Resume(paused)
	if row := deleteRecords(t, c, topic.name, 2); row.ErrorCode != 0 || row.LowWatermark != 2 {
		t.Errorf("with all replicas again: %s, low watermark %d", codeName(row.ErrorCode), row.LowWatermark)
	}
}
