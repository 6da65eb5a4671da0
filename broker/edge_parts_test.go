package broker

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/handler"
	"weir/protocol"
)

// fileRecords is a run in a file.
type fileRecords struct {
	f        *os.File
	pos      int64
	n        int
	hideFile bool // as in a file system that is in memory
	released *atomic.Int32
}

func (r fileRecords) Len() int { return r.n }

func (r fileRecords) ReadAt(p []byte, off int64) (int, error) {
	return r.f.ReadAt(p, r.pos+off)
}

func (r fileRecords) OSFile() (*os.File, int64, bool) { return r.f, r.pos, !r.hideFile }

func (r fileRecords) Release() { r.released.Add(1) }

// segmentFile is a file of random bytes.
func segmentFile(t testing.TB, size int) (*os.File, []byte) {
	t.Helper()
	content := make([]byte, size)
	rnd := rand.NewChaCha8([32]byte{1})
	_, _ = rnd.Read(content)
	path := filepath.Join(t.TempDir(), "00000000000000000000.log")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, content
}

// fetchOf answers a fetch with runs of those sizes, one partition each; -1 is a partition without records.
func fetchOf(version int16, f *os.File, hideFile bool, released *atomic.Int32, sizes ...int) *protocol.FetchResponse {
	topic := protocol.FetchTopic{Name: "topic"}
	pos := 0
	for i, n := range sizes {
		p := protocol.NewFetchPartition(int32(i))
		if n >= 0 {
			p.Records = fileRecords{f, int64(pos), n, hideFile, released}
			pos += n
		}
		topic.Partitions = append(topic.Partitions, p)
	}
	return &protocol.FetchResponse{Version: version, Topics: []protocol.FetchTopic{topic}}
}

// checkFetch decodes a reply and compares its records with the file's.
func checkFetch(t *testing.T, version int16, reply []byte, content []byte, sizes []int) {
	t.Helper()
	var resp kmsg.FetchResponse
	resp.Version = version
	body := reply[4:]
	if version >= 12 {
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		t.Fatal(err)
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != len(sizes) {
		t.Fatalf("decoded %d topics", len(resp.Topics))
	}
	pos := 0
	for i, n := range sizes {
		n = max(n, 0)
		if got := resp.Topics[0].Partitions[i].RecordBatches; !bytes.Equal(got, content[pos:pos+n]) {
			t.Errorf("partition %d: %d bytes that are not the file's %d", i, len(got), n)
		}
		pos += n
	}
}

func fetchFrame(version int16, correlationID int32) []byte {
	r := kmsg.NewPtrFetchRequest()
	r.Version = version
	return encodeRequest(r, correlationID)
}

func TestRecordsAreSentFromTheirFiles(t *testing.T) {
	f, content := segmentFile(t, 12<<20)
	many := make([]int, 60)
	for i := range many {
		many[i] = 1000 + 2000*i
	}
	shapes := map[string][]int{
		"none":                   {-1, -1},
		"empty":                  {0},
		"small":                  {200},
		"below the threshold":    {64<<10 - 1},
		"at the threshold":       {64 << 10},
		"large":                  {5 << 20},
		"larger than the buffer": {stagingBytes + 1, 1},
		"mixed":                  {100, 300 << 10, -1, 10, 64 << 10, 5},
		"two large":              {1 << 20, 1 << 20},
		"many":                   many,
	}
	for name, sizes := range shapes {
		t.Run(name, func(t *testing.T) {
			var released, hideFile atomic.Int32
			e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
				return handler.Now(fetchOf(r.Header.Version, f, hideFile.Load() > 0, &released, sizes...))
			})
			c := e.dial()
			for _, version := range []int16{11, 16} {
				for hide := range int32(2) {
					hideFile.Store(hide)
					c.send(fetchFrame(version, 1))
					checkFetch(t, version, c.reply(), content, sizes)
				}
			}
			runs := int32(0)
			for _, n := range sizes {
				if n >= 0 {
					runs++
				}
			}
			eventually(t, "all runs are released", func() bool { return released.Load() == 4*runs })
		})
	}
}

func TestRecordsAreSentOverAnyTransport(t *testing.T) {
	f, content := segmentFile(t, 1<<20)
	sizes := []int{10, 700 << 10, 20}
	var released atomic.Int32
	e := newEdge(t, Limits{}, func(*handler.Request) handler.Reply {
		return handler.Now(fetchOf(12, f, false, &released, sizes...))
	})
	pipes := newPipeListener()
	e.serve(pipes)
	c := pipes.dial(t, "192.0.2.1")
	c.send(fetchFrame(12, 1))
	checkFetch(t, 12, c.reply(), content, sizes)
}

func TestOneFileServesManyAtATime(t *testing.T) {
	f, content := segmentFile(t, 4<<20)
	var released atomic.Int32
	e := startEdge(t, Limits{}, func(r *handler.Request) handler.Reply {
		n := 100<<10 + int(r.Header.CorrelationID)*1000
		return handler.Now(fetchOf(12, f, false, &released, n, n/2, n))
	})
	var wg sync.WaitGroup
	for range 4 {
		c := e.dial()
		wg.Go(func() {
			for id := range int32(20) {
				c.send(fetchFrame(12, id))
				n := 100<<10 + int(id)*1000
				checkFetch(t, 12, c.reply(), content, []int{n, n / 2, n})
			}
		})
	}
	wg.Wait()
}

// errRecords cannot be read.
type errRecords struct{ fileRecords }

func (errRecords) ReadAt([]byte, int64) (int, error) { return 0, errors.New("the disk is gone") }

func TestRecordsThatCannotBeReadCloseTheConnection(t *testing.T) {
	f, _ := segmentFile(t, 100)
	for name, records := range map[string]func(*atomic.Int32) protocol.Records{
		"copied": func(n *atomic.Int32) protocol.Records {
			return errRecords{fileRecords{f: f, n: 100, released: n}}
		},
		"sent from a file that is too short": func(n *atomic.Int32) protocol.Records {
			return fileRecords{f: f, n: 1 << 20, released: n}
		},
	} {
		t.Run(name, func(t *testing.T) {
			var released atomic.Int32
			e := startEdge(t, Limits{}, func(*handler.Request) handler.Reply {
				p := protocol.NewFetchPartition(0)
				p.Records = records(&released)
				return handler.Now(&protocol.FetchResponse{Version: 11, Topics: []protocol.FetchTopic{{Name: "t", Partitions: []protocol.FetchPartition{p}}}})
			})
			c := e.dial()
			c.send(fetchFrame(11, 1))
			if _, err := io.Copy(io.Discard, c); err != nil {
				var reset *net.OpError
				if !errors.As(err, &reset) {
					t.Fatal(err)
				}
			}
			eventually(t, "a log line", func() bool { return strings.Contains(e.log.String(), "level=ERROR") })
			if released.Load() != 1 {
				t.Errorf("released %d times", released.Load())
			}
		})
	}
}

func TestRecordsAreReleasedWhenTheClientLeaves(t *testing.T) {
	f, _ := segmentFile(t, 32<<20)
	var released atomic.Int32
	e := startEdge(t, Limits{}, func(*handler.Request) handler.Reply {
		return handler.Now(fetchOf(11, f, false, &released, 16<<20, 16<<20))
	})
	c := e.dial()
	c.send(fetchFrame(11, 1))
	if _, err := io.ReadFull(c, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	eventually(t, "both are released", func() bool { return released.Load() == 2 })
}
