package protocol

import (
	"encoding/binary"
	"math"

	"weir/internal/invariant"
)

const responseHeadSize = 4 // the correlation id

// AppendResponse appends a whole response: size, header, body.
func AppendResponse(dst []byte, correlationID int32, body MessageBody) []byte {
	at := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = body.AppendTo(appendResponseHead(dst, correlationID, body))
	putSize(dst[at:], len(dst)-at-sizeFieldBytes)
	return dst
}

// AppendParts appends a whole response to p, which is empty: size, header, body with its runs of records.
func AppendParts(p *Parts, correlationID int32, body PartsBody) {
	p.Bytes = append(p.Bytes, 0, 0, 0, 0)
	p.Bytes = appendResponseHead(p.Bytes, correlationID, body)
	body.AppendParts(p)
	putSize(p.Bytes, p.Len()-sizeFieldBytes)
}

// ReadResponseHead splits a response, without its size, into its correlation id and its body, for a request whose version
// is flexible or not. ApiVersions is no such request: its response has no tagged fields in the header.
func ReadResponseHead(frame []byte, flexible bool) (correlationID int32, body []byte, err error) {
	if len(frame) < responseHeadSize {
		return 0, nil, errShortHeader
	}
	correlationID = int32(binary.BigEndian.Uint32(frame))
	body = frame[responseHeadSize:]
	if flexible {
		body, err = skipTags(body)
	}
	return correlationID, body, err
}

func putSize(dst []byte, n int) {
	if n > math.MaxInt32 { // asked first, since the arguments of Assert cost an allocation
		invariant.Assert(false, "a response of %d bytes has no frame", n)
	}
	binary.BigEndian.PutUint32(dst, uint32(n))
}
