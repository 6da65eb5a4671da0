package golden

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Conn is a connection that sends requests one at a time.
type Conn struct {
	conn          net.Conn
	correlationID int32
}

// answerWithin is generous: a loaded machine is no failure.
const answerWithin = 60 * time.Second

// Dial connects to a broker.
func Dial(address string) (*Conn, error) {
	c, err := net.DialTimeout("tcp", address, 10*time.Second)
	return &Conn{conn: c}, err
}

// Close ends the connection.
func (c *Conn) Close() error { return c.conn.Close() }

// Request sends a request and waits for the answer.
func (c *Conn) Request(r kmsg.Request, version int16) (kmsg.Response, error) {
	if err := c.Send(r, version); err != nil {
		return nil, err
	}
	return c.Receive(r)
}

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("golden"))

// Send sends a request at a version.
func (c *Conn) Send(r kmsg.Request, version int16) error {
	r.SetVersion(version)
	c.correlationID++
	if err := c.conn.SetDeadline(time.Now().Add(answerWithin)); err != nil {
		return err
	}
	_, err := c.conn.Write(formatter.AppendRequest(nil, r, c.correlationID))
	return err
}

// Receive waits for the answer to the request that was sent last.
func (c *Conn) Receive(r kmsg.Request) (kmsg.Response, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return nil, err
	}
	header := 4
	if r.IsFlexible() {
		header++ // no tags
	}
	if len(body) < header || int32(binary.BigEndian.Uint32(body)) != c.correlationID || header == 5 && body[4] != 0 {
		return nil, fmt.Errorf("a header of %x", body[:min(len(body), 5)])
	}
	response := r.ResponseKind()
	response.SetVersion(r.GetVersion())
	if err := response.ReadFrom(body[header:]); err != nil {
		return nil, err
	}
	// What was read has to be all there is.
	if again := response.AppendTo(nil); len(again) != len(body)-header {
		return nil, errors.New("the answer is longer or shorter than what it says")
	}
	return response, nil
}
