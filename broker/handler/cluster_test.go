package handler

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// heartbeat has another broker ask for something.
func (f *fixture) heartbeat(h controller.BrokerHeartbeat) {
	f.t.Helper()
	b, ok := f.node.Image().Brokers.ByID(h.Broker)
	if !ok {
		f.t.Fatalf("broker %d is not registered", h.Broker)
	}
	h.Epoch, h.MetadataOffset = b.Epoch, f.node.Image().Index
	if _, err := f.node.Submit(f.t.Context(), h); err != nil {
		f.t.Fatal(err)
	}
}

// fenceSelf takes the fixture's own broker out of everything.
func (f *fixture) fenceSelf() { f.heartbeat(controller.BrokerHeartbeat{Broker: self, WantFence: true}) }

func (f *fixture) registration(topic string, partition int32) *metadata.PartitionRegistration {
	f.t.Helper()
	t, ok := f.node.Image().Topics.ByName(topic)
	if !ok {
		f.t.Fatalf("no topic %s", topic)
	}
	return t.Partition(partition)
}

// join adds a broker to the ISR of a partition, as if its leader had seen it catch up.
func (f *fixture) join(topic string, partition int32, id kafka.BrokerID) {
	f.t.Helper()
	t, own := byName(f.node.Image(), topic), f.registration(topic, partition)
	change := controller.ISRChange{TopicID: t.ID, Partition: partition, LeaderEpoch: own.LeaderEpoch, PartitionEpoch: own.PartitionEpoch}
	for _, member := range append(slices.Clone(own.ISR), id) {
		change.ISR = append(change.ISR, controller.ISRMember{Broker: member, Epoch: -1})
	}
	leader, _ := f.node.Image().Brokers.ByID(own.Leader)
	reply, err := f.node.Submit(f.t.Context(), controller.AlterPartition{Broker: leader.ID, Epoch: leader.Epoch, Partitions: []controller.ISRChange{change}})
	if err != nil {
		f.t.Fatal(err)
	}
	if code := reply.(controller.AlterPartitionReply).Partitions[0].Code; code != kafka.None {
		f.t.Fatalf("the ISR of %s stays as it is: %v", topic, code)
	}
}

// elected has an election held and returns the answer's topics, with their partitions and codes.
func (c *client) elected(version int16, kind int8, topics []kmsg.ElectLeadersRequestTopic) (whole kafka.Code, rows map[string][]kmsg.ElectLeadersResponseTopicPartition) {
	c.f.t.Helper()
	req := kmsg.NewPtrElectLeadersRequest()
	req.ElectionType, req.Topics, req.TimeoutMillis = kind, topics, 1000
	resp := c.call(version, req).(*kmsg.ElectLeadersResponse)
	rows = make(map[string][]kmsg.ElectLeadersResponseTopicPartition)
	for _, t := range resp.Topics {
		rows[t.Topic] = append(rows[t.Topic], t.Partitions...)
	}
	return kafka.Code(resp.ErrorCode), rows
}

func codesOf(rows []kmsg.ElectLeadersResponseTopicPartition) (codes []kafka.Code) {
	for _, r := range rows {
		codes = append(codes, kafka.Code(r.ErrorCode))
	}
	return codes
}

func TestElectLeaders(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two.test", Port: 9093})
	f.createTopicOn("t", [][]kafka.BrokerID{{2, self}, {self, 2}})
	f.createTopicOn("alone", [][]kafka.BrokerID{{2}})
	c := f.client()
	f.heartbeat(controller.BrokerHeartbeat{Broker: 2, WantFence: true})
	f.heartbeat(controller.BrokerHeartbeat{Broker: 2})
	if p := f.registration("t", 0); p.Leader != self || p.InISR(2) {
		t.Fatalf("after broker 2 was away: %+v", p)
	}

	named := []kmsg.ElectLeadersRequestTopic{{Topic: "t", Partitions: []int32{0, 1, 2, 0}}, {Topic: "nowhere", Partitions: []int32{0}}, {Topic: "alone"}}
	whole, rows := c.elected(2, 0, named)
	if want := []kafka.Code{kafka.PreferredLeaderNotAvailable, kafka.ElectionNotNeeded, kafka.UnknownTopicOrPartition, kafka.PreferredLeaderNotAvailable}; whole != kafka.None || !slices.Equal(codesOf(rows["t"]), want) {
		t.Errorf("named: %v, %v, want %v", whole, codesOf(rows["t"]), want)
	}
	if alone, there := rows["alone"]; !there || len(alone) != 0 || len(rows["nowhere"]) != 1 || *rows["nowhere"][0].ErrorMessage != "No such topic as nowhere" {
		t.Errorf("named: %+v", rows)
	}

	f.join("t", 0, 2)
	_, rows = c.elected(1, 0, nil) // every partition; those that have their leader are left out
	if all := rows["t"]; len(rows) != 2 || len(all) != 1 || all[0].Partition != 0 || all[0].ErrorCode != 0 || all[0].ErrorMessage != nil || len(rows["alone"]) != 0 {
		t.Errorf("all: %+v", rows)
	}
	if p := f.registration("t", 0); p.Leader != 2 {
		t.Errorf("after the election %d leads", p.Leader)
	}

	f.heartbeat(controller.BrokerHeartbeat{Broker: 2, WantFence: true})
	if _, rows = c.elected(2, 1, named); !slices.Equal(codesOf(rows["t"])[:2], []kafka.Code{kafka.ElectionNotNeeded, kafka.ElectionNotNeeded}) {
		t.Errorf("unclean, where there are leaders: %v", codesOf(rows["t"]))
	}
	if _, rows = c.elected(2, 1, nil); !slices.Equal(codesOf(rows["alone"]), []kafka.Code{kafka.EligibleLeadersNotAvailable}) {
		t.Errorf("unclean, without anybody: %+v", rows)
	}
	if whole, rows = c.elected(2, 5, named[:1]); whole != kafka.InvalidRequest || len(rows["t"]) != 4 || kafka.Code(rows["t"][3].ErrorCode) != whole || *rows["t"][3].ErrorMessage != "Unknown election type 5" {
		t.Errorf("a type that does not exist: %v, %+v", whole, rows)
	}
}

