package broker

import (
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"weir/broker/handler"
	"weir/protocol"
)

// Many clients send requests of every kind without waiting, handlers answer now, later or never, and some clients leave
// in the middle. Every client must get its replies in the order of its requests, and every file must be let go of.
func TestRandomTraffic(t *testing.T) {
	f, _ := segmentFile(t, 1<<20)
	var runs, released atomic.Int32
	var later sync.WaitGroup
	l := DefaultLimits(0)
	l.InFlightBytes, l.PipelinedReplies = 2<<20, 5
	e := startEdge(t, l, func(r *handler.Request) handler.Reply {
		id := r.Header.CorrelationID
		body := r.Body.ResponseKind().(protocol.Body)
		if r.Header.Key == 1 {
			body = fetchOf(r.Header.Version, f, id%2 == 0, &released, int(id)*7919%(200<<10), 100)
			runs.Add(2)
		}
		switch {
		case r.Header.Key == 0 && id%3 == 0:
			return handler.Silent()
		case id%2 == 0:
			return handler.Now(body)
		}
		p := handler.NewPending()
		later.Go(func() { p.Complete(body) })
		return handler.Later(p)
	})
	var clients sync.WaitGroup
	for seed := range uint64(8) {
		c := e.dial()
		clients.Go(func() { randomClient(c, rand.New(rand.NewPCG(seed, 0)), seed%4 == 3) })
	}
	clients.Wait()
	eventually(t, "the last request is handled", func() bool { return e.counter("weir_connections") == 0 }) // of clients that left, too
	later.Wait()
	eventually(t, "all files are let go of", func() bool { return released.Load() == runs.Load() })
	eventually(t, "all memory is back", func() bool {
		e.frames.mu.Lock()
		defer e.frames.mu.Unlock()
		return e.frames.mu.free == e.frames.total
	})
	if n := e.counter("weir_request_panics_total"); n != 0 {
		t.Errorf("%d requests panicked:\n%s", n, e.log.String())
	}
}

// randomClient sends 200 requests; one that leaves does so after half of their replies.
func randomClient(c *client, rnd *rand.Rand, leaves bool) {
	defer c.Close()
	var want []int32
	var frames [][]byte
	for id := range int32(200) {
		answered := true
		switch rnd.IntN(4) {
		case 0:
			frames = append(frames, metadataRequest(id))
		case 1:
			frames = append(frames, fetchFrame(12, id))
		default:
			frames = append(frames, produceFrame(id, 1, rnd.IntN(100_000)))
			answered = id%3 != 0
		}
		if answered {
			want = append(want, id)
		}
	}
	if leaves {
		want = want[:len(want)/2]
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		for _, frame := range frames {
			if _, err := c.Write(frame); err != nil {
				if !leaves {
					c.t.Errorf("write: %v", err)
				}
				return
			}
		}
	})
	c.expect(want...)
	if leaves {
		_ = c.Close()
	}
	sending.Wait()
}

// FuzzConnection sends any bytes to a server. Whatever they are, nothing may panic, the connection ends when the client
// does, and what is answered are whole frames.
func FuzzConnection(f *testing.F) {
	f.Add(slices.Concat(metadataRequest(1), produceFrame(2, 0, 10), fetchRequestFrame(3)))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte("\x00\x00\x00\x13\x00\x03\x00\x01\x00\x00\x00\x01\x00\x05probe\x7f\xff\xff\xff"))
	s := NewServer(ServerOptions{Handle: emptyReply, Logger: slog.New(slog.DiscardHandler)})
	l := newPipeListener()
	go func() { _ = s.Serve(l, "PLAINTEXT") }()
	f.Fuzz(func(t *testing.T, b []byte) {
		near, far := net.Pipe()
		l.conns <- pipeConn{far, "127.0.0.1"}
		go func() {
			_, _ = near.Write(b)
			_ = near.Close()
		}()
		for {
			var size [4]byte
			if _, err := io.ReadFull(near, size[:]); err != nil {
				break
			}
			if _, err := io.CopyN(io.Discard, near, int64(binary.BigEndian.Uint32(size[:]))); err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrClosedPipe) {
				t.Fatal(err)
			}
		}
		eventually(t, "the connection ends", func() bool { return s.metrics.connections("PLAINTEXT").Value() == 0 })
		if n := s.metrics.panics.Value(); n != 0 {
			t.Fatalf("%d requests panicked", n)
		}
	})
}
