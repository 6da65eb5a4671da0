package broker

import (
	"fmt"
	"net"
	"sync"

	"weir/protocol"
)

// SendfileThreshold is the number of bytes of a run of records from which on it goes from its file to the socket by
// sendfile. Smaller ones are read into one buffer with what stands between them: a system call costs more than copying
// that much. To be set before a server begins.
var SendfileThreshold = 64 << 10

// recordsError is a failure to read what a reply is to carry.
type recordsError struct{ err error }

func (e *recordsError) Error() string { return fmt.Sprintf("read records to send: %v", e.err) }
func (e *recordsError) Unwrap() error { return e.err }

// send writes r's reply; a nil body sends nothing. A PartsBody is released in any case.
func (c *conn) send(r *request, body protocol.Body) error {
	if body == nil {
		return nil
	}
	return c.guard(r, func() error {
		if parts, ok := body.(protocol.PartsBody); ok {
			return c.sendParts(r, parts)
		}
		buf := protocol.NewBuffer(0)
		defer buf.Free()
		buf.B = protocol.AppendResponse(buf.B, r.Header.CorrelationID, body.(protocol.MessageBody))
		return c.write(buf.B)
	})
}

// sendTogether writes replies that are ready as one; see ready.
func (c *conn) sendTogether(replies []parked) error {
	if len(replies) == 1 {
		return c.send(replies[0].r, replies[0].body)
	}
	buf := protocol.NewBuffer(0)
	defer buf.Free()
	for _, p := range replies {
		if p.body == nil {
			continue
		}
		err := c.guard(p.r, func() error {
			buf.B = protocol.AppendResponse(buf.B, p.r.Header.CorrelationID, p.body.(protocol.MessageBody))
			return nil
		})
		if err != nil {
			return err
		}
	}
	return c.write(buf.B)
}

func (c *conn) write(b []byte) error {
	c.server.metrics.bytesOut.Add(int64(len(b)))
	c.out.begin()
	defer c.out.end()
	return c.out.write(b)
}

var partsPool = sync.Pool{New: func() any { return new(protocol.Parts) }}

const maxKeptParts = 64 << 10 // bytes of a response's own that its memory is kept for; a fetch of 1,000 partitions

func putParts(p *protocol.Parts) {
	if cap(p.Bytes) <= maxKeptParts {
		p.Reset()
		partsPool.Put(p)
	}
}

func (c *conn) sendParts(r *request, body protocol.PartsBody) error {
	defer body.Release()
	p := partsPool.Get().(*protocol.Parts)
	defer putParts(p)
	protocol.AppendParts(p, r.Header.CorrelationID, body)
	c.server.metrics.bytesOut.Add(int64(p.Len()))
	c.out.begin()
	defer c.out.end()
	return c.out.writeParts(p)
}

// transport writes to a connection's socket: for the reader or for the writer, never for both at a time.
type transport struct {
	nc       net.Conn
	activity *activity
	sendfile sendfile
}

func (t *transport) begin()    { t.activity.writes.Add(1) }
func (t *transport) progress() { t.activity.writes.Add(2) }
func (t *transport) end()      { t.activity.writes.Add(1) }

// write writes b in pieces, so that the sweeper sees a slow client go on.
func (t *transport) write(b []byte) error {
	for len(b) > 0 {
		n, err := t.nc.Write(b[:min(len(b), stagingBytes)])
		if err != nil {
			return err
		}
		t.progress()
		b = b[n:]
	}
	return nil
}

// writeParts writes p: large runs by sendfile where there is one, all else through a staging buffer.
func (t *transport) writeParts(p *protocol.Parts) error {
	stage := protocol.NewBuffer(min(p.Len(), stagingBytes))
	defer stage.Free()
	from := 0
	for i := range p.Runs {
		run := &p.Runs[i]
		if err := t.stageBytes(stage, p.Bytes[from:run.At]); err != nil {
			return err
		}
		from = run.At
		sent, err := t.sendRun(stage, run.Records)
		if err != nil {
			return err
		}
		if err := t.stageRecords(stage, run.Records, sent); err != nil {
			return err
		}
	}
	if err := t.stageBytes(stage, p.Bytes[from:]); err != nil {
		return err
	}
	return t.flush(stage)
}

// sendRun sends a large run from its file, after what is staged, and returns how many bytes it has sent: none where
// sendfile cannot be used.
func (t *transport) sendRun(stage *protocol.Buffer, records protocol.Records) (int, error) {
	if records.Len() < SendfileThreshold {
		return 0, nil
	}
	file, pos, ok := records.OSFile()
	if !ok || !t.sendfile.usable(t) {
		return 0, nil
	}
	if err := t.sendfile.writeMore(t, stage.B); err != nil {
		return 0, err
	}
	stage.B = stage.B[:0]
	return t.sendfile.send(t, file, pos, records.Len())
}

func (t *transport) stageBytes(stage *protocol.Buffer, b []byte) error {
	for len(b) > 0 {
		n := min(len(b), cap(stage.B)-len(stage.B))
		stage.B = append(stage.B, b[:n]...)
		b = b[n:]
		if len(b) > 0 {
			if err := t.flush(stage); err != nil {
				return err
			}
		}
	}
	return nil
}

// stageRecords reads a run from byte from on into the staging buffer, writing it out whenever it is full.
func (t *transport) stageRecords(stage *protocol.Buffer, records protocol.Records, from int) error {
	for from < records.Len() {
		if len(stage.B) == cap(stage.B) {
			if err := t.flush(stage); err != nil {
				return err
			}
		}
		at := len(stage.B)
		n := min(records.Len()-from, cap(stage.B)-at)
		stage.B = stage.B[:at+n]
		if _, err := records.ReadAt(stage.B[at:], int64(from)); err != nil {
			return &recordsError{err}
		}
		from += n
	}
	return nil
}

func (t *transport) flush(stage *protocol.Buffer) error {
	err := t.write(stage.B)
	stage.B = stage.B[:0]
	return err
}
