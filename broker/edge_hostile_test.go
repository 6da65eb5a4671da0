package broker

import (
	"encoding/hex"
	"io"
	"net"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/handler"
)

func TestOtherProtocolsAreClosedAtOnce(t *testing.T) {
	e := startEdge(t, Limits{}, emptyReply)
	for _, c := range []struct{ sent, log string }{
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", "seems to speak HTTP"},
		{"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + strings.Repeat("\x00", 32), "seems to speak TLS"},
		{"\xff\xff\xff\xff", "a frame of -1 bytes"},
		{"\x7f\xff\xff\xff\x01", "a frame of 2147483647 bytes"},
		{"\x00\x00\x00\x00", "a frame of 0 bytes"},
		{"\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00", "a frame of 7 bytes"},
		{"\x06\x40\x00\x01", "a frame of 104857601 bytes"},
		{"\x00\x10\x00\x01\x00\x03\x00\x04", "Metadata requests may have 1048576"},
		{"\x00\x80\x00\x01\x00\x01\x00\x0b", "Fetch requests may have 8388608"},
	} {
		client := e.dial()
		client.send([]byte(c.sent))
		client.expectClosed()
		eventually(t, "a log line with "+c.log, func() bool { return strings.Contains(e.log.String(), c.log) })
	}
	if n := e.counter("weir_frame_errors_total"); n != 9 {
		t.Errorf("%d bad frames counted, want 9", n)
	}
}

func TestBombsCloseTheirConnection(t *testing.T) {
	e := startEdge(t, Limits{}, emptyReply)
	bombs := map[string]string{
		"array":         "000000130003000100000001000570726f62657fffffff",
		"compact array": "000000180003000900000001000570726f626500ffffffff0f000000",
		"header tags":   "000000160012000300000001000570726f6265ffffffff0f0000",
		"body tags":     "000000190012000300000001000570726f6265000261023" + "1ffffffff0f",
		"header cut":    "0000000a00030001000000010005",
	}
	const rounds = 50
	for name, bomb := range bombs {
		b, err := hex.DecodeString(bomb)
		if err != nil {
			t.Fatal(name, err)
		}
		for range rounds {
			client := e.dial()
			client.send(b)
			client.expectClosed()
			_ = client.Close()
		}
	}
	eventually(t, "they are counted", func() bool { return e.counter("weir_decode_errors_total") == int64(rounds*len(bombs)) })
	if lines := strings.Count(e.log.String(), "cannot be decoded"); lines != logBurst {
		t.Errorf("%d log lines about %d bad requests, want %d", lines, rounds*len(bombs), logBurst)
	}
}

func TestBytesBehindAMessageAreIgnored(t *testing.T) {
	e := startEdge(t, Limits{}, emptyReply)
	c := e.dial()
	frame := append(metadataRequest(1), "xyz"...)
	frame[3] += 3
	c.send(frame, metadataRequest(2))
	c.expect(1, 2)
}

func TestAnnouncedBytesTakeNoMemory(t *testing.T) {
	e := startEdge(t, Limits{}, emptyReply)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 50 {
		e.dial().send([]byte{0x06, 0x40, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0}) // 100 MiB of Produce v7
	}
	eventually(t, "the frames have begun", func() bool {
		begun := 0
		for _, c := range e.connections() {
			if c.activity.received.Load() > 0 {
				begun++
			}
		}
		return begun == 50
	})
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 50*200<<10 {
		t.Errorf("50 frames announced as 100 MiB took %d bytes", grown)
	}
	c := e.dial()
	c.send(metadataRequest(1))
	c.expect(1)
}

func TestFramesWaitForTheirMemory(t *testing.T) {
	l := DefaultLimits(0)
	l.InFlightBytes = 1 << 20
	p := newPendings()
	e := startEdge(t, l, p.handle)
	first, second := e.dial(), e.dial()
	first.send(produceFrame(1, -1, 700<<10))
	p.wait(t, 1)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		second.send(produceFrame(2, -1, 700<<10))
	}()
	eventually(t, "the second frame waits", func() bool { return e.frames.waiters.Load() == 1 })
	third := e.dial()
	third.send(metadataRequest(3), produceFrame(4, -1, 1000)) // small frames pass
	third.expect(3)
	p.wait(t, 4)
	p.complete(1)
	first.expect(1)
	p.wait(t, 2)
	p.complete(2)
	second.expect(2)
	<-sent
	// Larger than all there is: refused, since it could only be waited for.
	first.send([]byte{0, 0x10, 0, 1, 0, 0, 0, 7})
	first.expectClosed()
	p.complete(4)
	third.expect(4)
	eventually(t, "all memory is back", func() bool {
		e.frames.mu.Lock()
		defer e.frames.mu.Unlock()
		return e.frames.mu.free == e.frames.total
	})
}

