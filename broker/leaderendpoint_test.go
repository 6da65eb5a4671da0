package broker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/handler"
	"weir/broker/peer"
	"weir/broker/replica"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol"
)

// fetchedRecords are records of an answer that lie in memory.
type fetchedRecords []byte

func (r fetchedRecords) Len() int                                { return len(r) }
func (r fetchedRecords) ReadAt(p []byte, off int64) (int, error) { return copy(p, r[off:]), nil }
func (r fetchedRecords) OSFile() (*os.File, int64, bool)         { return nil, 0, false }
func (r fetchedRecords) Release()                                {}

// fakeLeader is a broker that answers as a test says, and the endpoint of broker 3 that asks it. The leader is broker 7.
type fakeLeader struct {
	endpoint *leaderEndpoint
	t        testing.TB
	asked    chan kmsg.Request
	answer   func(kmsg.Request) protocol.Body // nil ends the connection; called under mu
	mu       sync.Mutex
}

// change changes what answers are made of.
func (l *fakeLeader) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f()
}

func startLeader(t testing.TB, answer func(kmsg.Request) protocol.Body) *fakeLeader {
	t.Helper()
	l := &fakeLeader{t: t, asked: make(chan kmsg.Request, 100), answer: answer}
	server := NewServer(ServerOptions{Handle: func(r *handler.Request) handler.Reply {
		switch req := r.Body.(type) { // the request is used again
		case *kmsg.FetchRequest:
			again := kmsg.NewPtrFetchRequest()
			again.Version = req.Version
			_ = again.ReadFrom(req.AppendTo(nil))
			l.asked <- again
		default:
			l.asked <- req
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if body := l.answer(r.Body); body != nil {
			return handler.Now(body)
		}
		return handler.Close(errors.New("enough"))
	}, Logger: slog.New(slog.DiscardHandler)})
	listener := listenLoopback(t)
	go func() { _ = server.ServePeers(listener, "PEER") }()
	pool := peer.NewPool[kafka.BrokerID](peer.Options{Name: "test"})
	t.Cleanup(func() {
		pool.Close()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = server.Shutdown(ctx)
	})
	pool.SetAddress(7, "127.0.0.1", uint16(listener.Addr().(*net.TCPAddr).Port))
	l.endpoint = newLeaderEndpoint(pool, 3, func() kafka.BrokerEpoch { return 33 })
	return l
}

type fetchResult struct {
	response replica.FetchResponse
	err      error
}

func (l *fakeLeader) fetch(leader kafka.BrokerID, r *replica.FetchRequest) (replica.FetchResponse, error) {
	l.t.Helper()
	c := make(chan fetchResult, 1)
	l.endpoint.Fetch(leader, r, func(response replica.FetchResponse, err error) { c <- fetchResult{response, err} })
	got := soon(l.t, c)
	return got.response, got.err
}

func asks(topic byte, partition int32, offset int64) replica.FetchPartition {
	return replica.FetchPartition{TopicPartition: kafka.TopicPartition{Topic: string('a' + rune(topic)), Partition: partition}, TopicID: kafka.TopicID{topic},
		LeaderEpoch: 5, Offset: offset, LastFetchedEpoch: 4, LogStartOffset: 1, MaxBytes: 1000}
}

// describe writes a request in short.
func describe(req kmsg.Request) string {
	r := req.(*kmsg.FetchRequest)
	s := fmt.Sprintf("v%d %d/%d session %d/%d wait %d bytes %d-%d:", r.Version, r.ReplicaState.ID, r.ReplicaState.Epoch, r.SessionID, r.SessionEpoch, r.MaxWaitMillis, r.MinBytes, r.MaxBytes)
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			s += fmt.Sprintf(" %d-%d@%d(%d,%d,%d,%d)", t.TopicID[0], p.Partition, p.FetchOffset, p.CurrentLeaderEpoch, p.LastFetchedEpoch, p.LogStartOffset, p.PartitionMaxBytes)
		}
	}
	for _, t := range r.ForgottenTopics {
		for _, p := range t.Partitions {
			s += fmt.Sprintf(" -%d-%d", t.TopicID[0], p)
		}
	}
	return s
}

