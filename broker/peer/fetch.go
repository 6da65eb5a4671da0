package peer

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kbin"

	"weir/internal/kafka"
)

// FetchVersion is the version at which brokers fetch from each other: topics by id (KIP-516), with the replica's state
// (KIP-903), and the current leader in the answer (KIP-951). FetchResponse reads no other.
const FetchVersion = 17

// FetchResponse is the answer to a Fetch. It is decoded into again and again, and then allocates nothing.
type FetchResponse struct {
	ErrorCode  kafka.Code // of the session
	SessionID  int32
	Partitions []FetchedPartition // in the order of the answer
}

// FetchedPartition is one partition of the answer.
type FetchedPartition struct {
	TopicID        kafka.TopicID
	Partition      int32
	ErrorCode      kafka.Code
	HighWatermark  int64
	LogStartOffset int64
	Records        []byte // aliases the answer

	Diverges       bool // where it does, the next two say from where on (KIP-595)
	DivergingEpoch kafka.LeaderEpoch
	DivergingEnd   int64
}

var errFetchResponse = errors.New("the answer to Fetch is cut short, or a length in it lies")

// leastPartitionBytes is how many bytes a partition has at least: its numbers, two lengths and no tagged fields.
const leastPartitionBytes = 4 + 2 + 3*8 + 1 + 4 + 1 + 1

// Decode reads an answer of FetchVersion. What a peer claims takes no memory: a partition has three times the bytes here
// that it has at least on the wire.
func (r *FetchResponse) Decode(body []byte) error {
	b := kbin.Reader{Src: body}
	b.Int32() // throttle time
	r.ErrorCode = kafka.Code(b.Int16())
	r.SessionID = b.Int32()
	r.Partitions = r.Partitions[:0]
	for range arrayLen(&b, 1) {
		id := kafka.TopicID(b.Uuid())
		for range arrayLen(&b, leastPartitionBytes) {
			r.Partitions = append(r.Partitions, FetchedPartition{TopicID: id})
			r.Partitions[len(r.Partitions)-1].decode(&b)
		}
		skipTags(&b)
		if !b.Ok() {
			return errFetchResponse
		}
	}
	skipTags(&b) // where leaders live, which brokers know
	if !b.Ok() {
		return errFetchResponse
	}
	return nil
}

func (p *FetchedPartition) decode(b *kbin.Reader) {
	p.Partition = b.Int32()
	p.ErrorCode = kafka.Code(b.Int16())
	p.HighWatermark = b.Int64()
	b.Int64() // last stable offset
	p.LogStartOffset = b.Int64()
	for range arrayLen(b, 8+8+1) { // aborted transactions, which a replica does not ask for
		b.Span(8 + 8)
		skipTags(b)
		if !b.Ok() {
			return
		}
	}
	b.Int32() // preferred replica
	p.Records = b.CompactNullableBytes()
	eachTag(b, func(tag uint32, b *kbin.Reader) {
		const divergingEpoch = 0
		if tag == divergingEpoch {
			p.Diverges = true
			p.DivergingEpoch, p.DivergingEnd = kafka.LeaderEpoch(b.Int32()), b.Int64()
		}
	})
}

// arrayLen reads the length of an array whose elements have so many bytes at least; null is none.
func arrayLen(b *kbin.Reader, least int) int {
	n := int(b.Uvarint()) - 1
	if n*least > len(b.Src) {
		b.Span(-1) // bad from here on
		return 0
	}
	return max(n, 0)
}

func skipTags(b *kbin.Reader) { eachTag(b, nil) }

// eachTag reads tagged fields (KIP-482). Each takes two bytes at least, so a lying count ends with the input.
func eachTag(b *kbin.Reader, read func(tag uint32, b *kbin.Reader)) {
	for n := b.Uvarint(); n > 0 && b.Ok(); n-- {
		tag := b.Uvarint()
		field := kbin.Reader{Src: b.Span(int(b.Uvarint()))}
		if read == nil || !b.Ok() {
			continue
		}
		if read(tag, &field); !field.Ok() {
			b.Span(-1)
		}
	}
}
