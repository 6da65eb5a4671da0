package metadata

import (
	"bytes"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"weir/internal/kafka"
)

// Generators of records that apply to an image.

func drawBrokers(t *rapid.T, label string) []kafka.BrokerID {
	ids := rapid.SliceOfNDistinct(rapid.Int32Range(0, 5), 0, 3, rapid.ID).Draw(t, label)
	if len(ids) == 0 {
		return nil
	}
	var out []kafka.BrokerID
	for _, id := range ids {
		out = append(out, kafka.BrokerID(id))
	}
	return out
}

func drawUUID(t *rapid.T, label string) kafka.UUID {
	return kafka.UUID{0: rapid.Byte().Draw(t, label), 15: 200}
}

func drawRegistration(t *rapid.T) PartitionRegistration {
	p := PartitionRegistration{
		Replicas: drawBrokers(t, "replicas"), ISR: drawBrokers(t, "isr"), ELR: drawBrokers(t, "elr"), LastKnownELR: drawBrokers(t, "last"),
		Adding: drawBrokers(t, "adding"), Removing: drawBrokers(t, "removing"),
		Leader: kafka.BrokerID(rapid.Int32Range(-1, 5).Draw(t, "leader")), LeaderEpoch: kafka.LeaderEpoch(rapid.Int32Range(-1, 1<<31-1).Draw(t, "epoch")),
		PartitionEpoch: kafka.PartitionEpoch(rapid.Int32Range(0, 1<<31-1).Draw(t, "partition epoch")), RecoveryState: rapid.Int8Range(0, 1).Draw(t, "recovery"),
	}
	if rapid.Bool().Draw(t, "assigned") {
		for range p.Replicas {
			p.Directories = append(p.Directories, drawUUID(t, "directory"))
		}
	}
	return p
}

func drawBroker(t *rapid.T) BrokerRegistration {
	b := BrokerRegistration{
		ID: kafka.BrokerID(rapid.Int32Range(0, 5).Draw(t, "broker")), Epoch: kafka.BrokerEpoch(rapid.Int64Range(-1, 9).Draw(t, "broker epoch")),
		Incarnation: drawUUID(t, "incarnation"), Rack: rapid.SampledFrom([]string{"", "r1"}).Draw(t, "rack"),
		Fenced: rapid.Bool().Draw(t, "fenced"), InControlledShutdown: rapid.Bool().Draw(t, "shutdown"),
	}
	for range rapid.IntRange(0, 2).Draw(t, "listeners") {
		b.Listeners = append(b.Listeners, Endpoint{
			Name: rapid.String().Draw(t, "name"), Host: "h", Port: rapid.Uint16().Draw(t, "port"), Security: rapid.Int16().Draw(t, "security"),
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "directories") {
		b.Directories = append(b.Directories, drawUUID(t, "directory"))
	}
	return b
}

// generator draws records. Topic ids are never used twice.
type generator struct{ topics uint16 }

// record returns a record that applies to img, or nil where the kind that was drawn has nothing to apply to.
func (g *generator) record(t *rapid.T, img *Image) Record {
	topics := slices.Collect(img.Topics.All())
	brokers := slices.Collect(img.Brokers.All())
	members := slices.Collect(img.Quorum.All())
	switch kind := rapid.IntRange(kindQuorumMember, kindRemoveMember).Draw(t, "kind"); {
	case kind == kindQuorumMember:
		return QuorumMemberRecord{QuorumMember{
			RaftID: rapid.Uint64Range(1, 4).Draw(t, "raft"), Node: kafka.BrokerID(rapid.Int32Range(0, 5).Draw(t, "node")), Directory: drawUUID(t, "directory"),
			Host: rapid.SampledFrom([]string{"", "h1", "::1"}).Draw(t, "host"), Port: rapid.SampledFrom([]uint16{0, 9093}).Draw(t, "port"),
			GossipPort: rapid.SampledFrom([]uint16{0, 7946}).Draw(t, "gossip"), Controller: rapid.Bool().Draw(t, "controller"),
		}}
	case kind == kindTopic:
		name := fmt.Sprintf("t%d.x", rapid.IntRange(0, 20).Draw(t, "name"))
		if _, taken := img.Topics.ByName(name); taken {
			return nil
		}
		g.topics++
		return TopicRecord{ID: kafka.UUID{0: byte(g.topics * 37), 1: byte(g.topics), 2: byte(g.topics >> 8), 15: 200}, Name: name}
	case kind == kindRemoveTopic && len(topics) > 0:
		return RemoveTopicRecord{rapid.SampledFrom(topics).Draw(t, "topic").ID}
	case kind == kindPartition && len(topics) > 0:
		topic := rapid.SampledFrom(topics).Draw(t, "topic")
		p := rapid.IntRange(0, len(topic.Partitions)).Draw(t, "partition")
		return PartitionRecord{TopicID: topic.ID, Partition: int32(p), PartitionRegistration: drawRegistration(t)}
	case kind == kindRegisterBroker:
		return RegisterBrokerRecord{drawBroker(t)}
	case kind == kindBrokerChange && len(brokers) > 0:
		b := rapid.SampledFrom(brokers).Draw(t, "broker")
		return BrokerChangeRecord{ID: b.ID, Epoch: b.Epoch, Fenced: rapid.Bool().Draw(t, "fenced"), InControlledShutdown: rapid.Bool().Draw(t, "shutdown")}
	case kind == kindUnregisterBroker && len(brokers) > 0:
		b := rapid.SampledFrom(brokers).Draw(t, "broker")
		return UnregisterBrokerRecord{b.ID, b.Epoch}
	case kind == kindConfig:
		return drawConfig(t)
	case kind == kindProducerIDs:
		return ProducerIDsRecord{img.NextProducerID + rapid.Int64Range(0, 1000).Draw(t, "ids")}
	case kind == kindNode:
		return drawNode(t, img)
	case kind == kindGossipKey:
		return GossipKeyRecord{bytes.Repeat([]byte{rapid.Byte().Draw(t, "key")}, GossipKeySize)}
	case kind == kindRemoveMember && len(members) > 0:
		return RemoveQuorumMemberRecord{rapid.SampledFrom(members).Draw(t, "member").RaftID}
	}
	return nil
}

func drawNode(t *rapid.T, img *Image) Record {
	r := NodeRecord{ID: kafka.BrokerID(rapid.Int32Range(0, 5).Draw(t, "node"))}
	if rapid.Bool().Draw(t, "known") {
		r.Directory, r.Removed = drawUUID(t, "directory"), rapid.Bool().Draw(t, "removed")
	}
	if old, known := img.Nodes.ByDirectory(r.Directory); known && old.Removed {
		return nil
	}
	return r
}

func drawConfig(t *rapid.T) Record {
	r := ConfigRecord{
		Resource: ConfigResource{
			rapid.SampledFrom([]ResourceType{TopicResource, BrokerResource}).Draw(t, "type"), rapid.SampledFrom([]string{"", "1", "t1.x"}).Draw(t, "resource"),
		},
		Key: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "key"),
	}
	if rapid.Bool().Draw(t, "set") {
		value := rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "value")
		r.Value = &value
	}
	return r
}

// entry returns a few records that apply to img one after the other.
func (g *generator) entry(t *rapid.T, img *Image) []Record {
	var records []Record
	for range rapid.IntRange(0, 8).Draw(t, "records") {
		if r := g.record(t, img); r != nil {
			records = append(records, r)
			next, _, err := img.With([]Record{r})
			if err != nil {
				t.Fatalf("%T %+v: %v", r, r, err)
			}
			img = next
		}
	}
	return records
}
