package broker

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/handler"
	"weir/protocol"
)

func TestRequestsReachTheHandlerDecoded(t *testing.T) {
	e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
		m, ok := r.Body.(*kmsg.MetadataRequest)
		if !ok || m.Version != 4 || r.Header.Key != 3 || r.Header.CorrelationID != 5 || *r.Header.ClientID != "probe" {
			t.Errorf("header %+v, body %+v", r.Header, r.Body)
		}
		if c := r.Conn; c.Listener != "PLAINTEXT" || !c.Remote.Addr().IsLoopback() || c.Principal != "User:ANONYMOUS" || c.ID == 0 {
			t.Errorf("connection %+v", c)
		}
		return emptyReply(r)
	})
	c := e.dial()
	c.send(metadataRequest(5))
	c.expect(5)
	if in, out := e.counter("weir_request_bytes_total"), e.counter("weir_response_bytes_total"); in != int64(len(metadataRequest(5)))-4 || out == 0 {
		t.Errorf("%d bytes in and %d out", in, out)
	}
	if n := e.counter("weir_requests_total"); n != 1 {
		t.Errorf("%d requests counted", n)
	}
}

func TestAHeldKeyHoldsWhatIsBehindIt(t *testing.T) {
	release, begun := make(chan struct{}), make(chan int16, 3)
	e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
		begun <- r.Header.Key
		if r.Header.Key == 1 {
			hold(r, release)
		}
		return emptyReply(r)
	})
	c := e.dial()
	c.send(metadataRequest(1), fetchRequestFrame(2), metadataRequest(3))
	c.expect(1)
	for _, want := range []int16{3, 1} {
		if got := <-begun; got != want {
			t.Fatalf("key %d begins, want %d", got, want)
		}
	}
	select {
	case key := <-begun:
		t.Errorf("key %d began behind a fetch that waits", key)
	default:
	}
	close(release)
	c.expect(2, 3)
}

// pendings lets a test complete produces by correlation id.
type pendings struct {
	sync.Mutex
	byID  map[int32]*handler.Pending
	bodys map[int32]protocol.Body
	begun chan int32
}

func newPendings() *pendings {
	return &pendings{byID: make(map[int32]*handler.Pending), bodys: make(map[int32]protocol.Body), begun: make(chan int32, 1000)}
}

func (p *pendings) handle(r *handler.Request) handler.Reply {
	if r.Header.Key != 0 {
		return emptyReply(r)
	}
	if r.Body.(*kmsg.ProduceRequest).Acks == 0 {
		p.begun <- r.Header.CorrelationID
		return handler.Silent()
	}
	p.Lock()
	defer p.Unlock()
	pending := handler.NewPending()
	p.byID[r.Header.CorrelationID] = pending
	p.bodys[r.Header.CorrelationID] = r.Body.ResponseKind().(protocol.Body)
	p.begun <- r.Header.CorrelationID
	return handler.Later(pending)
}

func (p *pendings) complete(id int32) {
	p.Lock()
	defer p.Unlock()
	p.byID[id].Complete(p.bodys[id])
}

func (p *pendings) wait(t *testing.T, ids ...int32) {
	t.Helper()
	for _, want := range ids {
		if got := <-p.begun; got != want {
			t.Fatalf("request %d begins, want %d", got, want)
		}
	}
}

func TestProducesOverlapAndRepliesKeepTheirOrder(t *testing.T) {
	p := newPendings()
	e := startEdge(t, Limits{}, p.handle)
	c := e.dial()
	for id := int32(1); id <= 4; id++ {
		c.send(produceFrame(id, -1, 100))
	}
	p.wait(t, 1, 2, 3, 4) // all have begun, and none is answered
	for _, id := range []int32{4, 2, 3, 1} {
		p.complete(id)
	}
	c.expect(1, 2, 3, 4)
	// The writer has ended; the next reply is written by the reader.
	c.send(produceFrame(5, -1, 100), metadataRequest(6))
	p.wait(t, 5)
	p.complete(5)
	c.expect(5, 6)
}

func TestAnotherKeyWaitsForTheProducesBeforeIt(t *testing.T) {
	p := newPendings()
	e := startEdge(t, Limits{}, p.handle)
	c := e.dial()
	c.send(produceFrame(1, -1, 10), metadataRequest(2), produceFrame(3, -1, 10))
	p.wait(t, 1)
	select {
	case id := <-p.begun:
		t.Errorf("request %d began while a metadata reply was held back", id)
	default:
	}
	p.complete(1)
	c.expect(1, 2)
	p.wait(t, 3)
	p.complete(3)
	c.expect(3)
}

func TestSlotsAreBounded(t *testing.T) {
	for name, limits := range map[string]func(*Limits){
		"by number": func(l *Limits) { l.PipelinedReplies = 3 },
		"by bytes":  func(l *Limits) { l.PipelinedBytes = int64(2*len(produceFrame(1, -1, 60)) - 8) }, // of two frames
	} {
		t.Run(name, func(t *testing.T) {
			l := DefaultLimits(0)
			limits(&l)
			p := newPendings()
			e := startEdge(t, l, p.handle)
			c := e.dial()
			for id := int32(1); id <= 5; id++ {
				c.send(produceFrame(id, -1, 60))
			}
			p.wait(t, 1, 2)
			if name == "by number" {
				p.wait(t, 3)
			}
			eventually(t, "the reader stops", func() bool {
				conn := e.connections()[0]
				return conn.activity.inFlight.Load() > 1 && conn.watch.state.Load() != readerReads
			})
			select {
			case id := <-p.begun:
				t.Errorf("request %d began without a slot", id)
			default:
			}
			for id := int32(1); id <= 5; id++ {
				eventually(t, "the request begins", func() bool {
					p.Lock()
					defer p.Unlock()
					return p.byID[id] != nil
				})
				p.complete(id)
			}
			c.expect(1, 2, 3, 4, 5)
		})
	}
}

