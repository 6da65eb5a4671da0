package wire

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// replyWithin is how long a reply may take on a loaded machine. Where a case says that a connection must be closed, it
// must be so within this time, which is far below the times after which an idle or slow connection is closed.
const replyWithin = 10 * time.Second

// clientID is what the suite's connections call themselves.
const clientID = "probe"

// conn is one connection. It is not safe for concurrent use, but one goroutine may send while another reads.
type conn struct {
	net.Conn
	in        *bufio.Reader
	formatter *kmsg.RequestFormatter
	sent      int32 // correlation id of the last request
}

// connect opens a connection; for other goroutines than the test's.
func connect(address string) (*conn, error) {
	nc, err := net.DialTimeout("tcp", address, replyWithin)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: nc, in: bufio.NewReader(nc), formatter: kmsg.NewRequestFormatter(kmsg.FormatterClientID(clientID))}, nil
}

// dial opens a connection that closes at the end of the case.
func dial(t *testing.T, address string) *conn {
	t.Helper()
	c, err := connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// frame encodes the connection's next request, its size included.
func (c *conn) frame(req kmsg.Request) []byte {
	c.sent++
	return c.formatter.AppendRequest(nil, req, c.sent)
}

// send writes bytes as they are.
func (c *conn) send(t *testing.T, b []byte) {
	t.Helper()
	if _, err := c.Write(b); err != nil {
		t.Fatalf("sending %d bytes: %v", len(b), err)
	}
}

// reply reads the next frame, without its size.
func (c *conn) reply(within time.Duration) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(c.in, size[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(size[:]))
	if n < 4 {
		return nil, fmt.Errorf("a reply of %d bytes", n)
	}
	b := make([]byte, n)
	_, err := io.ReadFull(c.in, b)
	return b, err
}

// decode reads the reply to req from a frame and checks that the frame holds that reply and nothing else.
func decode(frame []byte, req kmsg.Request, correlation int32) (kmsg.Response, error) {
	if got := int32(binary.BigEndian.Uint32(frame)); got != correlation {
		return nil, fmt.Errorf("the reply has correlation id %d, want %d", got, correlation)
	}
	body := frame[4:]
	resp := req.ResponseKind()
	if resp.IsFlexible() && resp.Key() != kmsg.ApiVersions.Int16() {
		if len(body) == 0 || body[0] != 0 {
			return nil, fmt.Errorf("the reply's header ends with no tags: % x", body[:min(len(body), 8)])
		}
		body = body[1:]
	}
	name := kmsg.NameForKey(req.Key())
	if err := resp.ReadFrom(body); err != nil {
		return nil, fmt.Errorf("%s v%d: the reply cannot be decoded: %w", name, req.GetVersion(), err)
	}
	if again := resp.AppendTo(nil); !bytes.Equal(again, body) {
		return nil, fmt.Errorf("%s v%d: the reply has %d bytes and its content takes %d", name, req.GetVersion(), len(body), len(again))
	}
	return resp, nil
}

// Request implements kmsg.Requestor: it sends one request and returns its reply.
func (c *conn) Request(_ context.Context, req kmsg.Request) (kmsg.Response, error) {
	if _, err := c.Write(c.frame(req)); err != nil {
		return nil, err
	}
	return c.receive(req, c.sent, replyWithin)
}

// receive reads the reply to a request that was sent before.
func (c *conn) receive(req kmsg.Request, correlation int32, within time.Duration) (kmsg.Response, error) {
	frame, err := c.reply(within)
	if err != nil {
		return nil, fmt.Errorf("waiting for the reply to %s v%d: %w", kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return decode(frame, req, correlation)
}

// requestFor is a request whose reply has type R.
type requestFor[R any] interface {
	RequestWith(context.Context, kmsg.Requestor) (R, error)
}

// ask sends a request and returns its reply.
func ask[R any](t *testing.T, c *conn, req requestFor[R]) R {
	t.Helper()
	resp, err := req.RequestWith(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// at sets a request's version.
func at[R kmsg.Request](version int16, req R) R {
	req.SetVersion(version)
	return req
}

// closed returns nil if the broker closes the connection without another byte.
func (c *conn) closed() error {
	if err := c.SetReadDeadline(time.Now().Add(replyWithin)); err != nil {
		return err
	}
	b, err := c.in.ReadByte()
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return nil
	case errors.Is(err, os.ErrDeadlineExceeded):
		return errors.New("the connection stays open, and silent")
	case err != nil:
		return err
	}
	more, _ := c.in.Peek(c.in.Buffered())
	return fmt.Errorf("there is an answer: % x", append([]byte{b}, more[:min(len(more), 40)]...))
}

// wantClosed checks that the broker closes the connection without another byte.
func (c *conn) wantClosed(t *testing.T) {
	t.Helper()
	if err := c.closed(); err != nil {
		t.Error(err)
	}
}

// wantAlive checks that a connection still answers.
func (c *conn) wantAlive(t *testing.T) {
	t.Helper()
	if resp := ask(t, c, kmsg.NewPtrApiVersionsRequest()); resp.ErrorCode != 0 {
		t.Errorf("ApiVersions: error %d", resp.ErrorCode)
	}
}

// wantCode checks an error code of an answer; nil wants none.
func wantCode(t *testing.T, what string, got int16, want *kerr.Error) {
	t.Helper()
	if want == nil && got != 0 || want != nil && got != want.Code {
		t.Errorf("%s: %v, want %s", what, codeName(got), codeName(codeOf(want)))
	}
}

func codeOf(err *kerr.Error) int16 {
	if err == nil {
		return 0
	}
	return err.Code
}

func codeName(code int16) string {
	if err := kerr.TypedErrorForCode(code); err != nil {
		return fmt.Sprintf("%s (%d)", err.Message, code)
	}
	return "no error"
}
