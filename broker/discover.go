package broker

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/peer"
	"weir/internal/kafka"
	"weir/protocol"
)

// Discovery is what a node tells anybody of its cluster. It travels as JSON, to which fields may be added.
type Discovery struct {
	ClusterID string         // empty while the node belongs to none
	Node      kafka.BrokerID // that answers; NoBroker while it does not know
	Host      string         // where other nodes reach it
	Port      uint16
}

// PeerAddress is where other nodes reach the one that answered.
func (d Discovery) PeerAddress() string { return net.JoinHostPort(d.Host, strconv.Itoa(int(d.Port))) }

// NotWeirError says that whoever answers at an address is no node of Weir's.
type NotWeirError struct {
	Address string
	Reason  string
}

// Error names the address.
func (e *NotWeirError) Error() string { return fmt.Sprintf("%s is no Weir: %s", e.Address, e.Reason) }

// Code is INVALID_CONFIG: it will be no Weir later either.
func (*NotWeirError) Code() kafka.Code { return kafka.InvalidConfig }

// Discover asks at any address of a node, one for clients too, which cluster it belongs to. dial is nil for TCP.
//
// Errors: *NotWeirError; those of peer.Ask.
func Discover(ctx context.Context, dial peer.Dialer, address string) (d Discovery, err error) {
	body, err := peer.Ask(ctx, dial, address, &protocol.PeerRequest{Kind: protocol.PeerDiscover})
	if err != nil {
		return d, whoIs(ctx, dial, address, err)
	}
	if err := json.Unmarshal(body, &d); err != nil {
		return d, fmt.Errorf("what the node at %s says of its cluster cannot be read: %w", address, err)
	}
	return d, nil
}

// whoIs finds out what is behind an address where Discover failed with err. An end of the connection says nothing: a Weir that
// stops, or has too many clients, ends it as well as a Kafka that does not know the request. So only who answers what every
// broker answers, and then ends the same connection at the request of Weir's, is taken for somebody else.
func whoIs(ctx context.Context, dial peer.Dialer, address string, err error) error {
	var network net.Error
	var coded kafka.Coder
	connection := errors.As(err, new(*peer.ConnectionError))
	switch {
	case ctx.Err() != nil:
		return err
	case connection && (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)):
		if speaksKafka(ctx, dial, address) {
			return &NotWeirError{address, "it speaks Kafka's protocol, and does not know what nodes of Weir ask each other"}
		}
		return err
	case errors.As(err, &network), !connection && errors.As(err, &coded): // the second is a Weir that refuses
		return err
	}
	return &NotWeirError{address, "what it answers is not Kafka's protocol"}
}

// call opens a connection that ends with ctx, or when hangUp is called.
func call(ctx context.Context, dial peer.Dialer, address string) (nc net.Conn, hangUp func(), err error) {
	if dial == nil {
		dial = peer.Dial
	}
	if nc, err = dial(ctx, address); err != nil {
		return nil, nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	return nc, func() { stop(); _ = nc.Close() }, nil
}

// speaksKafka reports whether a connection answers ApiVersions and ends at PeerDiscover.
func speaksKafka(ctx context.Context, dial peer.Dialer, address string) bool {
	nc, hangUp, err := call(ctx, dial, address)
	if err != nil {
		return false
	}
	defer hangUp()
	exchange := func(id int32, r kmsg.Request) error {
		if _, err := nc.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("weir")).AppendRequest(nil, r, id)); err != nil {
			return err
		}
		return skipAnswer(nc, id)
	}
	if exchange(1, kmsg.NewPtrApiVersionsRequest()) != nil {
		return false
	}
	err = exchange(2, &protocol.PeerRequest{Kind: protocol.PeerDiscover})
	return err != nil && ctx.Err() == nil
}

// speaksHTTP reports whether a web server is behind an address that gave no answer: one waits for the end of a line, which a
// request of Kafka's protocol need not have.
func speaksHTTP(ctx context.Context, dial peer.Dialer, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	nc, hangUp, err := call(ctx, dial, address)
	if err != nil {
		return false
	}
	defer hangUp()
	var begin [5]byte
	if _, err := io.WriteString(nc, "GET / HTTP/1.0\r\n\r\n"); err != nil {
		return false
	}
	_, err = io.ReadFull(nc, begin[:])
	return err == nil && string(begin[:]) == "HTTP/"
}

// skipAnswer reads an answer of a few bytes to the request of that id, whatever it says.
func skipAnswer(r io.Reader, id int32) error {
	const limit = 64 << 10
	var head [8]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size, got := int32(binary.BigEndian.Uint32(head[:])), int32(binary.BigEndian.Uint32(head[4:]))
	if size < 4 || size > limit || got != id {
		return fmt.Errorf("an answer of %d bytes to request %d", size, got)
	}
	_, err := io.CopyN(io.Discard, r, int64(size-4))
	return err
}
