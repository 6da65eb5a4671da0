package handler

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/internal/kafka"
)

const follower kafka.BrokerID = 2

// followed makes a topic of one partition that broker 2 follows, both in sync, and returns its id.
func (f *fixture) followed(topic string) kafka.TopicID {
	f.t.Helper()
	f.addBroker(follower)
	return f.createTopicOn(topic, [][]kafka.BrokerID{{self, follower}})
}

// followerFetch is what broker 2 asks for, as brokers do: by topic id, with its incarnation.
func (f *fixture) followerFetch(id kafka.TopicID, offset, logStart int64, minBytes, maxWaitMs int32) *kmsg.FetchRequest {
	f.t.Helper()
	req := fetchRequest(minBytes, maxWaitMs, fetchPartitionOf{offset: offset})
	req.Topics[0].TopicID, req.Topics[0].Partitions[0].LogStartOffset = id, logStart
	b, ok := f.node.Image().Brokers.ByID(follower)
	if !ok {
		f.t.Fatal("broker 2 is not registered")
	}
	req.ReplicaState.ID, req.ReplicaState.Epoch = int32(follower), int64(b.Epoch)
	return req
}

const followerVersion = 17

func TestFollowersFetchMovesTheHighWatermark(t *testing.T) {
	f := newFixture(t)
	id := f.followed("t")
	producer, c := f.client(), f.client()
	produced := produceRequestTo(replica.AcksAll, topicRecords{"t", 0, records(t, 1, 100)})
	reply := producer.start(9, produced)
	if reply.Pending() == nil {
		t.Fatal("acknowledged before the follower has it")
	}
	row := fetchRows(c.call(followerVersion, f.followerFetch(id, 0, 0, 1, 1000)).(*kmsg.FetchResponse))[0]
	if len(row.RecordBatches) == 0 || row.ErrorCode != 0 || row.HighWatermark != 0 {
		t.Fatalf("the follower is given %d bytes, code %v, high watermark %d", len(row.RecordBatches), kafka.Code(row.ErrorCode), row.HighWatermark)
	}
	if rows := fetchRows(f.client().fetch(fetchRequest(0, 0, fetchPartitionOf{topic: "t"}))); len(rows[0].RecordBatches) != 0 {
		t.Fatal("a consumer sees what is not committed")
	}
	waiting := f.followerFetch(id, 1, 0, 1, 1000)
	replies := c.fetchWaiting(followerVersion, waiting)
	resp := answer(t, 9, produced, reply).(*kmsg.ProduceResponse)
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
		t.Fatalf("the producer is told %v", kafka.Code(code))
	}
	// An append wakes the follower, though nothing of it is committed.
	producer.start(9, produceRequestTo(replica.AcksAll, topicRecords{"t", 0, records(t, 1, 100)}))
	row = fetchRows(answer(t, followerVersion, waiting, <-replies).(*kmsg.FetchResponse))[0]
	if len(row.RecordBatches) == 0 || row.HighWatermark != 1 {
		t.Fatalf("the follower is given %d bytes, high watermark %d", len(row.RecordBatches), row.HighWatermark)
	}
}

func TestFetchesOfWhoIsNoFollowerAreRefused(t *testing.T) {
	f := newFixture(t)
	id := f.followed("t")
	f.client().start(9, produceRequestTo(replica.AcksLeader, topicRecords{"t", 0, records(t, 1, 100)}))
	for name, change := range map[string]func(*kmsg.FetchRequest){
		"an incarnation that is over": func(r *kmsg.FetchRequest) { r.ReplicaState.Epoch-- },
		"no incarnation":              func(r *kmsg.FetchRequest) { r.ReplicaState.Epoch = -1 },
		"no replica":                  func(r *kmsg.FetchRequest) { r.ReplicaState.ID = 3 },
	} {
		req := f.followerFetch(id, 1, 0, 0, 0)
		change(req)
		row := fetchRows(f.client().call(followerVersion, req).(*kmsg.FetchResponse))[0]
		if kafka.Code(row.ErrorCode) != kafka.NotLeaderOrFollower {
			t.Errorf("%s: %v", name, kafka.Code(row.ErrorCode))
		}
	}
	if hw := f.partition("t", 0).Log().HighWatermark(); hw != 0 {
		t.Errorf("high watermark %d", hw)
	}
}

