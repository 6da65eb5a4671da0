package handler

import (
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
)

// maxAnswerBytes bounds an answer about groups that a small request could make of any size, by naming the same again and
// again. It holds what a million and more committed offsets take.
const maxAnswerBytes = 64 << 20

var errAnswerTooLarge error = kafka.Errorf(kafka.InvalidRequest, "The answer would be larger than %d bytes.", maxAnswerBytes)

// answerSize adds up, roughly, what the parts of an answer take on the wire. It is safe for concurrent use.
type answerSize struct{ bytes atomic.Int64 }

// add reports whether a part of n bytes still has room.
func (s *answerSize) add(n int) bool { return s.bytes.Add(int64(n)) <= maxAnswerBytes }

func (s *answerSize) full() bool { return s.bytes.Load() >= maxAnswerBytes }

// rowBytes is what a row of an answer takes besides its strings and bytes.
const rowBytes = 24

func sizeOfOffsets(g *kmsg.OffsetFetchResponseGroup) (n int) {
	for i := range g.Topics {
		t := &g.Topics[i]
		n += rowBytes*(1+len(t.Partitions)) + len(t.Topic)
		for j := range t.Partitions {
			if m := t.Partitions[j].Metadata; m != nil {
				n += len(*m)
			}
		}
	}
	return n
}

func sizeOfDescription(g *kmsg.DescribeGroupsResponseGroup) (n int) {
	for i := range g.Members {
		m := &g.Members[i]
		n += rowBytes + len(m.MemberID) + len(m.ClientID) + len(m.ClientHost) + len(m.ProtocolMetadata) + len(m.MemberAssignment)
	}
	return n
}