func TestDecodingIsChargedByWhatItTakes(t *testing.T) {
	l := DefaultLimits(0)
	l.InFlightBytes = 4 << 20
	held, release := make(chan struct{}, 2), make(chan struct{})
	e := startEdge(t, l, func(r *handler.Request) handler.Reply {
		if len(r.Body.(*kmsg.MetadataRequest).Topics) > 0 {
			held <- struct{}{}
			hold(r, release)
		}
		return emptyReply(r)
	})
	r := kmsg.NewPtrMetadataRequest()
	r.Version = 1
	for range 30_000 { // 90 kB, which may decode to as much as there is
		r.Topics = append(r.Topics, kmsg.MetadataRequestTopic{Topic: kmsg.StringPtr("t")})
	}
	first, second := e.dial(), e.dial()
	first.send(encodeRequest(r, 1))
	<-held
	second.send(encodeRequest(r, 2))
	eventually(t, "the second waits", func() bool { return e.decoding.waiters.Load() == 1 })
	close(release)
	first.expect(1)
	second.expect(2)
}

func TestSlowFramesAreClosed(t *testing.T) {
	e := startEdge(t, Limits{}, emptyReply)
	whole := produceFrame(1, 1, 200_000)
	started := func(n int) *client {
		c := e.dial()
		c.send(whole[:n])
		eventually(t, "the frame has begun", func() bool {
			for _, conn := range e.connections() {
				if conn.info.Remote.String() == c.LocalAddr().String() && conn.activity.frame.Load() == 1 {
					return n <= 8 || conn.activity.received.Load() >= int64(n-4)
				}
			}
			return false
		})
		return c
	}
	oneByte, aFew, enough := started(1), started(1000), started(150_000)
	e.passTime(25 * time.Second)
	if n := len(e.connections()); n != 3 {
		t.Fatalf("%d connections are left after 25 s, want 3", n)
	}
	e.passTime(10 * time.Second)
	oneByte.expectClosed()
	aFew.expectClosed()
	e.passTime(60 * time.Second) // 150,000 bytes are enough for 146 s
	enough.send(whole[150_000:])
	enough.expect(1)
	if n := e.counter("weir_connections_too_slow_total"); n != 2 {
		t.Errorf("%d slow connections counted, want 2", n)
	}
	if log := e.log.String(); !strings.Contains(log, "of a frame came in ") {
		t.Errorf("no log line about them:\n%s", log)
	}
}

func TestIdleConnectionsEndInOrder(t *testing.T) {
	l := DefaultLimits(0)
	l.IdleTime = 20 * time.Second
	release := make(chan struct{})
	e := startEdge(t, l, func(r *handler.Request) handler.Reply {
		if r.Header.Key == 1 {
			hold(r, release)
		}
		return emptyReply(r)
	})
	idle, busy, asking := e.dial(), e.dial(), e.dial()
	idle.send(metadataRequest(1))
	idle.expect(1)
	busy.send(fetchRequestFrame(1))
	eventually(t, "the fetch waits", func() bool { return e.counter("weir_requests_total") == 2 })
	for range 3 {
		e.passTime(10 * time.Second)
		asking.send(metadataRequest(1))
		asking.expect(1)
	}
	_ = idle.SetReadDeadline(time.Now().Add(patience))
	if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection ends with %v, want EOF", err)
	}
	close(release)
	busy.expect(1) // in flight for 30 s
	e.passTime(15 * time.Second)
	busy.send(metadataRequest(2))
	busy.expect(2)
}

func TestClientsThatDoNotReadAreClosed(t *testing.T) {
	e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
		resp := kmsg.NewPtrMetadataResponse()
		resp.Version = 4
		resp.Topics = make([]kmsg.MetadataResponseTopic, 600) // of 32 kB: beyond what socket buffers hold
		name := strings.Repeat("n", 32_000)
		for i := range resp.Topics {
			resp.Topics[i].Topic = &name
		}
		return handler.Now(resp)
	})
	c := e.dial()
	_ = c.Conn.(*net.TCPConn).SetReadBuffer(4096)
	c.send(metadataRequest(1))
	eventually(t, "the server writes", func() bool {
		conns := e.connections()
		return len(conns) == 1 && conns[0].activity.writes.Load() > 1
	})
	var last uint64
	eventually(t, "it is stuck", func() bool {
		time.Sleep(50 * time.Millisecond)
		now := e.connections()[0].activity.writes.Load()
		stuck := now == last && now%2 == 1
		last = now
		return stuck
	})
	e.passTime(50 * time.Second)
	if len(e.connections()) != 1 {
		t.Fatal("closed too early")
	}
	e.passTime(15 * time.Second)
	eventually(t, "it is closed", func() bool { return len(e.connections()) == 0 })
	if log := e.log.String(); !strings.Contains(log, errSlowReader.Error()) {
		t.Errorf("no log line about it:\n%s", log)
	}
}
