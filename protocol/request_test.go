package protocol

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// promptly fails where f does not come back: a decoder that follows a lying count would take minutes.
func promptly(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("it hangs")
	}
}

func TestHostileBodiesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		key     int16
		version int16
		body    string
	}{
		{"tag bomb", 18, 3, "\x02a\x021\xff\xff\xff\xff\x0f"},
		{"array of 2^31-1 topics", 3, 1, "\x7f\xff\xff\xff"},
		{"compact array of 2^32-2 topics", 3, 9, "\xff\xff\xff\xff\x0f"},
		{"nested array bomb", 2, 1, "\xff\xff\xff\xff\x00\x00\x00\x01\x00\x01t\x7f\xff\xff\xff"},
		{"string longer than the body", 3, 1, "\x00\x00\x00\x01\x7f\xffx"},
		{"negative string", 3, 1, "\x00\x00\x00\x01\x80\x00"},
		{"null where there can be none", 18, 3, "\x00\x021\x00"},
		{"cut off", 18, 3, "\x02a"},
		{"empty", 1, 4, ""},
		{"records longer than the body", 0, 3, "\xff\xff\x00\x01\x00\x00\x03\xe8\x00\x00\x00\x01\x00\x01t\x00\x00\x00\x01\x00\x00\x00\x00\x7f\xff\xff\xff"},
		{"array bomb of produce topics", 0, 9, "\x00\x00\x01\x00\x00\x03\xe8\xff\xff\xff\xff\x0f"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := Lookup(c.key, ClientListener)
			promptly(t, func() {
				err := a.Decode(a.NewRequest(c.version), []byte(c.body))
				var decode *DecodeError
				if !errors.As(err, &decode) || decode.API != a || decode.Version != c.version {
					t.Errorf("error %v", err)
				}
				if cost := a.DecodeCost(c.version, []byte(c.body)); cost > maxDecodeFactor*len(c.body)+64 {
					t.Errorf("%d bytes are thought to cost %d", len(c.body), cost)
				}
			})
		})
	}
}

// A length that is a varint may be larger than what such a string's next holder can take.
func TestLongStringsAreRefused(t *testing.T) {
	for name, fill := range map[string]func(s string) kmsg.Request{
		"string": func(s string) kmsg.Request {
			return &kmsg.HeartbeatRequest{Version: 4, Group: s}
		},
		"nullable string": func(s string) kmsg.Request {
			return &kmsg.HeartbeatRequest{Version: 4, InstanceID: &s}
		},
		"element": func(s string) kmsg.Request {
			return &kmsg.DeleteGroupsRequest{Version: 2, Groups: []string{"a", s}}
		},
		"nested": func(s string) kmsg.Request {
			r := kmsg.CreateTopicsRequest{Version: 7, Topics: make([]kmsg.CreateTopicsRequestTopic, 2)}
			r.Topics[1].Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "a"}, {Name: "b", Value: &s}}
			return &r
		},
		"topic of Produce": func(s string) kmsg.Request {
			return &kmsg.ProduceRequest{Version: 9, Topics: []kmsg.ProduceRequestTopic{{Topic: s}}}
		},
	} {
		for size, ok := range map[int]bool{maxString: true, maxString + 1: false, 2 * maxString: false, 1 << 17: false} {
			r := fill(strings.Repeat("x", size))
			a := Lookup(r.Key(), ClientListener)
			err := a.Decode(a.NewRequest(r.GetVersion()), r.AppendTo(nil))
			if ok != (err == nil) || !ok && !errors.Is(err, errLongString) {
				t.Errorf("%s of %d bytes: %v", name, size, err)
			}
		}
	}
	// Bytes are none, nor are many short strings.
	many := &kmsg.DescribeGroupsRequest{Version: 5}
	for range 10_000 {
		many.Groups = append(many.Groups, "group")
	}
	assignment := &kmsg.SyncGroupRequest{Version: 4, GroupAssignment: []kmsg.SyncGroupRequestGroupAssignment{{MemberAssignment: make([]byte, 1<<17)}}}
	for _, r := range []kmsg.Request{many, assignment} {
		a := Lookup(r.Key(), ClientListener)
		if err := a.Decode(a.NewRequest(r.GetVersion()), r.AppendTo(nil)); err != nil {
			t.Error(err)
		}
	}
}

func TestBytesBeyondTheMessageAreIgnored(t *testing.T) {
	for key, version := range map[int16]int16{3: 9, 18: 3, 19: 7} {
		a := Lookup(key, ClientListener)
		body := append(a.NewRequest(version).AppendTo(nil), "more"...)
		if err := a.Decode(a.NewRequest(version), body); err != nil {
			t.Errorf("%s v%d: %v", a.Name, version, err)
		}
	}
}

