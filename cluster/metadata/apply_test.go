package metadata

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/kafka"
)

func formatted(t interface{ Fatal(...any) }) *Image {
	img, _, err := Apply(Empty(), 0, 0, AppendEntry(nil, NoBase, []Record{FormatRecord{FormatVersion, "c1"}}))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// contents is an image as comparable values.
func contents(img *Image) []any {
	out := []any{img.Index, img.Term, img.FormatVersion, img.ClusterID, img.NextProducerID, img.Topics.Len(), img.Topics.PartitionCount(), img.Brokers.Len(), img.Configs.Len()}
	for r := range img.Records() {
		out = append(out, r)
	}
	for topic := range img.Topics.All() {
		other, _ := img.Topics.Colliding(strings.ReplaceAll(topic.Name, ".", "_"))
		byID, _ := img.Topics.ByID(topic.ID)
		out = append(out, other, byID)
	}
	return out
}

// Snapshot and log are two ways to the same image; an image never changes; a Delta says what two images differ in.
func TestImageIsAFold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		img := formatted(t)
		index := int64(0)
		var g generator
		for range rapid.IntRange(1, 8).Draw(t, "entries") {
			index += rapid.Int64Range(1, 3).Draw(t, "step") // Raft's own entries lie between
			records := g.entry(t, img)
			before := contents(img)
			next, delta, err := Apply(img, index, 7, AppendEntry(nil, img.Index, records))
			if err != nil {
				t.Fatalf("%+v: %v", records, err)
			}
			if !reflect.DeepEqual(before, contents(img)) {
				t.Fatalf("%+v changed the old image", records)
			}
			if next.Index != index || next.Term != 7 {
				t.Fatalf("image of index %d, term %d", next.Index, next.Term)
			}
			full := Diff(img, next)
			if !full.Jump || delta.Jump {
				t.Fatal("a difference between images is no step, or a step is")
			}
			if full.Jump = false; !reflect.DeepEqual(full, relevant(delta)) {
				t.Fatalf("%+v: delta is %+v, the images differ in %+v", records, delta, full)
			}
			img = next
		}
		loader := NewLoader(img.Index, img.Term)
		for part := range slices.Chunk(slices.Collect(img.Records()), 3) {
			if n, err := loader.Add(AppendEntry(nil, NoBase, part)); err != nil || n != len(part) {
				t.Fatal(n, err)
			}
		}
		if got := contents(loader.Image()); !reflect.DeepEqual(got, contents(img)) {
			t.Fatalf("snapshot gives %v, want %v", got, contents(img))
		}
	})
}

// relevant leaves out of a delta that a quorum member or the producer ids were written as they were.
func relevant(d *Delta) *Delta {
	c := *d
	full := Diff(d.Old, d.New)
	c.Quorum, c.ProducerIDs = full.Quorum && d.Quorum, full.ProducerIDs && d.ProducerIDs
	return &c
}

func TestStaleEntryIsSkipped(t *testing.T) {
	img := formatted(t)
	entry := AppendEntry(nil, 0, []Record{ProducerIDsRecord{5}})
	next, _, err := Apply(img, 3, 1, entry)
	if err != nil || next.NextProducerID != 5 {
		t.Fatal(next, err)
	}
	again, delta, err := Apply(next, 4, 1, entry)
	if err != nil || delta != nil || again != next {
		t.Fatalf("a stale entry was applied: %+v %v", delta, err)
	}
}

func TestEntriesThatDoNotApply(t *testing.T) {
	img := formatted(t)
	id := kafka.UUID{1}
	img, _, err := Apply(img, 1, 1, AppendEntry(nil, 0, []Record{
		TopicRecord{id, "t"}, RegisterBrokerRecord{BrokerRegistration{ID: 1, Epoch: EpochOfEntry}}, ProducerIDsRecord{1000},
	}))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		r    Record
		want string
	}{
		{FormatRecord{FormatVersion, "c2"}, "format record for cluster c2 in the log of cluster c1"},
		{FormatRecord{2, "c1"}, "format version 2 is not known"},
		{TopicRecord{kafka.UUID{2}, "t"}, "exists already"},
		{TopicRecord{id, "u"}, "belongs to topic t"},
		{RemoveTopicRecord{kafka.UUID{9}}, "does not exist"},
		{PartitionRecord{TopicID: kafka.UUID{9}}, "does not exist"},
		{PartitionRecord{TopicID: id, Partition: 1}, "where the topic has 0"},
		{PartitionRecord{TopicID: id, Partition: -1}, "where the topic has 0"},
		{BrokerChangeRecord{ID: 1, Epoch: 2}, "has epoch 1, not 2"},
		{BrokerChangeRecord{ID: 2}, "not registered"},
		{UnregisterBrokerRecord{ID: 1, Epoch: 0}, "has epoch 1, not 0"},
		{ProducerIDsRecord{999}, "are taken"},
	} {
		_, _, err := Apply(img, 2, 1, AppendEntry(nil, 1, []Record{c.r}))
		var applyErr *ApplyError
		if !errors.As(err, &applyErr) || applyErr.Index != 2 || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%T %+v: %v, want %q", c.r, c.r, err, c.want)
		}
	}
}

