package peer

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/protocol"
)

var commands = Purpose{Traffic: Commands}

func TestAnswersComeToThoseWhoAsked(t *testing.T) {
	noGoroutineIsLeft(t)
	b := startBroker(t, echo)
	p := newPool(t, Options{}, b.port)
	var senders sync.WaitGroup
	for s := range 8 {
		senders.Go(func() {
			for i := range 200 {
				want := strconv.Itoa(s) + "-" + strconv.Itoa(i)
				expectAnswer(t, send(t, p, 1, Purpose{Commands, s % 3}, []byte(want)), want)
			}
		})
	}
	senders.Wait()
}

func TestRequestsAreWrittenBeforeAnswersCome(t *testing.T) {
	noGoroutineIsLeft(t)
	const n = 50
	b := startBroker(t, func(c *fakeConn) {
		var ids []int32
		for range n {
			id, _, err := c.request()
			if err != nil {
				return
			}
			ids = append(ids, id)
		}
		for _, id := range ids {
			c.answer(id, []byte("x"))
		}
		c.untilClosed()
	})
	p := newPool(t, Options{}, b.port)
	var answers []<-chan result
	for range n {
		answers = append(answers, send(t, p, 1, commands, nil))
	}
	for _, a := range answers {
		expectAnswer(t, a, "x")
	}
}

// What a peer does wrong costs it the connection, and those who wait learn of it; the next request gets a new one.
func TestHostilePeers(t *testing.T) {
	for name, answer := range map[string]func(c *fakeConn, id int32){
		"closes":                 func(*fakeConn, int32) {},
		"resets":                 func(c *fakeConn, _ int32) { _ = c.Conn.(*net.TCPConn).SetLinger(0) },
		"half a size":            func(c *fakeConn, _ int32) { _, _ = c.Write([]byte{0, 0}) },
		"half an answer":         func(c *fakeConn, _ int32) { _, _ = c.Write([]byte{0, 0, 0, 10, 0, 0}) },
		"an empty answer":        func(c *fakeConn, _ int32) { _, _ = c.Write([]byte{0, 0, 0, 0}); c.untilClosed() },
		"a negative size":        func(c *fakeConn, _ int32) { _, _ = c.Write([]byte{0xff, 0xff, 0xff, 0xff}); c.untilClosed() },
		"a size above the limit": func(c *fakeConn, _ int32) { _, _ = c.Write([]byte{0x7f, 0xff, 0xff, 0xff}); c.untilClosed() },
		"another protocol": func(c *fakeConn, _ int32) {
			_, _ = c.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
			c.untilClosed()
		},
		"another id":    func(c *fakeConn, id int32) { c.answer(id+1, nil); c.untilClosed() },
		"an earlier id": func(c *fakeConn, id int32) { c.answer(id-1, nil); c.untilClosed() },
		"a lying header": func(c *fakeConn, id int32) {
			_, _ = c.Write([]byte{0, 0, 0, 9, 0, 0, 0, byte(id), 0xff, 0xff, 0xff, 0xff, 0xf})
			c.untilClosed()
		},
		"an answer and one more": func(c *fakeConn, id int32) { c.answer(id, nil); c.answer(id, nil); c.untilClosed() },
		"a tag that ends nowhere": func(c *fakeConn, id int32) {
			_, _ = c.Write([]byte{0, 0, 0, 6, 0, 0, 0, byte(id), 0x80, 0x80})
			c.untilClosed()
		},
	} {
		t.Run(name, func(t *testing.T) {
			noGoroutineIsLeft(t)
			var mu sync.Mutex
			first := true
			b := startBroker(t, func(c *fakeConn) {
				mu.Lock()
				hostile := first
				first = false
				mu.Unlock()
				if !hostile {
					echo(c)
					return
				}
				if id, _, err := c.request(); err == nil {
					answer(c, id)
				}
			})
			p := newPool(t, Options{}, b.port)
			one := await(t, send(t, p, 1, commands, nil))
			if strings.HasPrefix(name, "an answer and") {
				if one.err != nil {
					t.Fatal(one.err)
				}
			} else {
				var e *ConnectionError
				if !errors.As(one.err, &e) || !e.Sent || e.Code() != kafka.NetworkException || e.Address != b.address() {
					t.Fatalf("%+v", one.err)
				}
			}
			// The connection may still be closing when the next request is sent, which then is lost with it.
			for range 100 {
				if r := await(t, send(t, p, 1, commands, []byte("again"))); r.err == nil {
					return
				}
			}
			t.Fatal("there is no new connection")
		})
	}
}

