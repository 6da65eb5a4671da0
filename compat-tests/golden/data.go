package golden

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func dataScripts() []Script {
	return atEach("data", runData, kmsg.Produce, kmsg.Fetch, kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch, kmsg.DeleteRecords, kmsg.InitProducerID)
}

// fixedTime is the timestamp of every record that a script writes, in milliseconds.
const fixedTime = 1767323045678

// recordBatch is an uncompressed batch of records with a key and one header each; a null value is a nil slice.
func recordBatch(key string, values ...[]byte) []byte {
	var records []byte
	for i, value := range values {
		r := kmsg.Record{OffsetDelta: int32(i), Key: []byte(key), Value: value, Headers: []kmsg.Header{{Key: "h", Value: []byte("1")}}}
		if key == "" {
			r.Key = nil
		}
		body := r.AppendTo(nil)[1:] // without the length, which is a zero
		r.Length = int32(len(body))
		records = r.AppendTo(records)
	}
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(values) - 1), FirstTimestamp: fixedTime, MaxTimestamp: fixedTime,
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(values)), Records: records,
	}
	raw := b.AppendTo(nil)
	b.Length = int32(len(raw) - 12)
	raw = b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	return raw
}

func runData(s *Session) {
	orders, small, compacted := s.Name("orders"), s.Name("small"), s.Name("compacted")
	ids := map[string][16]byte{
		orders: s.topic(orders, 2), small: s.topic(small, 1, "max.message.bytes", "200"), compacted: s.topic(compacted, 1, "cleanup.policy", "compact"),
	}
	produce := func(topic string, partition int32, acks int16, records []byte) *kmsg.ProduceRequest {
		r := kmsg.NewPtrProduceRequest()
		r.Acks, r.TimeoutMillis = acks, 30000
		r.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, TopicID: ids[topic],
			Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: partition, Records: records}}}}
		return r
	}
	abc := recordBatch("k", []byte("a"), []byte("b"), nil)
	s.Ask("three records", produce(orders, 0, -1, abc))
	s.Ask("one more, acknowledged by the leader", produce(orders, 0, 1, recordBatch("", []byte("d"))))
	bad := recordBatch("k", []byte("x"))
	bad[len(bad)-3] ^= 1
	s.Ask("a checksum that is wrong", produce(orders, 0, -1, bad))
	old := recordBatch("k", []byte("x"))
	old[16] = 1
	s.Ask("a batch of an older format", produce(orders, 0, -1, old))
	s.Ask("no bytes of records", produce(orders, 0, -1, []byte{}))
	s.Ask("two batches", produce(orders, 0, -1, append(recordBatch("k", []byte("x")), recordBatch("k", []byte("y"))...)))
	s.Ask("acks=2", produce(orders, 0, 2, abc))
	s.Ask("a partition that is not there", produce(orders, 7, -1, abc))
	s.Ask("a topic that is not there", produce(s.Name("nosuch"), 0, -1, abc))
	s.Ask("a batch above the topic's limit", produce(small, 0, -1, recordBatch("k", make([]byte, 200))))
	s.Ask("no key in a compacted topic", produce(compacted, 0, -1, recordBatch("", []byte("x"))))

	list := func(topic string, partition int32, timestamp int64) *kmsg.ListOffsetsRequest {
		r := kmsg.NewPtrListOffsetsRequest()
		r.ReplicaID = -1
		r.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsRequestTopicPartition{
			{Partition: partition, CurrentLeaderEpoch: -1, Timestamp: timestamp}}}}
		return r
	}
	s.Ask("the earliest offset", list(orders, 0, -2))
	s.Ask("the latest offset", list(orders, 0, -1))
	s.Ask("the offset of a time", list(orders, 0, fixedTime))
	s.Ask("the offset of a time that is to come", list(orders, 0, fixedTime+1000))
	s.Ask("the latest offset of an empty partition", list(orders, 1, -1))
	s.Ask("offsets of a partition that is not there", list(orders, 7, -1))
	s.Ask("offsets of a topic that is not there", list(s.Name("nosuch"), 0, -1))
	if s.Version(kmsg.ListOffsets) >= 7 {
		s.Ask("the offset of the highest time", list(orders, 0, -3))
	}

	fetch := func(topic string, partition int32, offset int64) *kmsg.FetchRequest {
		r := kmsg.NewPtrFetchRequest()
		r.ReplicaID, r.MinBytes, r.MaxBytes = -1, 0, 1<<20
		r.SessionEpoch = -1
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.LogStartOffset = partition, offset, 1<<20, -1
		r.Topics = []kmsg.FetchRequestTopic{{Topic: topic, TopicID: ids[topic], Partitions: []kmsg.FetchRequestTopicPartition{p}}}
		return r
	}
	s.Ask("fetch from the start", fetch(orders, 0, 0))
	s.Ask("fetch from within a batch", fetch(orders, 0, 3))
	s.Ask("fetch at the end", fetch(orders, 0, 4))
	s.Ask("fetch beyond the end", fetch(orders, 0, 99))
	s.Ask("fetch a partition that is not there", fetch(orders, 7, 0))
	s.Ask("fetch a topic that is not there", fetch(s.Name("nosuch"), 0, 0))

	epoch := func(partition, current, leader int32) *kmsg.OffsetForLeaderEpochRequest {
		r := kmsg.NewPtrOffsetForLeaderEpochRequest()
		r.ReplicaID = -1
		r.Topics = []kmsg.OffsetForLeaderEpochRequestTopic{{Topic: orders, Partitions: []kmsg.OffsetForLeaderEpochRequestTopicPartition{
			{Partition: partition, CurrentLeaderEpoch: current, LeaderEpoch: leader}}}}
		return r
	}
	s.Ask("the end of an epoch", epoch(0, -1, 0))
	s.Ask("the end of an epoch that is to come", epoch(0, -1, 9))
	s.Ask("from a leader that is to come", epoch(0, 9, 0))
	s.Ask("of a partition that is not there", epoch(7, -1, 0))

	remove := func(topic string, partition int32, offset int64) *kmsg.DeleteRecordsRequest {
		r := kmsg.NewPtrDeleteRecordsRequest()
		r.TimeoutMillis = 30000
		r.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic, Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: partition, Offset: offset}}}}
		return r
	}
	s.Ask("delete records", remove(orders, 0, 2))
	s.Ask("the earliest offset after that", list(orders, 0, -2))
	s.Ask("fetch what is deleted", fetch(orders, 0, 1))
	s.Ask("delete what is deleted", remove(orders, 0, 1))
	s.Ask("delete records beyond the end", remove(orders, 0, 99))
	s.Ask("delete all", remove(orders, 0, -1))
	s.Ask("delete of a partition that is not there", remove(orders, 7, 1))
	s.Ask("delete of a compacted topic", remove(compacted, 0, -1))

	s.Eventually("a producer id", kmsg.NewPtrInitProducerIDRequest(), func(r kmsg.Response) bool {
		return r.(*kmsg.InitProducerIDResponse).ErrorCode == 0
	})
}