func TestTopicIDIsNotUsedAgainAtOnce(t *testing.T) {
	img, _, err := formatted(t).With([]Record{TopicRecord{kafka.UUID{1}, "t"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := img.With([]Record{RemoveTopicRecord{kafka.UUID{1}}, TopicRecord{kafka.UUID{1}, "t"}}); err == nil {
		t.Fatal("a topic is two topics in one entry")
	}
}

func TestBrokerEpochIsIndexOfRegistration(t *testing.T) {
	img, _, err := Apply(formatted(t), 41, 1, AppendEntry(nil, 0, []Record{RegisterBrokerRecord{BrokerRegistration{ID: 7, Epoch: EpochOfEntry}}}))
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := img.Brokers.ByID(7); b.Epoch != 41 {
		t.Fatalf("epoch %d", b.Epoch)
	}
}

// One topic after the other through everything that Local tells a broker.
func TestLocalDelta(t *testing.T) {
	img := formatted(t)
	step := func(records ...Record) string {
		next, delta, err := Apply(img, img.Index+1, 1, AppendEntry(nil, img.Index, records))
		if err != nil {
			t.Fatal(err)
		}
		img = next
		var out []string
		local := delta.Local(1)
		for _, list := range []struct {
			name string
			p    []LocalPartition
		}{{"delete", local.Deleted}, {"lead", local.Leaders}, {"follow", local.Followers}} {
			for _, p := range list.p {
				out = append(out, fmt.Sprintf("%s %s@%d leader=%d new=%v", list.name, p.TopicPartition, p.TopicID[0], p.Registration.Leader, p.New))
			}
		}
		if local.Empty() != (len(out) == 0) {
			t.Fatal("Empty is wrong")
		}
		return strings.Join(out, "; ")
	}
	partition := func(topic byte, p int32, leader kafka.BrokerID, replicas ...kafka.BrokerID) Record {
		return PartitionRecord{kafka.UUID{topic}, p, PartitionRegistration{Replicas: replicas, Leader: leader}}
	}
	for i, c := range []struct {
		records []Record
		want    string
	}{
		{[]Record{TopicRecord{kafka.UUID{1}, "t"}, partition(1, 0, 1, 1, 2), partition(1, 1, 2, 2, 1), partition(1, 2, 2, 2, 3)},
			"lead t-0@1 leader=1 new=true; follow t-1@1 leader=2 new=true"},
		{[]Record{partition(1, 0, 1, 1, 2)}, ""},
		{[]Record{partition(1, 0, 2, 1, 2)}, "follow t-0@1 leader=2 new=false"},
		{[]Record{partition(1, 0, -1, 1, 2)}, "follow t-0@1 leader=-1 new=false"},
		{[]Record{partition(1, 2, 3, 3, 2)}, ""},
		{[]Record{partition(1, 2, 1, 1, 3)}, "lead t-2@1 leader=1 new=true"},
		{[]Record{partition(1, 1, 2, 2, 3)}, "delete t-1@1 leader=2 new=false"},
		{[]Record{partition(1, 3, 1, 1)}, "lead t-3@1 leader=1 new=true"},
		{[]Record{RemoveTopicRecord{kafka.UUID{1}}, TopicRecord{kafka.UUID{2}, "t"}, partition(2, 0, 1, 1)},
			"delete t-0@1 leader=-1 new=false; delete t-2@1 leader=1 new=false; delete t-3@1 leader=1 new=false; lead t-0@2 leader=1 new=true"},
		{[]Record{TopicRecord{kafka.UUID{3}, "u"}, partition(3, 0, 1, 1), RemoveTopicRecord{kafka.UUID{3}}}, ""},
	} {
		if got := step(c.records...); got != c.want {
			t.Errorf("step %d: %s\nwant %s", i, got, c.want)
		}
	}
}

func TestConfigsOfARemovedTopicGo(t *testing.T) {
	value := "5"
	set := ConfigRecord{ConfigResource{TopicResource, "t"}, "k", &value}
	img, _, err := formatted(t).With([]Record{TopicRecord{kafka.UUID{1}, "t"}, set})
	if err != nil || img.Configs.Topic("t")["k"] != "5" {
		t.Fatal(img.Configs.Topic("t"), err)
	}
	img, delta, err := img.With([]Record{RemoveTopicRecord{kafka.UUID{1}}, TopicRecord{kafka.UUID{2}, "t"}})
	if err != nil || img.Configs.Topic("t") != nil || !slices.Equal(delta.Configs, []ConfigResource{{TopicResource, "t"}}) {
		t.Fatal(img.Configs.Topic("t"), delta.Configs, err)
	}
}