func TestALyingSizeTakesNoMemory(t *testing.T) {
	noGoroutineIsLeft(t)
	b := startBroker(t, func(c *fakeConn) {
		if _, _, err := c.request(); err == nil {
			_, _ = c.Write([]byte{1, 0, 0, 0, 1, 2, 3}) // 16 MiB, it says
		}
	})
	p := newPool(t, Options{}, b.port)
	var memory []byte
	done := make(chan error, 1)
	if err := p.Send(1, commands, Call{Request: &protocol.PeerRequest{}, Memory: &memory, Done: func(_ []byte, err error) { done <- err }}); err != nil {
		t.Fatal(err)
	}
	if err := await(t, done); err == nil || cap(memory) > firstStepBytes {
		t.Fatalf("%d bytes of memory, %v", cap(memory), err)
	}
}

func TestLentMemoryIsUsedAgain(t *testing.T) {
	noGoroutineIsLeft(t)
	b := startBroker(t, echo)
	p := newPool(t, Options{}, b.port)
	var memory []byte
	var last *byte
	for i, size := range []int{3 << 20, 3 << 20, 1 << 20, 0} {
		want := bytes.Repeat([]byte{byte(i + 1)}, size)
		done := make(chan result, 1)
		err := p.Send(1, commands, Call{Request: &protocol.PeerRequest{Body: want}, Memory: &memory, Done: func(body []byte, err error) { done <- result{body, err} }})
		if err != nil {
			t.Fatal(err)
		}
		r := await(t, done)
		if r.err != nil {
			t.Fatal(r.err)
		}
		if body, err := Answer(r.body); err != nil || !bytes.Equal(body, want) {
			t.Fatalf("%d bytes, %v; want %d", len(body), err, size)
		}
		if at := &memory[:1][0]; i > 0 && at != last {
			t.Errorf("answer %d of %d bytes has memory of its own", i, size)
		}
		last = &memory[:1][0]
	}
}

func TestAnswersAreBounded(t *testing.T) {
	noGoroutineIsLeft(t)
	b := startBroker(t, echo)
	p := newPool(t, Options{}, b.port)
	raft := Purpose{Traffic: Raft}
	big := make([]byte, trafficLimits[Raft].maxResponseBytes)
	if e := expectLost(t, send(t, p, 1, raft, big)); !strings.Contains(e.Error(), "answer of") {
		t.Fatal(e)
	}
	done := make(chan error, 1)
	err := p.Send(1, raft, Call{Request: &protocol.PeerRequest{Body: big}, MaxResponseBytes: len(big) + 100, Done: func(_ []byte, err error) { done <- err }})
	if err != nil {
		t.Fatal(err)
	}
	if err := await(t, done); err != nil {
		t.Fatalf("with a limit of its own: %v", err)
	}
}