func TestAcksNoneIsSilent(t *testing.T) {
	p := newPendings()
	e := startEdge(t, Limits{}, p.handle)
	c := e.dial()
	var want []int32
	for id := range int32(100) {
		acks := int16(id % 2)
		c.send(produceFrame(id, acks, 10))
		p.wait(t, id)
		if acks == 1 {
			want = append(want, id)
		}
	}
	for _, id := range want {
		p.complete(id)
	}
	c.send(metadataRequest(777))
	c.expect(append(want, 777)...)
}

func TestAHandlerMayEndTheConnection(t *testing.T) {
	p := newPendings()
	e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
		if r.Header.CorrelationID == 2 {
			return handler.Close(errors.New("acks=0 failed"))
		}
		return p.handle(r)
	})
	c := e.dial()
	c.send(produceFrame(1, -1, 10), produceFrame(2, 0, 10))
	p.wait(t, 1)
	p.complete(1)
	c.expect(1) // what was asked before is answered
	c.expectClosed()
	eventually(t, "a log line", func() bool { return strings.Contains(e.log.String(), "Produce: acks=0 failed") })
}

func TestAPanicEndsItsConnectionOnly(t *testing.T) {
	e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
		if r.Header.Key == 1 {
			panic("the handler met a broken invariant")
		}
		if r.Header.CorrelationID == 9 {
			return handler.Now(panickingBody{})
		}
		return emptyReply(r)
	})
	other := e.dial()
	other.send(metadataRequest(1))
	other.expect(1)
	for i, frame := range [][]byte{fetchRequestFrame(1), metadataRequest(9)} {
		c := e.dial()
		c.send(frame)
		c.expectClosed()
		if n := e.counter("weir_request_panics_total"); n != int64(i+1) {
			t.Errorf("%d panics counted, want %d", n, i+1)
		}
	}
	log := e.log.String()
	for _, want := range []string{"api=Fetch version=11", "broken invariant", "edge_requests_test.go", "client_id=probe", "cannot be encoded"} {
		if !strings.Contains(log, want) {
			t.Errorf("%q is not in the log:\n%s", want, log)
		}
	}
	other.send(metadataRequest(2))
	other.expect(2)
}

type panickingBody struct{ protocol.MessageBody }

func (panickingBody) Key() int16             { return 3 }
func (panickingBody) IsFlexible() bool       { return false }
func (panickingBody) AppendTo([]byte) []byte { panic("cannot be encoded") }

func TestApiVersionsOfTheFutureIsAnsweredInVersion0(t *testing.T) {
	e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
		if r.Header.Version > 4 {
			t.Errorf("version %d came to the handler", r.Header.Version)
		}
		return handler.Now(protocol.ApiVersionsResponse(r.Header.Version, 1, nil))
	})
	c := e.dial()
	v99, _ := hex.DecodeString("0000001b0012006300000001000570726f6265000670726f626504312e3000")
	c.send(v99)
	if got := hex.EncodeToString(c.reply()); got != "00000001"+"0023"+"00000001"+"001200000004" {
		t.Errorf("v99 is answered %s", got)
	}
	v3, _ := hex.DecodeString("0000001b0012000300000001000570726f6265000670726f626504312e3000")
	c.send(v3)
	if got := c.reply(); hex.EncodeToString(got[:6]) != "000000010000" || got[6] < 2 {
		t.Errorf("v3 is answered % x", got[:7])
	}
	negative, _ := hex.DecodeString("0000000f0012ffff00000002000570726f6265")
	c.send(negative)
	if got := c.reply(); hex.EncodeToString(got[:6]) != "000000020023" {
		t.Errorf("v-1 is answered % x", got)
	}
}

func TestWhatIsNotServedClosesWithALine(t *testing.T) {
	e := startEdge(t, Limits{}, emptyReply)
	for _, c := range []struct {
		key, version int16
		log          string
	}{
		{999, 0, "requests of key 999 are not served here (version 0 was asked)"},
		{-1, 0, "key -1"},
		{32767, 0, "key 32767"},
		{4, 0, "key 4, LeaderAndISR, are"},
		{5, 0, "StopReplica"},
		{6, 0, "UpdateMetadata"},
		{7, 0, "ControlledShutdown"},
		{56, 2, "AlterPartition"},
		{3, 99, "Metadata requests of version 99 are not served, but 0 to 13 are"},
		{3, -1, "Metadata requests of version -1"},
		{0, 2, "Produce requests of version 2 are not served, but 3 to 13 are"},
		{1, 3, "Fetch requests of version 3"},
	} {
		client := e.dial()
		b, _ := hex.DecodeString(fmt.Sprintf("0000000f%04x%04x00000001000570726f6265", uint16(c.key), uint16(c.version)))
		client.send(b)
		client.expectClosed()
		eventually(t, "a log line with "+c.log, func() bool {
			for _, line := range strings.Split(e.log.String(), "\n") {
				if strings.Contains(line, c.log) {
					return strings.Contains(line, "level=WARN") && strings.Contains(line, "client_id=probe") && strings.Contains(line, client.LocalAddr().String())
				}
			}
			return false
		})
	}
	if n := e.counter("weir_unsupported_requests_total"); n != 12 {
		t.Errorf("%d unsupported requests counted, want 12", n)
	}
	c := e.dial()
	c.send(metadataRequest(1))
	c.expect(1)
}
