package metadata

import (
	"testing"

	"weir/internal/kafka"
)

func TestSmoke(t *testing.T) {
	img := Empty()
	var err error
	var d *Delta
	id := kafka.UUID{1}
	apply := func(index int64, rs ...Record) {
		t.Helper()
		img, d, err = Apply(img, index, 1, AppendEntry(nil, img.Index, rs))
		if err != nil || d == nil {
			t.Fatal(err, d)
		}
	}
	apply(0, FormatRecord{FormatVersion: 1, ClusterID: "c"})
	apply(2, TopicRecord{ID: id, Name: "t"}, PartitionRecord{TopicID: id, PartitionRegistration: PartitionRegistration{Replicas: []kafka.BrokerID{1}, Leader: 1}})
	if got, _ := img.Topics.ByName("t"); len(got.Partitions) != 1 {
		t.Fatal(got)
	}
	if l := d.Local(1); len(l.Leaders) != 1 {
		t.Fatal(l)
	}
}