func TestFetchSessionsGoOn(t *testing.T) {
	var next protocol.FetchResponse
	l := startLeader(t, func(kmsg.Request) protocol.Body {
		r := next
		r.Version = peer.FetchVersion
		return &r
	})
	full := &replica.FetchRequest{MaxWaitMs: 500, MinBytes: 1, MaxBytes: 1 << 20, Full: true,
		Partitions: []replica.FetchPartition{asks(1, 0, 10), asks(1, 1, 11), asks(2, 0, 20), asks(1, 2, 12)}, Forgotten: []replica.TopicIDPartition{{TopicID: kafka.TopicID{9}}}}
	some := &replica.FetchRequest{MaxWaitMs: 500, MinBytes: 1, MaxBytes: 1 << 20, Partitions: []replica.FetchPartition{asks(1, 1, 15)},
		Forgotten: []replica.TopicIDPartition{{TopicID: kafka.TopicID{2}}, {TopicID: kafka.TopicID{1}, Partition: 2}, {TopicID: kafka.TopicID{1}}}}
	none := &replica.FetchRequest{MaxWaitMs: 500, MinBytes: 1, MaxBytes: 1 << 20}
	const (
		limits = " wait 500 bytes 1-1048576:"
		all    = " 1-0@10(5,4,1,1000) 1-1@11(5,4,1,1000) 2-0@20(5,4,1,1000) 1-2@12(5,4,1,1000)"
	)
	for i, c := range []struct {
		ask     *replica.FetchRequest
		answer  protocol.FetchResponse
		want    string // empty: nothing is sent
		session bool
		code    kafka.Code
	}{
		{none, protocol.FetchResponse{}, "", false, kafka.InvalidFetchSessionEpoch},
		{full, protocol.FetchResponse{SessionID: 5}, "v17 3/33 session 0/0" + limits + all, true, 0},
		{some, protocol.FetchResponse{SessionID: 5}, "v17 3/33 session 5/1" + limits + " 1-1@15(5,4,1,1000) -2-0 -1-2 -1-0", true, 0},
		{none, protocol.FetchResponse{SessionID: 5}, "v17 3/33 session 5/2" + limits, true, 0},
		{none, protocol.FetchResponse{ErrorCode: int16(kafka.FetchSessionIDNotFound)}, "v17 3/33 session 5/3" + limits, false, kafka.FetchSessionIDNotFound},
		{none, protocol.FetchResponse{}, "", false, kafka.InvalidFetchSessionEpoch},
		{full, protocol.FetchResponse{SessionID: 6}, "v17 3/33 session 5/0" + limits + all, true, 0},
		{full, protocol.FetchResponse{}, "v17 3/33 session 6/0" + limits + all, false, 0},
		{full, protocol.FetchResponse{SessionID: 8}, "v17 3/33 session 0/0" + limits + all, true, 0},
		{none, protocol.FetchResponse{}, "v17 3/33 session 8/1" + limits, false, 0},
		{none, protocol.FetchResponse{}, "", false, kafka.InvalidFetchSessionEpoch},
	} {
		l.change(func() { next = c.answer })
		got, err := l.fetch(7, c.ask)
		if got.Session != c.session || kafka.CodeOf(err) != c.code {
			t.Fatalf("step %d: %+v, %v", i, got, err)
		}
		sent := ""
		if len(l.asked) > 0 {
			sent = describe(<-l.asked)
		}
		if sent != c.want {
			t.Fatalf("step %d: sent %q\nwant %q", i, sent, c.want)
		}
	}
}

func TestFetchersHaveSessionsOfTheirOwn(t *testing.T) {
	l := startLeader(t, func(req kmsg.Request) protocol.Body {
		return &protocol.FetchResponse{Version: peer.FetchVersion, SessionID: 100 + int32(req.(*kmsg.FetchRequest).Topics[0].TopicID[0])}
	})
	for fetcher := range 3 {
		if _, err := l.fetch(7, &replica.FetchRequest{Fetcher: fetcher, Full: true, Partitions: []replica.FetchPartition{asks(byte(fetcher), 0, 0)}}); err != nil {
			t.Fatal(err)
		}
		<-l.asked
	}
	for fetcher := range 3 {
		if _, err := l.fetch(7, &replica.FetchRequest{Fetcher: fetcher, Partitions: []replica.FetchPartition{asks(1, 0, 0)}}); err != nil {
			t.Fatal(err)
		}
		if r := (<-l.asked).(*kmsg.FetchRequest); r.SessionID != 100+int32(fetcher) || r.SessionEpoch != 1 {
			t.Errorf("fetcher %d: session %d/%d", fetcher, r.SessionID, r.SessionEpoch)
		}
	}
}

