package protocol

import (
	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// PeerKey is the key by which the nodes of one cluster say to each other what Kafka has no request for. It lies far above
// Kafka's keys, stands in no ApiVersions, and is served on peer listeners only; but for PeerDiscover, which is answered
// everywhere.
const PeerKey int16 = 32100

// PeerKind is what a PeerRequest carries. Do not renumber: nodes of different versions talk to each other.
type PeerKind int8

// The kinds, with their bodies.
const (
	PeerRaft     PeerKind = 1 // a list of Raft messages; the answer is empty
	PeerSnapshot PeerKind = 2 // a piece of at most 1 MiB of one large Raft message; the answer is empty
	PeerCommand  PeerKind = 3 // a command for the active controller; the answer is its reply
	PeerFounding PeerKind = 4 // what nodes tell each other before there is a cluster
	PeerDiscover PeerKind = 5 // asks for the cluster's id and a peer address; holds no secret
	PeerJoin     PeerKind = 6 // asks to become a member
)

const (
	maxPeerBytes     = 32 << 20 // of a frame; more than any entry of the metadata log has
	maxDiscoverBytes = 4 << 10  // whoever asks for the cluster's id needs no more
)

const errPeersOnly = constError("only a peer listener takes that kind")

// PeerRequest is version 0 of PeerKey's request: header version 2, then kind, cluster id and body.
type PeerRequest struct {
	Version   int16
	Kind      PeerKind
	ClusterID *string // of the sender; nil where it has none yet
	Body      []byte  // aliases the frame that it was decoded from
}

// PeerResponse is version 0 of PeerKey's response: header version 1, then error and body.
type PeerResponse struct {
	Version      int16
	ErrorCode    int16
	ErrorMessage *string
	Body         []byte // aliases the frame that it was decoded from
}

// Key implements kmsg.Request.
func (*PeerRequest) Key() int16 { return PeerKey }

// MaxVersion implements kmsg.Request.
func (*PeerRequest) MaxVersion() int16 { return 0 }

// SetVersion implements kmsg.Request.
func (r *PeerRequest) SetVersion(version int16) { r.Version = version }

// GetVersion implements kmsg.Request.
func (r *PeerRequest) GetVersion() int16 { return r.Version }

// IsFlexible implements kmsg.Request.
func (*PeerRequest) IsFlexible() bool { return true }

// ResponseKind implements kmsg.Request.
func (r *PeerRequest) ResponseKind() kmsg.Response { return &PeerResponse{Version: r.Version} }

// AppendTo implements kmsg.Request.
func (r *PeerRequest) AppendTo(dst []byte) []byte {
	dst = append(dst, byte(r.Kind))
	dst = kbin.AppendCompactNullableString(dst, r.ClusterID)
	dst = kbin.AppendCompactBytes(dst, r.Body)
	return append(dst, 0)
}

// ReadFrom implements kmsg.Request.
func (r *PeerRequest) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	r.Kind = PeerKind(b.Int8())
	r.ClusterID = b.CompactNullableString()
	r.Body = b.CompactBytes()
	return endPeerMessage(&b)
}

// Key implements kmsg.Response.
func (*PeerResponse) Key() int16 { return PeerKey }

// MaxVersion implements kmsg.Response.
func (*PeerResponse) MaxVersion() int16 { return 0 }

// SetVersion implements kmsg.Response.
func (r *PeerResponse) SetVersion(version int16) { r.Version = version }

// GetVersion implements kmsg.Response.
func (r *PeerResponse) GetVersion() int16 { return r.Version }

// IsFlexible implements kmsg.Response.
func (*PeerResponse) IsFlexible() bool { return true }

// RequestKind implements kmsg.Response.
func (r *PeerResponse) RequestKind() kmsg.Request { return &PeerRequest{Version: r.Version} }

// AppendTo implements kmsg.Response.
func (r *PeerResponse) AppendTo(dst []byte) []byte {
	dst = kbin.AppendInt16(dst, r.ErrorCode)
	dst = kbin.AppendCompactNullableString(dst, r.ErrorMessage)
	dst = kbin.AppendCompactBytes(dst, r.Body)
	return append(dst, 0)
}

// ReadFrom implements kmsg.Response.
func (r *PeerResponse) ReadFrom(src []byte) error {
	b := kbin.Reader{Src: src}
	r.ErrorCode = b.Int16()
	r.ErrorMessage = b.CompactNullableString()
	r.Body = b.CompactBytes()
	return endPeerMessage(&b)
}

// endPeerMessage reads the tagged fields, of which there are none yet.
func endPeerMessage(b *kbin.Reader) error {
	if err := b.Complete(); err != nil {
		return errShortBody
	}
	_, err := skipTags(b.Src)
	return err
}

// peerAPI is the row of PeerKey. On listeners for clients it is another one: any client can send there.
var peerAPI = API{Key: PeerKey, Name: "Peer", MaxBytes: maxPeerBytes, Pipelined: true, Listeners: PeerListener, newRequest: request[PeerRequest]}

var discoverAPI = func() *API {
	a := peerAPI
	a.MaxBytes, a.Pipelined, a.Listeners = maxDiscoverBytes, false, ClientListener
	a.check = func(r kmsg.Request) error {
		if r.(*PeerRequest).Kind != PeerDiscover {
			return errPeersOnly
		}
		return nil
	}
	return &a
}()
