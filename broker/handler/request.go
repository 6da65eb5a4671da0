package handler

import (
	"net/netip"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/protocol"
)

// Request is one decoded request. It lives until its reply is written: strings and bytes of the body may alias the
// frame, so whatever outlives the request is cloned, and the Request itself is used again after that.
type Request struct {
	Header   protocol.RequestHeader
	Body     kmsg.Request
	Conn     *Conn
	Received time.Time // when the frame was complete
}

// Conn is what a handler may know of the connection that a request came in on. The fields but the software's are fixed.
type Conn struct {
	ID        uint64
	Listener  string // listener name, such as PLAINTEXT
	Remote    netip.AddrPort
	Principal string // "User:ANONYMOUS" without authentication

	// The client's name and version by ApiVersions v3 (KIP-511); written by that handler in the connection's reader.
	SoftwareName, SoftwareVersion string

	// Closed returns a channel that is closed when the connection is, or within seconds after the peer has left. Asking
	// while a request is handled has the socket watched, so a handler asks only when it is about to wait. A peer that has
	// sent its next request already cannot be watched: its end is behind those bytes, and shows when the reply is
	// written.
	Closed func() <-chan struct{}
}