func TestFetchedPartitions(t *testing.T) {
	size := 0
	l := startLeader(t, func(kmsg.Request) protocol.Body {
		rows := []protocol.FetchPartition{protocol.NewFetchPartition(0), protocol.NewFetchPartition(1), protocol.NewFetchPartition(2)}
		rows[0].HighWatermark, rows[0].LogStartOffset, rows[0].Records = 8, 2, fetchedRecords(bytes.Repeat([]byte{'r'}, size))
		rows[1].DivergingEpoch = &protocol.EpochEndOffset{Epoch: 3, EndOffset: 44}
		rows[2].ErrorCode = int16(kafka.OffsetOutOfRange)
		return &protocol.FetchResponse{Version: peer.FetchVersion, SessionID: 1, Topics: []protocol.FetchTopic{{ID: kafka.TopicID{1}, Partitions: rows}}}
	})
	var at *byte
	for i, n := range []int{12 << 20, 5 << 20, 12 << 20} {
		l.change(func() { size = n })
		got, err := l.fetch(7, &replica.FetchRequest{Full: true, MaxBytes: 16 << 20})
		if err != nil || len(got.Partitions) != 3 {
			t.Fatalf("%d partitions, %v", len(got.Partitions), err)
		}
		p := got.Partitions[0]
		if p.TopicIDPartition != (replica.TopicIDPartition{TopicID: kafka.TopicID{1}}) || p.Code != 0 || p.HighWatermark != 8 || p.LogStartOffset != 2 || p.Diverging != nil || len(p.Records) != n || p.Records[n-1] != 'r' {
			t.Errorf("partition 0: %d bytes, %v, offsets %d and %d", len(p.Records), p.Code, p.HighWatermark, p.LogStartOffset)
		}
		if i > 0 && &p.Records[0] != at {
			t.Error("an answer has memory of its own")
		}
		at = &p.Records[0]
		if p := got.Partitions[1]; p.Partition != 1 || p.Diverging == nil || *p.Diverging != (replica.EpochEnd{Epoch: 3, End: 44}) || p.Records != nil {
			t.Errorf("partition 1: %+v", p)
		}
		if p := got.Partitions[2]; p.Partition != 2 || p.Code != kafka.OffsetOutOfRange {
			t.Errorf("partition 2: %+v", p)
		}
	}
}

func TestFetchesThatFailBeginAnew(t *testing.T) {
	var answer protocol.Body = &protocol.FetchResponse{Version: peer.FetchVersion, SessionID: 4}
	l := startLeader(t, func(kmsg.Request) protocol.Body { return answer })
	full, none := &replica.FetchRequest{Full: true}, &replica.FetchRequest{}
	for name, fails := range map[string]protocol.Body{"closed": nil, "nonsense": &protocol.PeerResponse{Body: []byte("x")}} {
		l.change(func() { answer = &protocol.FetchResponse{Version: peer.FetchVersion, SessionID: 4} })
		if _, err := l.fetch(7, full); err != nil {
			t.Fatal(err)
		}
		l.change(func() { answer = fails })
		if got, err := l.fetch(7, none); err == nil || got.Session {
			t.Errorf("%s: %+v", name, got)
		}
		if _, err := l.fetch(7, none); kafka.CodeOf(err) != kafka.InvalidFetchSessionEpoch {
			t.Errorf("%s: the session goes on: %v", name, err)
		}
	}
	if _, err := l.fetch(8, full); err == nil {
		t.Error("an unknown broker answers")
	}
}

func TestOffsetsOfALeader(t *testing.T) {
	row := kmsg.NewListOffsetsResponseTopicPartition()
	row.Partition = 2
	topic, code, cut := "b", kafka.None, false
	l := startLeader(t, func(req kmsg.Request) protocol.Body {
		r := req.(*kmsg.ListOffsetsRequest)
		asked := r.Topics[0].Partitions[0]
		if r.ReplicaID != 3 || r.IsolationLevel != 0 || r.Topics[0].Topic != "b" || asked.Partition != 2 || asked.CurrentLeaderEpoch != 5 {
			t.Errorf("asked %+v", r)
		}
		row.ErrorCode, row.Offset = int16(code), map[int64]int64{-2: 100, -1: 200}[asked.Timestamp]
		if cut {
			return &protocol.PeerResponse{}
		}
		return &kmsg.ListOffsetsResponse{Version: r.Version, Topics: []kmsg.ListOffsetsResponseTopic{{Topic: topic, Partitions: []kmsg.ListOffsetsResponseTopicPartition{row}}}}
	})
	offsets := func(leader kafka.BrokerID) (start, end int64, err error) {
		done := make(chan struct{})
		l.endpoint.Offsets(leader, asks(1, 2, 0), func(s, e int64, failed error) {
			start, end, err = s, e, failed
			close(done)
		})
		soon(t, done)
		return start, end, err
	}
	if start, end, err := offsets(7); start != 100 || end != 200 || err != nil {
		t.Errorf("%d to %d, %v", start, end, err)
	}
	l.change(func() { code = kafka.FencedLeaderEpoch })
	if _, _, err := offsets(7); kafka.CodeOf(err) != kafka.FencedLeaderEpoch {
		t.Error(err)
	}
	l.change(func() { code, topic = kafka.None, "other" })
	if _, _, err := offsets(7); err == nil {
		t.Error("an answer about another topic is taken")
	}
	l.change(func() { topic, cut = "b", true })
	if _, _, err := offsets(7); err == nil {
		t.Error("an answer that is cut short is taken")
	}
	if _, _, err := offsets(8); err == nil {
		t.Error("an unknown broker answers")
	}
}

