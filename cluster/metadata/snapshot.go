package metadata

import (
	"iter"
	"maps"
	"slices"
)

// Records iterates the records that make up the image: applied to nothing, they give it again. The order is fixed.
func (img *Image) Records() iter.Seq[Record] {
	return func(yield func(Record) bool) {
		if img.ClusterID == "" || !yield(FormatRecord{FormatVersion: img.FormatVersion, ClusterID: img.ClusterID}) {
			return
		}
		for m := range img.Quorum.All() {
			if !yield(QuorumMemberRecord{m}) {
				return
			}
		}
		for n := range img.Nodes.All() {
			if !yield(NodeRecord(n)) {
				return
			}
		}
		if img.GossipKey != nil && !yield(GossipKeyRecord{img.GossipKey}) {
			return
		}
		for b := range img.Brokers.All() {
			if !yield(RegisterBrokerRecord{*b}) {
				return
			}
		}
		if !img.topicRecords(yield) || !img.configRecords(yield) {
			return
		}
		if img.NextProducerID > 0 {
			yield(ProducerIDsRecord{img.NextProducerID})
		}
	}
}

func (img *Image) topicRecords(yield func(Record) bool) bool {
	for t := range img.Topics.All() {
		if !yield(TopicRecord{ID: t.ID, Name: t.Name}) {
			return false
		}
		for p, reg := range t.Partitions {
			if !yield(PartitionRecord{TopicID: t.ID, Partition: int32(p), PartitionRegistration: reg}) {
				return false
			}
		}
	}
	return true
}

func (img *Image) configRecords(yield func(Record) bool) bool {
	for r, m := range img.Configs.All() {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			value := m[key]
			if !yield(ConfigRecord{Resource: r, Key: key, Value: &value}) {
				return false
			}
		}
	}
	return true
}

// Loader builds an image out of the records of a snapshot.
type Loader struct{ e *editor }

// NewLoader begins an image of the given index and term.
func NewLoader(index int64, term int32) *Loader {
	return &Loader{newEditor(Empty(), index, term)}
}

// Add applies the records of one metadata entry of a snapshot and returns how many they were. Errors are *ApplyError.
func (l *Loader) Add(value []byte) (records int, err error) {
	entry, err := ParseEntry(value)
	if err != nil {
		return 0, &ApplyError{l.e.next.Index, err}
	}
	for r, err := range entry.Records() {
		if err == nil {
			err = r.apply(l.e)
		}
		if err != nil {
			return 0, &ApplyError{l.e.next.Index, err}
		}
	}
	return entry.Len(), nil
}

// Image ends the loading.
func (l *Loader) Image() *Image {
	img, _ := l.e.finish()
	return img
}