func produceRequest(version int16) *kmsg.ProduceRequest {
	r := kmsg.NewPtrProduceRequest()
	r.Version, r.Acks = version, -1
	for _, name := range []string{"one", "two"} {
		topic := kmsg.NewProduceRequestTopic()
		topic.Topic = name
		for i := range int32(3) {
			p := kmsg.NewProduceRequestTopicPartition()
			p.Partition, p.Records = i, bytes.Repeat([]byte{byte(i)}, 1000)
			topic.Partitions = append(topic.Partitions, p)
		}
		r.Topics = append(r.Topics, topic)
	}
	return r
}

func TestProduceIsNotCopied(t *testing.T) {
	a := Lookup(0, ClientListener)
	body := produceRequest(9).AppendTo(nil)
	var r kmsg.ProduceRequest
	r.Version = 9
	if err := a.Decode(&r, body); err != nil {
		t.Fatal(err)
	}
	clear(body)
	if r.Topics[0].Topic != "\x00\x00\x00" || r.Topics[1].Partitions[2].Records[999] != 0 {
		t.Error("names or records of a produce request are copies")
	}
	other := Lookup(20, ClientListener)
	names := kmsg.NewPtrDeleteTopicsRequest()
	names.Version, names.TopicNames = 4, []string{"topic"}
	body = names.AppendTo(nil)
	kept := kmsg.NewPtrDeleteTopicsRequest()
	kept.Version = 4
	if err := other.Decode(kept, body); err != nil {
		t.Fatal(err)
	}
	clear(body)
	if kept.TopicNames[0] != "topic" {
		t.Error("the strings of other requests lie in the frame")
	}
}

func TestProduceCostsByItsArrays(t *testing.T) {
	a := Lookup(0, ClientListener)
	for version := a.Min; version <= a.Max; version++ {
		topics, partitions := produceShape(produceRequest(version).AppendTo(nil), version)
		if topics != 2 || partitions != 6 {
			t.Errorf("v%d: %d topics and %d partitions, want 2 and 6", version, topics, partitions)
		}
	}
	// A mebibyte of topics without a name or a partition is what decodes to most.
	bomb := append([]byte("\xff\xff\x00\x01\x00\x00\x03\xe8"), 0, 2, 0xaa, 0xaa)
	bomb = append(bomb, make([]byte, 0x2aaaa*6)...)
	r := a.NewRequest(3).(*kmsg.ProduceRequest)
	if err := a.Decode(r, bomb); err != nil || len(r.Topics) != 0x2aaaa {
		t.Fatalf("%d topics, error %v", len(r.Topics), err)
	}
	if cost, real := a.DecodeCost(3, bomb), len(r.Topics)*int(unsafe.Sizeof(r.Topics[0])); cost < real {
		t.Errorf("%d bytes of arrays are thought to cost %d", real, cost)
	}
}

// FuzzRequest decodes any bytes as any request that is served.
func FuzzRequest(f *testing.F) {
	for a := range APIs(anyListener) {
		for v := a.Min; v <= a.Max; v++ {
			f.Add(a.Key, v, a.NewRequest(v).AppendTo(nil))
		}
	}
	f.Add(int16(0), int16(9), produceRequest(9).AppendTo(nil))
	f.Add(int16(0), int16(13), produceRequest(13).AppendTo(nil))
	f.Add(int16(18), int16(3), []byte("\x02a\x021\xff\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, key, version int16, body []byte) {
		a := Lookup(key, anyListener)
		if a == nil || !a.Accepts(version) {
			return
		}
		cost := a.DecodeCost(version, body)
		r := a.NewRequest(version)
		if a.Decode(r, bytes.Clone(body)) != nil {
			return
		}
		if p, ok := r.(*kmsg.ProduceRequest); ok {
			real := cap(p.Topics) * int(unsafe.Sizeof(kmsg.ProduceRequestTopic{}))
			for i := range p.Topics {
				real += len(p.Topics[i].Partitions) * int(unsafe.Sizeof(kmsg.ProduceRequestTopicPartition{}))
			}
			if real > 2*cost+1024 { // the runtime rounds sizes up
				t.Errorf("decoding took %d bytes of arrays and was thought to cost %d", real, cost)
			}
		}
		if err := a.Decode(a.NewRequest(version), r.AppendTo(nil)); err != nil {
			t.Errorf("what was decoded and encoded again is not decoded: %v", err)
		}
	})
}
