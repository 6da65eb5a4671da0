package replica

import (
	"errors"
	"testing"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/log"
)

func TestTrafficIsCountedByTopic(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	a := f.create("a", kafka.TopicID{1}, self)
	f.create("b", kafka.TopicID{2}, self)
	produce(t, a, AcksLeader, nil)
	sent := int64(len(records(t, 1)))
	_, err := a.Append(&AppendRequest{Records: records(t, 5), Version: 11, Acks: AcksLeader, Now: testTime})
	if err != nil {
		t.Fatal(err)
	}
	sent += int64(len(records(t, 5)))

	f.config.Rules.MaxMessageBytes = 10
	tooLarge := records(t, 2)
	if _, err := a.Append(&AppendRequest{Records: tooLarge, Version: 11, Acks: AcksLeader, Now: testTime}); kafka.CodeOf(err) != kafka.MessageTooLarge {
		t.Fatalf("appended more than the topic takes: %v", err)
	}
	a.CountFetch(70, nil)
	a.CountFetch(0, kafka.Errorf(kafka.OffsetOutOfRange, ""))
	a.CountFetch(0, errors.New("a disk"))

	byTopic, all := f.manager.Traffic()
	want := TrafficCounts{MessagesIn: 6, BytesIn: sent, BytesOut: 70, BytesRejected: int64(len(tooLarge)), ProduceRequests: 3, FetchRequests: 3, FailedFetchRequests: 1}
	if byTopic["a"] != want || all != want || len(byTopic) != 2 || byTopic["b"] != (TrafficCounts{}) {
		t.Errorf("counted %+v and %+v in all, want %+v", byTopic, all, want)
	}

	// The topic is gone, and made again: it begins anew, and the sum goes on.
	f.apply(metadata.RemoveTopicRecord{ID: kafka.TopicID{1}})
	if byTopic, all := f.manager.Traffic(); len(byTopic) != 1 || all != want {
		t.Errorf("after the topic is deleted: %+v and %+v in all", byTopic, all)
	}
	f.config.Rules.MaxMessageBytes = 1 << 20
	produce(t, f.create("a", kafka.TopicID{3}, self), AcksLeader, nil)
	byTopic, all = f.manager.Traffic()
	if byTopic["a"].ProduceRequests != 1 || all.ProduceRequests != 4 || all.MessagesIn != 7 {
		t.Errorf("after the topic is made again: %+v and %+v in all", byTopic, all)
	}
}

func TestUnusualFailuresOfProduceAreCounted(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	p := f.create("a", kafka.TopicID{1}, self)
	damaged := records(t, 1)
	damaged[len(damaged)-1]++ // CORRUPT_MESSAGE is the client's fault or the network's
	if _, err := p.Append(&AppendRequest{Records: damaged, Version: 11, Acks: AcksLeader, Now: testTime}); kafka.CodeOf(err) != kafka.CorruptMessage {
		t.Fatalf("%v", err)
	}
	f.config.Rules.TimestampAfterMaxMs = -1 << 60
	if _, err := p.Append(&AppendRequest{Records: records(t, 1), Version: 11, Acks: AcksLeader, Now: testTime}); kafka.CodeOf(err) != kafka.InvalidTimestamp {
		t.Fatalf("%v", err)
	}
	if _, all := f.manager.Traffic(); all != (TrafficCounts{ProduceRequests: 2, FailedProduceRequests: 1}) {
		t.Errorf("%+v", all)
	}
}

func TestCountsOfPartitions(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	f.create("a", kafka.TopicID{1}, self)
	f.create("b", kafka.TopicID{2}, self)
	if partitions, offline := f.manager.Counts(); partitions != 2 || offline != 0 {
		t.Errorf("%d partitions, %d of them offline", partitions, offline)
	}
}
