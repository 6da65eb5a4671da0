package group

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// randomOffsets makes requests about offsets of a few groups and topics, so that they meet.
type randomOffsets struct{ *rand.Rand }

func (r randomOffsets) group() string { return []string{"", "a", "b", "c"}[r.IntN(4)] }

func (r randomOffsets) topic() string { return []string{"orders", "bills", "notes", "x"}[r.IntN(4)] }

// commit is of a client that is no member.
func (r randomOffsets) commit() *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group = int16(2+r.IntN(8)), r.group()
	if req.Version <= 4 && r.IntN(3) == 0 {
		req.RetentionTimeMillis = r.Int64N(30 * 24 * 3600_000)
	}
	for range r.IntN(3) {
		t := kmsg.NewOffsetCommitRequestTopic()
		t.Topic = r.topic()
		for range r.IntN(5) {
			p := kmsg.NewOffsetCommitRequestTopicPartition()
			p.Partition, p.Offset = int32(r.IntN(8)), r.Int64N(1000)-1
			if req.Version >= 6 {
				p.LeaderEpoch = int32(r.IntN(3)) - 1
			}
			if r.IntN(2) == 0 {
				p.Metadata = new(strings.Repeat("m", r.IntN(3)))
			}
			t.Partitions = append(t.Partitions, p)
		}
		req.Topics = append(req.Topics, t)
	}
	return req
}

func (r randomOffsets) delete() *kmsg.OffsetDeleteRequest {
	return deleteRequest(r.group(), r.topic(), int32(r.IntN(8)), int32(r.IntN(8)))
}

func (r randomOffsets) fetch() FetchOffsets {
	req := FetchOffsets{Group: r.group(), MemberEpoch: -1, All: r.IntN(3) == 0, RequireStable: r.IntN(2) == 0}
	for range r.IntN(3) {
		req.Topics = append(req.Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: r.topic(), Partitions: []int32{int32(r.IntN(8)), int32(r.IntN(8))}})
	}
	return req
}

// offsetModel is what a shard without members should know, told in the simplest way.
type offsetModel map[string]map[kafka.TopicPartition]committed

func (m offsetModel) commit(req *kmsg.OffsetCommitRequest, now time.Time) {
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			if m[req.Group] == nil {
				m[req.Group] = make(map[kafka.TopicPartition]committed)
			}
			c := committed{offset: p.Offset, leaderEpoch: p.LeaderEpoch, timestamp: now.UnixMilli(), expires: -1}
			if req.RetentionTimeMillis != -1 {
				c.expires = now.UnixMilli() + req.RetentionTimeMillis
			}
			if p.Metadata != nil {
				c.metadata = *p.Metadata
			}
			m[req.Group][kafka.TopicPartition{Topic: t.Topic, Partition: p.Partition}] = c
		}
	}
}

func (m offsetModel) drop(topic string) {
	for _, offsets := range m {
		for tp := range offsets {
			if tp.Topic == topic {
				delete(offsets, tp)
			}
		}
	}
}

func (m offsetModel) expire(now time.Time) {
	for group, offsets := range m {
		for tp, c := range offsets {
			at := c.timestamp + retention.Milliseconds()
			if c.expires != -1 {
				at = c.expires
			}
			if at <= now.UnixMilli() {
				delete(offsets, tp)
			}
		}
		if len(offsets) == 0 {
			delete(m, group)
		}
	}
}

// TestOffsetsAgainstAModel: whatever is asked, in whatever order and with reloads between, the shard answers as the model.
func TestOffsetsAgainstAModel(t *testing.T) {
	for seed := range uint64(20) {
		r := randomOffsets{rand.New(rand.NewPCG(seed, 0))}
		h, model := newOffsetHarness(t), offsetModel{}
		h.seen = func(in coordinator.Input, _ *coordinator.Output) {
			if f, ok := in.(coordinator.Fired); ok && f.Key == (expireOffsets{}) {
				model.expire(h.now)
			}
		}
		for range 300 {
			switch r.IntN(20) {
			default:
				req := r.commit()
				h.call(req)
				model.commit(req, h.now)
			case 0, 1, 2:
				req := r.delete()
				resp := h.call(req).(*kmsg.OffsetDeleteResponse)
				if (resp.ErrorCode == 0) != (req.Group != "" && model[req.Group] != nil) {
					t.Fatalf("seed %d: %+v for %+v", seed, resp, req)
				}
				if resp.ErrorCode == 0 {
					for _, p := range req.Topics[0].Partitions {
						delete(model[req.Group], kafka.TopicPartition{Topic: req.Topics[0].Topic, Partition: p.Partition})
					}
				}
			case 3, 4, 5, 6:
				req := r.fetch()
				if got, want := shown(h.call(req).(*kmsg.OffsetFetchResponseGroup)), model.fetched(req); got != want {
					t.Fatalf("seed %d: %+v is answered\n%s\nwant\n%s", seed, req, got, want)
				}
			case 7:
				topic := r.topic()
				h.step(TopicsDeleted{Topics: []DeletedTopic{{Name: topic}}})
				model.drop(topic)
			case 8:
				group := r.group()
				if err := h.call(Delete{Group: group}); (err == nil) != (model[group] != nil) {
					t.Fatalf("seed %d: deletion of %q: %v", seed, group, err)
				}
				delete(model, group)
			case 9, 10:
				h.advance(time.Duration(r.Int64N(int64(3 * 24 * time.Hour))))
			case 11:
				for group, offsets := range model {
					if len(offsets) == 0 {
						delete(model, group) // nothing tells of it
					}
				}
				h.reload()
			}
		}
	}
}

func shown(resp *kmsg.OffsetFetchResponseGroup) string {
	var lines []string
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			lines = append(lines, fmt.Sprint(t.Topic, p.Partition, p.Offset, p.LeaderEpoch, *p.Metadata, p.ErrorCode))
		}
	}
	return strings.Join(lines, "\n")
}

func (m offsetModel) fetched(req FetchOffsets) string {
	var lines []string
	show := func(tp kafka.TopicPartition) {
		c, known := m[req.Group][tp]
		if !known {
			c = committed{offset: -1, leaderEpoch: -1}
		}
		lines = append(lines, fmt.Sprint(tp.Topic, tp.Partition, c.offset, c.leaderEpoch, c.metadata, 0))
	}
	if req.All {
		for tp := range m[req.Group] {
			show(tp)
		}
		slices.Sort(lines) // partitions have one digit
		return strings.Join(lines, "\n")
	}
	for _, t := range req.Topics {
		for _, p := range t.Partitions {
			show(kafka.TopicPartition{Topic: t.Topic, Partition: p})
		}
	}
	return strings.Join(lines, "\n")
}