func TestASessionKeepsWhatAFollowerSaidOfItsLog(t *testing.T) {
	f := newFixture(t)
	id := f.followed("t")
	c := f.client()
	c.start(9, produceRequestTo(replica.AcksLeader, topicRecords{"t", 0, records(t, 1, 100)}))
	req := f.followerFetch(id, 1, 1, 0, 0)
	req.SessionEpoch = 0
	session := c.call(followerVersion, req).(*kmsg.FetchResponse).SessionID
	if low, err := f.partition("t", 0).LowWatermark(); low != 0 || err != nil {
		t.Fatalf("low watermark %d, %v", low, err)
	}
	if deleted, err := f.partition("t", 0).DeleteRecords(-1); deleted != (replica.DeletedRecords{Offset: 1, LowWatermark: 1}) || err != nil {
		t.Fatalf("%+v, %v", deleted, err)
	}
	req = f.followerFetch(id, 1, 1, 0, 0)
	req.SessionID, req.SessionEpoch, req.Topics = session, 1, nil
	c.call(followerVersion, req)
	if low, err := f.partition("t", 0).LowWatermark(); low != 1 || err != nil {
		t.Fatalf("after a fetch that names no partition: low watermark %d, %v", low, err)
	}
}

func TestFollowersAreToldWhereTheLogEnds(t *testing.T) {
	f := newFixture(t)
	f.followed("t")
	c := f.client()
	c.start(9, produceRequestTo(replica.AcksLeader, topicRecords{"t", 0, records(t, 1, 100)}))
	for id, want := range map[int32]int64{int32(follower): 1, -1: 0} {
		req := kmsg.NewPtrListOffsetsRequest()
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp = replica.TimestampLatest
		req.ReplicaID, req.Topics = id, []kmsg.ListOffsetsRequestTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsRequestTopicPartition{p}}}
		if row := c.call(7, req).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]; row.Offset != want || row.ErrorCode != 0 {
			t.Errorf("replica %d is told %d, %v", id, row.Offset, kafka.Code(row.ErrorCode))
		}
	}
}

func deleteRecordsRequest(timeoutMs int32, offset int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.TimeoutMillis = timeoutMs
	req.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: "t", Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Offset: offset}, {Partition: 7}}}}
	return req
}

func TestDeleteRecordsWaitsForFollowers(t *testing.T) {
	f := newFixture(t)
	id := f.followed("t")
	c, followers := f.client(), f.client()
	c.start(9, produceRequestTo(replica.AcksLeader, topicRecords{"t", 0, records(t, 2, 100)}))
	followers.call(followerVersion, f.followerFetch(id, 2, 0, 0, 0))
	rows := func(req *kmsg.DeleteRecordsRequest, reply Reply) []kmsg.DeleteRecordsResponseTopicPartition {
		t.Helper()
		got := answer(t, 2, req, reply).(*kmsg.DeleteRecordsResponse).Topics[0].Partitions
		if len(got) != 2 || kafka.Code(got[1].ErrorCode) != kafka.UnknownTopicOrPartition || got[1].LowWatermark != -1 {
			t.Fatalf("%+v", got)
		}
		return got
	}
	req := deleteRecordsRequest(1000, 1)
	reply := c.start(2, req)
	if reply.Pending() == nil {
		t.Fatal("answered though the follower has the records")
	}
	followers.call(followerVersion, f.followerFetch(id, 2, 1, 0, 0))
	if row := rows(req, reply)[0]; row.ErrorCode != 0 || row.LowWatermark != 1 {
		t.Fatalf("%v, low watermark %d", kafka.Code(row.ErrorCode), row.LowWatermark)
	}
	req = deleteRecordsRequest(1000, -1)
	reply = c.start(2, req)
	f.clock.Advance(time.Second)
	if row := rows(req, reply)[0]; kafka.Code(row.ErrorCode) != kafka.RequestTimedOut || row.LowWatermark != 1 {
		t.Fatalf("when the time is over: %v, low watermark %d", kafka.Code(row.ErrorCode), row.LowWatermark)
	}
	gone := c.start(2, deleteRecordsRequest(1000, -1)).Pending()
	gone.Abandon()
	// Once the follower has followed it need not be waited for.
	followers.call(followerVersion, f.followerFetch(id, 2, 2, 0, 0))
	if row := rows(req, c.start(2, req))[0]; row.ErrorCode != 0 || row.LowWatermark != 2 {
		t.Fatalf("%v, low watermark %d", kafka.Code(row.ErrorCode), row.LowWatermark)
	}
}