func TestMetadataOfBrokersThatAreAway(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two.test", Port: 9093})
	f.createTopicOn("t", [][]kafka.BrokerID{{self, 2}})
	f.createTopicOn("alone", [][]kafka.BrokerID{{2}})
	c := f.client()
	f.heartbeat(controller.BrokerHeartbeat{Broker: 2, WantFence: true})
	for version := int16(0); version <= 13; version++ {
		resp := c.metadata(version, metadataRequest("t", "alone"))
		led, lost := resp.Topics[0].Partitions[0], resp.Topics[1].Partitions[0]
		if len(resp.Brokers) != 1 || led.Leader != 1 || !slices.Equal(led.ISR, []int32{1}) || lost.Leader != -1 || kafka.Code(lost.ErrorCode) != kafka.LeaderNotAvailable {
			t.Errorf("v%d: %+v", version, resp)
		}
		wantCode, wantReplicas := kafka.None, []int32{1, 2}
		if version == 0 {
			wantCode, wantReplicas = kafka.ReplicaNotAvailable, []int32{1}
		}
		if kafka.Code(led.ErrorCode) != wantCode || !slices.Equal(led.Replicas, wantReplicas) {
			t.Errorf("v%d: %v, replicas %v, want %v and %v", version, kafka.Code(led.ErrorCode), led.Replicas, wantCode, wantReplicas)
		}
		if version >= 5 && (!slices.Equal(led.OfflineReplicas, []int32{2}) || !slices.Equal(lost.OfflineReplicas, []int32{2})) {
			t.Errorf("v%d: offline are %v and %v", version, led.OfflineReplicas, lost.OfflineReplicas)
		}
	}
	lost := c.call(0, describeRequest(10, nil, "alone")).(*kmsg.DescribeTopicPartitionsResponse).Topics[0].Partitions[0]
	if !slices.Equal(lost.EligibleLeaderReplicas, []int32{2}) || len(lost.ISR) != 0 || lost.LeaderID != -1 {
		t.Errorf("described: %+v", lost)
	}

	fenced := kmsg.NewPtrDescribeClusterRequest()
	if resp := c.call(2, fenced).(*kmsg.DescribeClusterResponse); len(resp.Brokers) != 1 {
		t.Errorf("the cluster: %+v", resp.Brokers)
	}
	fenced.IncludeFencedBrokers = true
	if resp := c.call(2, fenced).(*kmsg.DescribeClusterResponse); len(resp.Brokers) != 2 || resp.Brokers[0].IsFenced || !resp.Brokers[1].IsFenced || resp.Brokers[1].Host != "two.test" {
		t.Errorf("the cluster with fenced brokers: %+v", resp.Brokers)
	}
	resources := kmsg.NewPtrListConfigResourcesRequest()
	resources.ResourceTypes = []int8{int8(metadata.BrokerResource)}
	if resp := c.call(1, resources).(*kmsg.ListConfigResourcesResponse); len(resp.ConfigResources) != 2 {
		t.Errorf("brokers have configs whether or not they are alive: %+v", resp.ConfigResources)
	}
}

