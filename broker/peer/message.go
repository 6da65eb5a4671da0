package peer

import (
	"encoding/binary"
	"errors"
)

var errMessages = errors.New("a list of messages is cut short, or a length in it lies")

// A list of messages is each of them behind its length in bytes, a uvarint.

// AppendMessageSize begins a message of n bytes, which the caller appends next.
func AppendMessageSize(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)) }

// CutMessage takes the first message off a list that is not empty. Both results alias it.
func CutMessage(list []byte) (message, rest []byte, err error) {
	size, n := binary.Uvarint(list)
	if n <= 0 || size > uint64(len(list)-n) {
		return nil, nil, errMessages
	}
	end := n + int(size)
	return list[n:end:end], list[end:], nil
}
