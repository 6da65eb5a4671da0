package protocol

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// frameOf encodes a request as clients do, without the size.
func frameOf(r kmsg.Request, clientID string, correlationID int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID)).AppendRequest(nil, r, correlationID)[4:]
}

func TestHeaderIsReadInBothVersions(t *testing.T) {
	for _, version := range []int16{0, 3} {
		r := kmsg.NewPtrApiVersionsRequest()
		r.Version, r.ClientSoftwareName, r.ClientSoftwareVersion = version, "x", "1"
		var h RequestHeader
		body, err := h.ReadFrom(frameOf(r, "client", 7), r.IsFlexible())
		if err != nil {
			t.Fatalf("v%d: %v", version, err)
		}
		if h.Key != 18 || h.Version != version || h.CorrelationID != 7 || h.ClientID == nil || *h.ClientID != "client" {
			t.Errorf("v%d: header %+v", version, h)
		}
		if want := r.AppendTo(nil); !bytes.Equal(body, want) {
			t.Errorf("v%d: body % x, want % x", version, body, want)
		}
	}
}

func TestHeaderKeepsAnEqualClientID(t *testing.T) {
	frame := frameOf(kmsg.NewPtrMetadataRequest(), "client", 1)
	var h RequestHeader
	if n := testing.AllocsPerRun(10, func() {
		if _, err := h.ReadFrom(frame, false); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a header that was seen before", n)
	}
	before := h.ClientID
	if _, err := h.ReadFrom(frameOf(kmsg.NewPtrMetadataRequest(), "other", 1), false); err != nil || *h.ClientID != "other" || *before != "client" {
		t.Errorf("client ids %q and %q, error %v", *before, *h.ClientID, err)
	}
}

func TestHeaderEdges(t *testing.T) {
	head := []byte{0, 3, 0, 9, 0, 0, 0, 1}
	for _, c := range []struct {
		name     string
		rest     []byte
		flexible bool
		ok       bool
	}{
		{"no client id", nil, false, false},
		{"half a length", []byte{0}, false, false},
		{"null client id", []byte{0xff, 0xff}, false, true},
		{"a length below null is null, as in Kafka", []byte{0xff, 0xfe}, false, true},
		{"client id cut off", []byte{0, 5, 'a'}, false, false},
		{"tags missing", []byte{0, 0}, true, false},
		{"no tags", []byte{0, 0, 0}, true, true},
		{"unknown tags, in any order", []byte{0, 0, 2, 9, 2, 'a', 'b', 8, 0}, true, true},
		{"tag cut off", []byte{0, 0, 1, 9, 2, 'a'}, true, false},
		{"tag bomb", []byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, true, false},
		{"endless varint", []byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, true, false},
		{"tag of 4 GiB", []byte{0, 0, 1, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, true, false},
	} {
		var h RequestHeader
		body, err := h.ReadFrom(append(bytes.Clone(head), c.rest...), c.flexible)
		if (err == nil) != c.ok || len(body) != 0 {
			t.Errorf("%s: body % x, error %v", c.name, body, err)
		}
	}
}

func FuzzRequestHeader(f *testing.F) {
	f.Add(frameOf(kmsg.NewPtrMetadataRequest(), "client", 1), false)
	f.Add([]byte{0, 18, 0, 3, 0, 0, 0, 1, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f}, true)
	f.Fuzz(func(t *testing.T, frame []byte, flexible bool) {
		var h RequestHeader
		body, err := h.ReadFrom(frame, flexible)
		if err != nil {
			return
		}
		if !bytes.HasSuffix(frame, body) {
			t.Errorf("the body is no part of the frame")
		}
		if h.ClientID != nil && !bytes.HasPrefix(frame[minRequestHeaderSize:], []byte(*h.ClientID)) {
			t.Errorf("client id %q is not in the frame", *h.ClientID)
		}
	})
}
