package protocol

import (
	"encoding/binary"
	"math"

	"weir/internal/invariant"
)

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

func putSize(dst []byte, n int) {
	if n > math.MaxInt32 { // asked first, since the arguments of Assert cost an allocation
		invariant.Assert(false, "a response of %d bytes has no frame", n)
	}
	binary.BigEndian.PutUint32(dst, uint32(n))
}