// A replica is offline where its directory failed, though its broker is alive.
func TestMetadataOfAFailedDirectory(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two.test", Port: 9093})
	f.createTopicOn("t", [][]kafka.BrokerID{{self, 2}})
	img, _, err := f.node.Image().With([]metadata.Record{metadata.PartitionRecord{TopicID: byName(f.node.Image(), "t").ID, PartitionRegistration: metadata.PartitionRegistration{
		Replicas: []kafka.BrokerID{self, 2}, ISR: []kafka.BrokerID{self}, Leader: self, PartitionEpoch: 1, Directories: []kafka.DirectoryID{kafka.UnassignedDirectory, kafka.NewUUID()}}}})
	if err != nil {
		t.Fatal(err)
	}
	f.handlers.Image = func() *metadata.Image { return img }
	resp := f.client().metadata(12, metadataRequest("t"))
	if p := resp.Topics[0].Partitions[0]; len(resp.Brokers) != 2 || p.ErrorCode != 0 || !slices.Equal(p.OfflineReplicas, []int32{2}) {
		t.Errorf("%+v", resp)
	}
}

// Clients send what is for the controller to a broker that is alive.
func TestTheControllerIsAlive(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two.test", Port: 9093})
	c := f.client()
	controllers := func(want int32) {
		t.Helper()
		described := c.call(1, kmsg.NewPtrDescribeClusterRequest()).(*kmsg.DescribeClusterResponse)
		if got := c.metadata(12, metadataRequest()).ControllerID; got != want || described.ControllerID != want {
			t.Errorf("Metadata says %d, DescribeCluster %d, want %d", got, described.ControllerID, want)
		}
	}
	controllers(1)
	img := f.node.Image()
	fence := func(id kafka.BrokerID) {
		b, _ := img.Brokers.ByID(id)
		fenced, _, err := img.With([]metadata.Record{metadata.BrokerChangeRecord{ID: id, Epoch: b.Epoch, Fenced: true}})
		if err != nil {
			t.Fatal(err)
		}
		img = fenced
	}
	f.handlers.Image = func() *metadata.Image { return img }
	fence(self)
	controllers(2)
	fence(2)
	controllers(-1)
}

// A follower answers consumers' fetches (KIP-392), but not what is asked about its log; what producers it knows it tells. Whoever
// has another leader epoch in mind is told that first (KIP-320).
func TestReadsOfAFollower(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two.test", Port: 9093})
	id := f.createTopicOn("t", [][]kafka.BrokerID{{2, self}})
	f.heartbeat(controller.BrokerHeartbeat{Broker: 2, WantFence: true}) // this broker leads in epoch 1
	f.heartbeat(controller.BrokerHeartbeat{Broker: 2})
	f.join("t", 0, 2)
	c := f.client()
	c.elected(2, 0, nil) // and broker 2 again in epoch 2
	for current, want := range map[int32]kafka.Code{-1: kafka.NotLeaderOrFollower, 1: kafka.FencedLeaderEpoch, 2: kafka.NotLeaderOrFollower, 3: kafka.UnknownLeaderEpoch} {
		ends := kmsg.NewPtrOffsetForLeaderEpochRequest()
		ends.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: "t", Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{{CurrentLeaderEpoch: current}}}}
		if row := c.call(4, ends).(*kmsg.OffsetForLeaderEpochResponse).Topics[0].Partitions[0]; kafka.Code(row.ErrorCode) != want || row.EndOffset != -1 {
			t.Errorf("epoch %d: its end is %d, %v, want %v", current, row.EndOffset, kafka.Code(row.ErrorCode), want)
		}
		offsets := kmsg.NewPtrListOffsetsRequest()
		offsets.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{CurrentLeaderEpoch: current, Timestamp: -1}}}}
		offsets.ReplicaID = -1
		if row := c.call(7, offsets).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; kafka.Code(row.ErrorCode) != want {
			t.Errorf("epoch %d: offsets %v, want %v", current, kafka.Code(row.ErrorCode), want)
		}
		fetch := fetchRequest(0, 0, fetchPartitionOf{})
		fetch.Topics[0].TopicID, fetch.Topics[0].Partitions[0].CurrentLeaderEpoch = id, current
		resp := c.call(17, fetch).(*kmsg.FetchResponse)
		row := fetchRows(resp)[0]
		if want == kafka.NotLeaderOrFollower {
			want = kafka.None
		}
		if kafka.Code(row.ErrorCode) != want {
			t.Errorf("epoch %d: fetch %v, want %v", current, kafka.Code(row.ErrorCode), want)
		}
		if hinted := row.CurrentLeader.LeaderID == 2 && row.CurrentLeader.LeaderEpoch == 2 && len(resp.Brokers) == 1 && resp.Brokers[0].Host == "two.test"; hinted != (want == kafka.FencedLeaderEpoch) {
			t.Errorf("epoch %d: the leader is %+v at %+v", current, row.CurrentLeader, resp.Brokers)
		}
	}
	producers := kmsg.NewPtrDescribeProducersRequest()
	producers.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: "t", Partitions: []int32{0}}}
	if row := c.call(0, producers).(*kmsg.DescribeProducersResponse).Topics[0].Partitions[0]; row.ErrorCode != 0 {
		t.Errorf("producers: %v", kafka.Code(row.ErrorCode))
	}
}

