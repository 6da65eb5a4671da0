package peer

import (
	"context"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
	"weir/protocol"
)

const maxAskedBytes = 1 << 20 // of an answer; what nodes tell each other before they know each other is small

// Ask sends one request to an address over a connection of its own, for those who belong to no cluster yet, and returns
// the answer. It returns when ctx ends.
//
// Errors: *ConnectionError; what the other node answered, with its code.
func Ask(ctx context.Context, dial Dialer, address string, r *protocol.PeerRequest) ([]byte, error) {
	body, err := ask(ctx, dial, address, r)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, &ConnectionError{Address: address, Err: err}
	}
	return Answer(body)
}

func ask(ctx context.Context, dial Dialer, address string, r *protocol.PeerRequest) ([]byte, error) {
	if dial == nil {
		dial = Dial
	}
	nc, err := dial(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = nc.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	return exchange(nc, r)
}

func exchange(nc net.Conn, r *protocol.PeerRequest) ([]byte, error) {
	const id = 1
	request := kmsg.NewRequestFormatter(kmsg.FormatterClientID("weir")).AppendRequest(nil, r, id)
	if _, err := nc.Write(request); err != nil {
		return nil, err
	}
	var memory []byte
	frame, err := readFrame(nc, &memory, maxAskedBytes)
	if err != nil {
		return nil, err
	}
	got, body, err := protocol.ReadResponseHead(frame, true)
	if err == nil && got != id {
		err = &orderError{got: got, want: id}
	}
	return body, err
}

// Answer reads the answer to a protocol.PeerRequest: its body, or the error that it carries. The body aliases the answer.
func Answer(body []byte) ([]byte, error) {
	var r protocol.PeerResponse
	if err := r.ReadFrom(body); err != nil {
		return nil, err
	}
	switch {
	case r.ErrorCode == 0:
		return r.Body, nil
	case r.ErrorMessage == nil:
		return nil, kafka.Errorf(kafka.Code(r.ErrorCode), "")
	}
	return nil, kafka.Errorf(kafka.Code(r.ErrorCode), "%s", *r.ErrorMessage)
}

// Refusal is the answer that carries an error.
func Refusal(err error) *protocol.PeerResponse {
	text := kafka.Text(err.Error())
	return &protocol.PeerResponse{ErrorCode: int16(kafka.CodeOf(err)), ErrorMessage: &text}
}
