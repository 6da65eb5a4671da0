package protocol

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// SizeError is a frame whose size no request can have. The connection cannot go on: where the next frame begins is
// unknown.
type SizeError struct {
	Size  int32
	Limit int32
	API   *API    // nil where the size alone is impossible
	First [4]byte // the size's bytes, which say what the peer may be speaking
}

// Error names the size, the limit, and what the peer seems to speak.
func (e *SizeError) Error() string {
	if e.API != nil {
		return fmt.Sprintf("a frame of %d bytes is too large: %s requests may have %d", e.Size, e.API.Name, e.Limit)
	}
	text := fmt.Sprintf("a frame of %d bytes cannot be a request, which has %d to %d", e.Size, minRequestHeaderSize, e.Limit)
	if hint := sniff(e.First); hint != "" {
		text += "; the peer seems to speak " + hint
	}
	return text
}

// sniff tells from the first bytes what is no request.
func sniff(first [4]byte) string {
	if first[0] == 0x16 && first[1] == 3 {
		return "TLS, to a listener without it"
	}
	for _, method := range []string{"GET ", "POST", "PUT ", "HEAD", "DELE", "OPTI", "CONN", "PATC", "TRAC", "PRI "} {
		if strings.EqualFold(string(first[:]), method) {
			return "HTTP, which is not served here"
		}
	}
	if string(first[:]) == "SSH-" {
		return "SSH"
	}
	return ""
}

// UnsupportedError is a key that is not served, or not at that version. There is no answer to it that a client of
// another version could read, so the connection closes.
type UnsupportedError struct {
	Key, Version int16
	API          *API // nil where the key is not served at all
}

// Error names the API and the versions that it is served at.
func (e *UnsupportedError) Error() string {
	if e.API == nil {
		return fmt.Sprintf("requests of key %d%s are not served here (version %d was asked)", e.Key, keyName(e.Key), e.Version)
	}
	return fmt.Sprintf("%s requests of version %d are not served, but %d to %d are", e.API.Name, e.Version, e.API.Min, e.API.Max)
}

// keyName adds the name of a key that Kafka has and the table has not.
func keyName(key int16) string {
	if kmsg.RequestForKey(key) == nil {
		return ""
	}
	return ", " + kmsg.NameForKey(key) + ","
}

// DecodeError is a request whose bytes are not what its version demands: cut short, or with a length that lies.
type DecodeError struct {
	API     *API
	Version int16
	Size    int // of what was decoded, in bytes
	Err     error
}

// Error names the API.
func (e *DecodeError) Error() string {
	return fmt.Sprintf("the %s request (version %d) cannot be decoded: %v", e.API.Name, e.Version, e.Err)
}

// Unwrap returns what was wrong.
func (e *DecodeError) Unwrap() error { return e.Err }
