package protocol

import "encoding/binary"

// RequestHeader is what every request begins with: header version 1, or 2 (with tagged fields) where the request's
// version is flexible. Version 0 belongs to ControlledShutdown, which no broker of today serves.
type RequestHeader struct {
	Key, Version  int16
	CorrelationID int32
	ClientID      *string // nil where the client sent null
}

const (
	requestHeadSize      = 2 + 2 + 4           // key, version, correlation id
	minRequestHeaderSize = requestHeadSize + 2 // and a null client id
	errShortHeader       = constError("the header ends early")
	errBadUvarint        = constError("a varint is cut off or too long")
	errShortBody         = constError("it ends early, or a length in it lies")
	errLongString        = constError("a string in it has more than 32767 bytes")
)

// constError is what is wrong with bytes.
type constError string

func (e constError) Error() string { return string(e) }

// ReadFrom decodes the header that frame begins with and returns what follows. A client id that equals the one h has
// already is kept and not allocated anew, as the requests of one connection all have the same. Tagged fields are
// skipped: Kafka defines none.
func (h *RequestHeader) ReadFrom(frame []byte, flexible bool) (body []byte, err error) {
	if len(frame) < minRequestHeaderSize {
		return nil, errShortHeader
	}
	h.Key = int16(binary.BigEndian.Uint16(frame))
	h.Version = int16(binary.BigEndian.Uint16(frame[2:]))
	h.CorrelationID = int32(binary.BigEndian.Uint32(frame[4:]))
	body, err = h.readClientID(frame[requestHeadSize:])
	if err != nil || !flexible {
		return body, err
	}
	return skipTags(body)
}

func (h *RequestHeader) readClientID(src []byte) ([]byte, error) {
	n := int(int16(binary.BigEndian.Uint16(src)))
	src = src[2:]
	if n < 0 { // Kafka takes any negative length for null
		h.ClientID = nil
		return src, nil
	}
	if len(src) < n {
		return nil, errShortHeader
	}
	if h.ClientID == nil || *h.ClientID != string(src[:n]) {
		id := string(src[:n])
		h.ClientID = &id
	}
	return src[n:], nil
}

// skipTags skips tagged fields (KIP-482). Each takes two bytes at least, so a lying count ends with the input.
func skipTags(src []byte) ([]byte, error) {
	count, src, err := uvarint(src)
	for ; err == nil && count > 0; count-- {
		if _, src, err = uvarint(src); err != nil {
			return nil, err
		}
		var size uint32
		if size, src, err = uvarint(src); err != nil {
			return nil, err
		}
		if uint64(size) > uint64(len(src)) {
			return nil, errShortHeader
		}
		src = src[size:]
	}
	return src, err
}

func uvarint(src []byte) (uint32, []byte, error) {
	v, n := binary.Uvarint(src)
	if n <= 0 || n > 5 || v > 1<<32-1 {
		return 0, nil, errBadUvarint
	}
	return uint32(v), src[n:], nil
}

// appendResponseHead appends the response header: version 0, or 1 (with tagged fields, none) where the body is flexible.
// ApiVersions keeps version 0 for ever, since a client that asks cannot know yet what the broker speaks.
func appendResponseHead(dst []byte, correlationID int32, body Body) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlationID))
	if body.IsFlexible() && body.Key() != apiVersionsKey {
		dst = append(dst, 0)
	}
	return dst
}
