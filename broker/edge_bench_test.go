package broker

import (
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/handler"
)

// benchmarkEdge measures round trips of one request at a time over loopback; the client is in the same process and
// allocates nothing.
func benchmarkEdge(b *testing.B, request []byte, handle func(*handler.Request) handler.Reply) {
	s := NewServer(ServerOptions{Handle: handle, Logger: slog.New(slog.DiscardHandler)})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = s.Serve(l, "PLAINTEXT") }()
	b.Cleanup(func() { _ = l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	reply := make([]byte, 32<<20)
	b.ReportAllocs()
	b.SetBytes(int64(len(request)))
	for b.Loop() {
		if _, err := c.Write(request); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, reply[:4]); err != nil {
			b.Fatal(err)
		}
		if _, err := io.ReadFull(c, reply[:binary.BigEndian.Uint32(reply)]); err != nil {
			b.Fatal(err)
		}
	}
}

// produceAnswer is made once, so that the edge's own allocations show.
func produceAnswer() *kmsg.ProduceResponse {
	resp := kmsg.NewPtrProduceResponse()
	resp.Version = 7
	resp.Topics = []kmsg.ProduceResponseTopic{{Topic: "topic", Partitions: make([]kmsg.ProduceResponseTopicPartition, 1)}}
	return resp
}

func BenchmarkProduceRoundTrip(b *testing.B) {
	for name, size := range map[string]int{"200B": 200, "16KiB": 16 << 10, "1MiB": 1 << 20} {
		b.Run(name, func(b *testing.B) {
			resp := produceAnswer()
			benchmarkEdge(b, produceFrame(1, 1, size), func(*handler.Request) handler.Reply { return handler.Now(resp) })
		})
	}
}

func BenchmarkProduceWaitingRoundTrip(b *testing.B) {
	resp := produceAnswer()
	benchmarkEdge(b, produceFrame(1, -1, 200), func(*handler.Request) handler.Reply {
		p := handler.NewPending()
		go p.Complete(resp)
		return handler.Later(p)
	})
}

func BenchmarkFetchRoundTrip(b *testing.B) {
	f, _ := segmentFile(b, 2<<20)
	for _, c := range []struct {
		name string
		size int
		hide bool
	}{{"200B", 200, false}, {"16KiB", 16 << 10, false}, {"64KiB-sendfile", 64 << 10, false}, {"64KiB-copy", 64 << 10, true},
		{"1MiB-sendfile", 1 << 20, false}, {"1MiB-copy", 1 << 20, true}} {
		b.Run(c.name, func(b *testing.B) {
			var released atomic.Int32
			benchmarkEdge(b, fetchFrame(16, 1), func(*handler.Request) handler.Reply {
				return handler.Now(fetchOf(16, f, c.hide, &released, c.size))
			})
		})
	}
}

// A long poll that watches for its peer.
func BenchmarkWatchedRoundTrip(b *testing.B) {
	resp := produceAnswer()
	benchmarkEdge(b, fetchFrame(16, 1), func(r *handler.Request) handler.Reply {
		r.Conn.Closed()
		return handler.Now(resp)
	})
}