func TestQueueIsBounded(t *testing.T) {
	noGoroutineIsLeft(t)
	dialing := func(ctx context.Context, _ string) (net.Conn, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	p := newPool(t, Options{Dial: dialing, Clock: clock.NewManual(time.Unix(0, 0))}, 1)
	l := trafficLimits[Heartbeats]
	var told atomic.Int64
	fill := func(purpose Purpose, size int) int {
		for n := 0; ; n++ {
			err := p.Send(1, purpose, Call{Request: &protocol.PeerRequest{Body: make([]byte, size)}, Done: func([]byte, error) { told.Add(1) }})
			if err != nil {
				if !errors.Is(err, ErrQueueFull) {
					t.Fatal(err)
				}
				return n
			}
		}
	}
	many := fill(Purpose{Heartbeats, 0}, 0)
	large := fill(Purpose{Heartbeats, 1}, l.maxQueuedBytes/2)
	huge := fill(Purpose{Heartbeats, 2}, 3*l.maxQueuedBytes)
	if many != l.maxRequests || large != 1 || huge != 1 {
		t.Errorf("%d small, %d large and %d huge requests are taken", many, large, huge)
	}
	p.Close()
	if n := int(told.Load()); n != many+large+huge {
		t.Errorf("%d of %d are told that nothing comes", n, many+large+huge)
	}
}

func TestUnknownAndRemovedBrokers(t *testing.T) {
	noGoroutineIsLeft(t)
	b := startBroker(t, func(c *fakeConn) { c.untilClosed() })
	p := newPool(t, Options{}, b.port)
	request := Call{Request: &protocol.PeerRequest{}, Done: func([]byte, error) { t.Error("told") }}
	if err := p.Send(2, commands, request); !errors.Is(err, ErrNoAddress) {
		t.Errorf("an unknown broker: %v", err)
	}
	waits := send(t, p, 1, commands, nil)
	p.Remove(1)
	if r := await(t, waits); !errors.Is(r.err, ErrClosed) {
		t.Errorf("what waited when its broker was removed: %v", r.err)
	}
	if err := p.Send(1, commands, request); !errors.Is(err, ErrNoAddress) {
		t.Errorf("a removed broker: %v", err)
	}
	p.Close()
	p.Close()
	if err := p.Send(1, commands, request); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestCloseTellsThoseWhoWait(t *testing.T) {
	noGoroutineIsLeft(t)
	arrived := make(chan struct{})
	b := startBroker(t, func(c *fakeConn) {
		_, _, _ = c.request()
		close(arrived)
		c.untilClosed()
	})
	p := newPool(t, Options{}, b.port)
	waits := send(t, p, 1, commands, nil)
	<-arrived
	p.Close()
	select {
	case r := <-waits:
		if !errors.Is(r.err, ErrClosed) {
			t.Fatal(r.err)
		}
	default:
		t.Fatal("not told when Close returns")
	}
}

func TestAddressChangesAtOnce(t *testing.T) {
	noGoroutineIsLeft(t)
	arrived := make(chan struct{}, 1)
	old := startBroker(t, func(c *fakeConn) {
		_, _, _ = c.request()
		arrived <- struct{}{}
		c.untilClosed()
	})
	next := startBroker(t, echo)
	p := newPool(t, Options{}, old.port)
	waits := send(t, p, 1, commands, nil)
	<-arrived
	p.SetAddress(1, "127.0.0.1", old.port) // the same: nothing happens
	p.SetAddress(1, "127.0.0.1", next.port)
	if e := expectLost(t, waits); !errors.Is(e, errMoved) || !e.Sent {
		t.Fatal(e)
	}
	expectAnswer(t, send(t, p, 1, commands, []byte("here")), "here")
}

func TestRefusedConnections(t *testing.T) {
	noGoroutineIsLeft(t)
	b := startBroker(t, echo)
	b.stop()
	p := newPool(t, Options{}, b.port)
	if e := expectLost(t, send(t, p, 1, commands, nil)); e.Sent || !isRefused(e) {
		t.Fatalf("%+v", e)
	}
}

// The tests below run in a bubble, where time passes when nobody has anything to do.

func TestPausesGrowAndEndWhenTheAddressChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &pipeDialer{dials: make(chan string, 1), fail: errors.New("no way")}
		p := NewPool[int](Options{Dial: d.dial})
		defer p.Close()
		p.SetAddress(1, "a", 1)
		last := time.Now()
		for i := range 12 {
			e := expectLost(t, send(t, p, 1, commands, nil))
			if <-d.dials != "a:1" || e.Sent {
				t.Fatal(e)
			}
			most := backoff(i)
			if took := time.Since(last); took > most || took < most*4/5 {
				t.Errorf("attempt %d after %v, want %v to %v", i, took, most*4/5, most)
			}
			last = time.Now()
		}
		waits := send(t, p, 1, commands, nil)
		synctest.Wait()
		p.SetAddress(1, "b", 2)
		expectLost(t, waits)
		if at := <-d.dials; at != "b:2" || !time.Now().Equal(last) {
			t.Errorf("%s after %v", at, time.Since(last))
		}
	})
}