// Whoever waits for replicas when the leadership moves is told where it went (KIP-951).
func TestProducersThatWaitAreToldTheNewLeader(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, metadata.Endpoint{Name: listener, Host: "two.test", Port: 9093})
	f.createTopicOn("t", [][]kafka.BrokerID{{self, 2}, {self, 2}})
	c := f.client()
	for version, leader := range map[int16]int32{9: -1, 11: 2} {
		req := produceRequestTo(replica.AcksAll, topicRecords{"t", 0, records(t, 1, 10)}, topicRecords{"t", 1, records(t, 1, 10)})
		reply := c.start(version, req)
		if reply.Pending() == nil {
			t.Fatal("acknowledged before broker 2 has it")
		}
		epoch := f.registration("t", 0).LeaderEpoch
		f.fenceSelf()
		resp := answer(t, version, req, reply).(*kmsg.ProduceResponse)
		for _, topic := range resp.Topics {
			row := topic.Partitions[0]
			if kafka.Code(row.ErrorCode) != kafka.NotLeaderOrFollower || row.CurrentLeader.LeaderID != leader || leader > 0 && row.CurrentLeader.LeaderEpoch != int32(epoch)+1 {
				t.Errorf("v%d: %+v", version, row)
			}
		}
		if version >= 10 && (len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 2 || resp.Brokers[0].Host != "two.test") {
			t.Errorf("v%d: the leader is at %+v", version, resp.Brokers)
		}
		f.heartbeat(controller.BrokerHeartbeat{Broker: self}) // and once more, if there is another version
		f.join("t", 0, self)
		f.join("t", 1, self)
		c.elected(2, 0, nil)
	}
}

// While there is no controller a topic that would be made is not there, and the rest of the answer does not wait for it.
func TestNothingWaitsLongForAutomaticTopics(t *testing.T) {
	f := newFixture(t)
	f.createTopic("there", 1)
	f.handlers.Controller = silentController{}
	for name, ask := range map[string]func(c *client) (<-chan Reply, func(Reply) kafka.Code){
		"Metadata": func(c *client) (<-chan Reply, func(Reply) kafka.Code) {
			req := metadataRequest("there", "new")
			req.AllowAutoTopicCreation = true
			return c.later(12, req), func(reply Reply) kafka.Code {
				codes := topicCodes(answer(t, 12, req, reply).(*kmsg.MetadataResponse))
				if codes["there"] != kafka.None {
					t.Errorf("a topic that is there: %v", codes["there"])
				}
				return codes["new"]
			}
		},
		"FindCoordinator": func(c *client) (<-chan Reply, func(Reply) kafka.Code) {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKey = "g"
			return c.later(3, req), func(reply Reply) kafka.Code {
				return kafka.Code(answer(t, 3, req, reply).(*kmsg.FindCoordinatorResponse).ErrorCode)
			}
		},
	} {
		c := f.client()
		replies, code := ask(c)
		<-c.waits
		f.clock.Advance(automaticTimeoutMs * time.Millisecond)
		want := kafka.UnknownTopicOrPartition
		if name == "FindCoordinator" {
			want = kafka.CoordinatorNotAvailable
		}
		if got := code(<-replies); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// refusingController lets commands wait until they are refused.
type refusingController struct{ refuse chan error }

func (c refusingController) Submit(context.Context, controller.Command) (controller.Reply, error) {
	return nil, <-c.refuse
}

// One block is asked for at a time, however many wait for it; and when there is none, clients are told what makes them ask
// again, whatever the reason is.
func TestProducerIDsWithoutAController(t *testing.T) {
	f := newFixture(t)
	refuse := make(chan error)
	working := f.handlers.Controller
	f.handlers.Controller = refusingController{refuse}
	codes := make(chan kafka.Code)
	var all sync.WaitGroup
	const clients = 10
	for range clients {
		all.Go(func() {
			codes <- kafka.Code(f.client().call(4, initProducerIDRequest()).(*kmsg.InitProducerIDResponse).ErrorCode)
		})
	}
	for told := 0; told < clients; {
		select {
		case refuse <- kafka.Errorf(kafka.StaleBrokerEpoch, "another incarnation"):
		case code := <-codes:
			told++
			if code != kafka.CoordinatorLoadInProgress {
				t.Errorf("%v", code)
			}
		}
	}
	all.Wait()
	f.handlers.Controller = working
	if resp := f.client().call(4, initProducerIDRequest()).(*kmsg.InitProducerIDResponse); resp.ErrorCode != 0 {
		t.Errorf("afterwards: %v", kafka.Code(resp.ErrorCode))
	}
}