func TestLeaderEndpointAtARealBroker(t *testing.T) {
	r := start(t, vfs.NewMem(), load(t, "127.0.0.1:0", "/data"))
	c := r.dial()
	id := c.createTopic("orders")
	for range 3 {
		if row := c.produce("orders", "v"); row.ErrorCode != 0 {
			t.Fatal(kafka.Code(row.ErrorCode))
		}
	}
	_, port, _ := net.SplitHostPort(r.Bound()["PLAINTEXT"])
	pool := peer.NewPool[kafka.BrokerID](peer.Options{})
	t.Cleanup(pool.Close)
	var n uint16
	_, _ = fmt.Sscan(port, &n)
	pool.SetAddress(1, "127.0.0.1", n)
	e := newLeaderEndpoint(pool, 2, func() kafka.BrokerEpoch { return 9 })
	p := replica.FetchPartition{TopicPartition: kafka.TopicPartition{Topic: "orders"}, TopicID: id, LeaderEpoch: 0, LastFetchedEpoch: kafka.NoLeaderEpoch, MaxBytes: 1 << 20}
	offsets := make(chan string, 1)
	e.Offsets(1, p, func(start, end int64, err error) { offsets <- fmt.Sprint(start, " ", end, " ", err) })
	if got := soon(t, offsets); got != "0 3 <nil>" {
		t.Errorf("offsets %s", got)
	}
	fetched := make(chan fetchResult, 1)
	e.Fetch(1, &replica.FetchRequest{MaxBytes: 1 << 20, MinBytes: 1, Full: true, Partitions: []replica.FetchPartition{p}}, func(response replica.FetchResponse, err error) {
		fetched <- fetchResult{response, err}
	})
	got := soon(t, fetched)
	if got.err != nil || !got.response.Session || len(got.response.Partitions) != 1 || got.response.Partitions[0].TopicID != id {
		t.Fatalf("%+v", got)
	}
	if code := got.response.Partitions[0].Code; code != kafka.UnknownLeaderEpoch { // broker 2 is no replica of it
		t.Errorf("a broker that is no replica is answered %v", code)
	}
}

func TestFetchMemoryIsLetGoOf(t *testing.T) {
	var m fetchMemory
	lend := func(n int) int {
		b := m.lend()
		if cap(*b) < n {
			*b = make([]byte, n)
		}
		m.used(n)
		return cap(m.bytes)
	}
	if got := lend(8 << 20); got != 8<<20 {
		t.Fatal(got)
	}
	for range keptFetches - 1 {
		lend(100)
	}
	lend(4 << 20) // in time
	for i := range keptFetches {
		if got := lend(100); got != 8<<20 {
			t.Fatalf("%d bytes after %d small answers", got, i+1)
		}
	}
	if got := lend(100); got > 100 {
		t.Errorf("%d bytes are kept", got)
	}
}

// BenchmarkFetch fetches 1 MiB from a server on loopback, as a follower does.
func BenchmarkFetch(b *testing.B) {
	records := fetchedRecords(make([]byte, 1<<20))
	l := startLeader(b, func(kmsg.Request) protocol.Body {
		row := protocol.NewFetchPartition(0)
		row.Records = records
		return &protocol.FetchResponse{Version: peer.FetchVersion, SessionID: 1, Topics: []protocol.FetchTopic{{ID: kafka.TopicID{1}, Partitions: []protocol.FetchPartition{row}}}}
	})
	full, more := &replica.FetchRequest{Full: true}, &replica.FetchRequest{Partitions: []replica.FetchPartition{asks(1, 0, 1)}}
	done := make(chan error, 1)
	fetch := func(r *replica.FetchRequest) {
		l.endpoint.Fetch(7, r, func(_ replica.FetchResponse, err error) { done <- err })
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		<-l.asked
	}
	fetch(full)
	b.SetBytes(1 << 20)
	b.ReportAllocs()
	for b.Loop() {
		fetch(more)
	}
}
