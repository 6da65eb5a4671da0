package group

import (
	"time"

	"weir/coordinator"
	"weir/internal/kafka"
)

// removalMaxBytes bounds the tombstones of one batch where they may go in several: well below the max.message.bytes of
// the topic (1 MiB), and little enough that commits do not wait long behind it.
const removalMaxBytes = 256 << 10

// removal collects tombstones.
type removal struct {
	now     time.Time
	records []coordinator.Record
	size    int // bytes of keys
}

// full reports whether the rest must wait for another batch.
func (r *removal) full() bool { return r.size >= removalMaxBytes }

func (r *removal) offset(group, topic string, partition int32) {
	r.add(offsetTombstone(r.now, group, topic, partition))
}

// offsetsOf removes what a group has committed of a topic, where isGone says so of its id. It returns false when there is no
// more room for that.
func (r *removal) offsetsOf(group string, topic *topicOffsets, isGone func(kafka.UUID) bool) bool {
	for i := range topic.partitions {
		p := &topic.partitions[i]
		switch {
		case !isGone(p.topicID):
		case r.full():
			return false
		default:
			r.offset(group, topic.name, p.partition)
		}
	}
	return true
}

func (r *removal) group(id string) { r.add(groupTombstone(r.now, id)) }

func (r *removal) add(record coordinator.Record) {
	r.records = append(r.records, record)
	r.size += len(record.Key)
}
