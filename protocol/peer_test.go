package protocol

import (
	"bytes"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// The bytes must not change: nodes of different versions talk to each other.
func TestPeerMessagesOnTheWire(t *testing.T) {
	id, text := "abc", "no"
	for _, c := range []struct {
		message interface {
			AppendTo([]byte) []byte
			ReadFrom([]byte) error
		}
		empty interface {
			AppendTo([]byte) []byte
			ReadFrom([]byte) error
		}
		want string
	}{
		{&PeerRequest{Kind: PeerRaft, ClusterID: &id, Body: []byte{7, 8}}, &PeerRequest{}, "01" + "04616263" + "030708" + "00"},
		{&PeerRequest{Kind: PeerDiscover, Body: []byte{}}, &PeerRequest{}, "05" + "00" + "01" + "00"},
		{&PeerResponse{ErrorCode: 104, ErrorMessage: &text, Body: []byte{9}}, &PeerResponse{}, "0068" + "036e6f" + "0209" + "00"},
		{&PeerResponse{Body: []byte{}}, &PeerResponse{}, "0000" + "00" + "01" + "00"},
	} {
		encoded := c.message.AppendTo(nil)
		if got := hex.EncodeToString(encoded); got != c.want {
			t.Errorf("%+v is %s, want %s", c.message, got, c.want)
		}
		if err := c.empty.ReadFrom(encoded); err != nil || !bytes.Equal(c.empty.AppendTo(nil), encoded) {
			t.Errorf("%s is read as %+v, %v", c.want, c.empty, err)
		}
		for n := range encoded {
			if err := c.empty.ReadFrom(encoded[:n]); err == nil {
				t.Errorf("the first %d bytes of %s are taken", n, c.want)
			}
		}
		if err := c.empty.ReadFrom(append(bytes.Clone(encoded[:len(encoded)-1]), 1, 9, 2, 'x', 'y')); err != nil {
			t.Errorf("a tagged field of the future is refused: %v", err)
		}
	}
}

func TestHostilePeerMessagesAreRefused(t *testing.T) {
	for name, body := range map[string]string{
		"tag bomb":               "\x01\x00\x01\xff\xff\xff\xff\x0f",
		"body longer than there": "\x01\x00\xff\xff\xff\xff\x0fx",
		"id longer than there":   "\x01\xff\xff\xff\xff\x0fx",
	} {
		promptly(t, func() {
			if err := new(PeerRequest).ReadFrom([]byte(body)); err == nil {
				t.Errorf("%s: taken as a request", name)
			}
			if err := new(PeerResponse).ReadFrom([]byte("\x00" + body)); err == nil {
				t.Errorf("%s: taken as a response", name)
			}
		})
	}
	long := strings.Repeat("x", maxString+1)
	a := Lookup(PeerKey, PeerListener)
	if err := a.Decode(a.NewRequest(0), (&PeerRequest{ClusterID: &long}).AppendTo(nil)); !errors.Is(err, errLongString) {
		t.Errorf("a cluster id of 32 KiB: %v", err)
	}
}

func TestClientsMayOnlyDiscoverPeers(t *testing.T) {
	clients, peers := Lookup(PeerKey, ClientListener), Lookup(PeerKey, PeerListener)
	if clients.MaxBytes >= peers.MaxBytes {
		t.Errorf("clients may send %d bytes, peers %d", clients.MaxBytes, peers.MaxBytes)
	}
	for kind := PeerKind(-1); kind < 8; kind++ {
		body := (&PeerRequest{Kind: kind}).AppendTo(nil)
		if err := peers.Decode(peers.NewRequest(0), body); err != nil {
			t.Errorf("kind %d on a peer listener: %v", kind, err)
		}
		if err := clients.Decode(clients.NewRequest(0), body); (err == nil) != (kind == PeerDiscover) {
			t.Errorf("kind %d on a client listener: %v", kind, err)
		}
	}
	for _, row := range ApiVersionsResponse(4, 0, nil).ApiKeys {
		if row.ApiKey == PeerKey {
			t.Error("clients are told of the key")
		}
	}
}

// A listener may be for both. A Raft message is no bomb there, and must not wait for the memory of one.
func TestPeersOnSharedListeners(t *testing.T) {
	shared := Lookup(PeerKey, ClientListener|PeerListener)
	if shared != Lookup(PeerKey, PeerListener) {
		t.Error("peers are not served there")
	}
	body := (&PeerRequest{Kind: PeerRaft, Body: make([]byte, 1<<20)}).AppendTo(nil)
	if cost := shared.DecodeCost(0, body); cost < len(body) || cost > 2*len(body) {
		t.Errorf("%d bytes cost %d", len(body), cost)
	}
}

func TestReadResponseHead(t *testing.T) {
	for _, body := range []MessageBody{&PeerResponse{ErrorCode: 7, Body: []byte("x")}, &kmsg.ListOffsetsResponse{Version: 5}, &kmsg.ListOffsetsResponse{Version: 6}} {
		frame := AppendResponse(nil, 99, body)[sizeFieldBytes:]
		id, rest, err := ReadResponseHead(frame, body.IsFlexible())
		if err != nil || id != 99 || !bytes.Equal(rest, body.AppendTo(nil)) {
			t.Errorf("%T: id %d, body %x, %v", body, id, rest, err)
		}
		if _, _, err := ReadResponseHead(frame[:3], body.IsFlexible()); err == nil {
			t.Errorf("%T: three bytes have a correlation id", body)
		}
	}
	if _, _, err := ReadResponseHead([]byte{0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0x0f}, true); err == nil {
		t.Error("a header of four billion tagged fields is taken")
	}
}
