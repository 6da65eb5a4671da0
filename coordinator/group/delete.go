package group

import (
	"strings"
	"time"

	"weir/coordinator"
	"weir/internal/kafka"
)

// removed and expired are the Afters of records that remove groups whose soft state is gone already: by request, and
// because it was time.
type (
	removed struct{ groups []string }
	expired struct{ groups []string }
)

// delete removes a group without members, with its offsets (DeleteGroups). It is forgotten at once, so that whoever joins
// from now on finds none.
func (s *Shard) delete(now time.Time, c *coordinator.Call, req Delete) coordinator.Output {
	var err error
	g := s.group(req.Group)
	switch {
	case g == nil:
		err = kafka.Errorf(kafka.GroupIDNotFound, "Group %s not found.", req.Group)
	case !g.isEmpty():
		err = kafka.Errorf(kafka.NonEmptyGroup, "")
	}
	if err != nil {
		return answer(c, err)
	}

	gone := removal{now: now}
	id := strings.Clone(req.Group)
	if offsets := s.hard.offsets.byGroup[id]; offsets != nil {
		for i := range offsets.topics {
			topic := &offsets.topics[i]
			for j := range topic.partitions {
				gone.offset(id, topic.name, topic.partitions[j].partition)
			}
		}
	}
	gone.group(id)
	return coordinator.Output{
		Records: gone.records,
		Replies: []coordinator.Reply{{To: c}},
		Timers:  s.forget(id),
		After:   removed{groups: []string{id}},
	}
}

// removalOutcome tells what became of records that remove groups or offsets: of a removed, an expired, a TopicsDeleted or a
// TopicsThere.
func (s *Shard) removalOutcome(now time.Time, o coordinator.Outcome) coordinator.Output {
	switch of := o.Of.(type) {
	case removed:
		s.restore(of.groups, o.Err)
	case expired:
		s.restore(of.groups, o.Err)
		if o.Err == nil {
			return s.expire(now) // for what did not fit into the batch
		}
	case TopicsDeleted:
		if o.Err == nil {
			return s.topicsDeleted(now, of)
		}
	case TopicsThere:
		if o.Err == nil {
			return s.topicsThere(now, of)
		}
	}
	return coordinator.Output{}
}

// restore brings back groups that were forgotten because they were being removed, where that failed.
func (s *Shard) restore(groups []string, err error) {
	if err == nil {
		return
	}
	for _, id := range groups {
		if s.hard.metadata[id] != nil || s.hasOffsets(id) {
			s.ensureGroup(id)
		}
	}
}
