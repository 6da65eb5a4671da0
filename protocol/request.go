package protocol

import (
	"reflect"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxDecodeFactor is how many bytes kmsg 1.15.1 takes at worst for one byte of a request with many empty array elements
// (measured 40).
const maxDecodeFactor = 40

// NewRequest returns an empty request of that version.
func (a *API) NewRequest(version int16) kmsg.Request {
	r := a.newRequest()
	r.SetVersion(version)
	return r
}

// Decode fills r from body, which r then aliases in its byte fields. The strings of Produce alias it too: it is the
// one request with so many bytes that copying its topic names would show, and its handler keeps nothing. Bytes beyond
// the message are ignored, as Kafka ignores them.
func (a *API) Decode(r kmsg.Request, body []byte) error {
	var err error
	if u, ok := r.(kmsg.UnsafeReadFrom); ok && a.Key == produceKey {
		err = u.UnsafeReadFrom(body)
	} else {
		err = r.ReadFrom(body)
	}
	if err != nil { // kmsg has one error only, whose text speaks of responses
		return &DecodeError{API: a, Version: r.GetVersion(), Size: len(body), Err: errShortBody}
	}
	if a.check != nil {
		if err := a.check(r); err != nil {
			return &DecodeError{API: a, Version: r.GetVersion(), Size: len(body), Err: err}
		}
	}
	// Other strings have two bytes for their length, and smaller bodies no room.
	if len(body) > maxString && r.IsFlexible() && hasLongString(reflect.ValueOf(r)) {
		return &DecodeError{API: a, Version: r.GetVersion(), Size: len(body), Err: errLongString}
	}
	return nil
}

// DecodeCost bounds the memory in bytes that decoding body takes beside the body itself.
func (a *API) DecodeCost(version int16, body []byte) int {
	switch a.Key {
	case PeerKey: // of which only the cluster's id is copied; what handlers make of the rest is about as large
		return len(body)
	case produceKey:
	default:
		return maxDecodeFactor * len(body)
	}
	// A produce request is records almost entirely, which cost nothing. What is not costs by its arrays.
	topics, partitions := produceShape(body, version)
	return topics*int(unsafe.Sizeof(kmsg.ProduceRequestTopic{})) + partitions*int(unsafe.Sizeof(kmsg.ProduceRequestTopicPartition{}))
}

// produceShape counts the elements that kmsg allocates for a produce request. Where the bytes end early it counts what
// an array claims, as far as kmsg believes it: an element has one byte at least.
func produceShape(body []byte, version int16) (topics, partitions int) {
	r := shapeReader{src: body, flexible: version >= 9}
	r.skipString() // transactional id
	r.skip(2 + 4)  // acks, timeout
	topics = r.arrayLen()
	for range topics {
		if version >= 13 {
			r.skip(16) // topic id
		} else {
			r.skipString()
		}
		n := r.arrayLen()
		partitions += n
		for range n {
			r.skip(4) // partition
			r.skipBytes()
			r.skipTags()
			if r.bad {
				return topics, partitions
			}
		}
		if r.skipTags(); r.bad {
			break
		}
	}
	return topics, partitions
}