func TestBackoff(t *testing.T) {
	want := []time.Duration{0, 50, 100, 200, 400, 800, 1000, 1000}
	for failures, ms := range want {
		if got := backoff(failures); got != ms*time.Millisecond {
			t.Errorf("after %d failures %v", failures, got)
		}
	}
	if got := backoff(1 << 30); got != backoffMax {
		t.Errorf("after very many %v", got)
	}
}

func TestOverdueAnswersCloseTheConnection(t *testing.T) {
	for name, serve := range map[string]func(c *fakeConn){
		"silent":       func(c *fakeConn) { c.untilClosed() },
		"reads little": func(c *fakeConn) { _, _ = c.Read(make([]byte, 3)) },
		"half an answer": func(c *fakeConn) {
			_, _, _ = c.request()
			_, _ = c.Write([]byte{0, 0, 0, 9, 0})
			c.untilClosed()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				over := make(chan struct{})
				defer close(over)
				d := &pipeDialer{serve: func(c *fakeConn) {
					serve(c)
					<-over
				}}
				p := NewPool[int](Options{Dial: d.dial})
				defer p.Close()
				p.SetAddress(1, "a", 1)
				start := time.Now()
				first := send(t, p, 1, commands, nil)
				time.Sleep(time.Second)
				second := send(t, p, 1, commands, nil)
				r := <-first
				var e *ConnectionError
				if !errors.As(r.err, &e) || e.Code() != kafka.RequestTimedOut || time.Since(start) != trafficLimits[Commands].timeout {
					t.Fatalf("%v after %v", r.err, time.Since(start))
				}
				if r := <-second; r.err == nil { // it was behind the first, or is tried anew
					t.Fatal("answered")
				}
			})
		})
	}
}

func TestTimeIsCountedFromEachRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		timeout := trafficLimits[Commands].timeout
		d := &pipeDialer{serve: func(c *fakeConn) {
			for {
				id, _, err := c.request()
				if err != nil {
					return
				}
				time.Sleep(timeout * 3 / 4)
				c.answer(id, nil)
			}
		}}
		p := NewPool[int](Options{Dial: d.dial})
		defer p.Close()
		p.SetAddress(1, "a", 1)
		for range 5 {
			if r := <-send(t, p, 1, commands, nil); r.err != nil {
				t.Fatal(r.err)
			}
			time.Sleep(timeout)
		}
		done := make(chan error, 1)
		err := p.Send(1, commands, Call{Request: &protocol.PeerRequest{}, Wait: time.Second, Done: func(_ []byte, err error) { done <- err }})
		if err != nil || <-done != nil {
			t.Fatal(err)
		}
	})
}

func TestConnectingHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool[int](Options{Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}})
		defer p.Close()
		p.SetAddress(1, "a", 1)
		start := time.Now()
		if e := expectLost(t, send(t, p, 1, commands, nil)); e.Code() != kafka.RequestTimedOut || e.Sent || time.Since(start) != connectTimeout {
			t.Fatalf("%v after %v", e, time.Since(start))
		}
	})
}
