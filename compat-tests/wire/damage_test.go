package wire

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// damage is what happens to a file while the broker is down.
type damage func(b []byte) []byte

func garbage(n int) []byte {
	random := rand.New(rand.NewPCG(1, uint64(n)))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	return b
}

// spoil applies a damage to a file. remove is not a damage of bytes: a nil result removes the file.
func spoil(t *testing.T, path string, d damage) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if b = d(b); b == nil {
		err = os.Remove(path)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	} else {
		err = os.WriteFile(path, b, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

var (
	removed     damage = func([]byte) []byte { return nil }
	emptied     damage = func([]byte) []byte { return []byte{} }
	overwritten damage = func(b []byte) []byte { return garbage(max(len(b), 100)) }
	halved      damage = func(b []byte) []byte { return b[:len(b)/2] }
	zeroed      damage = func(b []byte) []byte { return make([]byte, max(len(b), 100)) }
)

// ends are the two ways in which a broker ends before its files are damaged.
var ends = []string{"kill", "stop"}

func (s *server) end(t *testing.T, how string) {
	t.Helper()
	if how == "kill" {
		s.Kill()
	} else {
		s.stop(t)
	}
}

// A crash in the middle of a write, or of the machine, leaves the end of the last segment torn, changed or full of zeros.
// The broker starts, keeps every batch before that, and writes on behind them. A broker that does not start, or serves
// what is broken, needs somebody at night.
func TestDamageAtTheEndOfALog(t *testing.T) {
	const batches = 20
	damages := map[string]struct {
		damage damage
		lost   int64 // batches at the end
	}{
		"nothing":               {func(b []byte) []byte { return b }, 0},
		"37 random bytes":       {func(b []byte) []byte { return append(b, garbage(37)...) }, 0},
		"5000 random bytes":     {func(b []byte) []byte { return append(b, garbage(5000)...) }, 0},
		"4 KiB of zeros":        {func(b []byte) []byte { return append(b, make([]byte, 4096)...) }, 0},
		"half of a batch":       {func(b []byte) []byte { return append(b, b[:60]...) }, 0},
		"a batch of old":        {func(b []byte) []byte { return append(b, textBatch("old").bytes()...) }, 0},
		"5 bytes less":          {func(b []byte) []byte { return b[:len(b)-5] }, 1},
		"a header less":         {func(b []byte) []byte { return b[:len(b)-len(fixedBatch(0).bytes())+30] }, 1},
		"a bit of the last one": {func(b []byte) []byte { b[len(b)-3] ^= 0x10; return b }, 1},
		"zeros at the end":      {func(b []byte) []byte { clear(b[len(b)-20:]); return b }, 1},
	}
	for _, how := range ends {
		t.Run(how, func(t *testing.T) {
			s := start(t)
			c := dial(t, s.Address)
			topics := make(map[string]string)
			id := newProducerID(t, c)
			for name := range damages {
				topics[name] = newTopic(t, s.Address, 1).name
				for n := range int32(batches) {
					mustProduce(t, c, topics[name], 0, fixedBatch(n).from(id, 0, n))
				}
			}
			s.end(t, how)
			for name, d := range damages {
				spoil(t, filepath.Join(s.options.DataDir, topics[name]+"-0", "00000000000000000000.log"), d.damage)
			}
			s.restart(t)
			c = dial(t, s.Address)
			for name, d := range damages {
				checkKept(t, c, name, topics[name], batches-d.lost, id)
			}
			s.Kill()
			s.restart(t)
			c = dial(t, s.Address)
			for name, d := range damages {
				checkKept(t, c, name+", at the next start", topics[name], batches-d.lost+1, id)
			}
		})
	}
}

// fixedBatch is a batch of one record, as large as all others.
func fixedBatch(n int32) *batch {
	return newBatch(record{bigTime + int64(n), []byte("k"), fmt.Appendf(nil, "%010d", n)})
}

// checkKept checks that a log has that many batches of fixedBatch, and that its producer goes on behind them.
func checkKept(t *testing.T, c *conn, what, topic string, want int64, producer int64) {
	t.Helper()
	if end := endOffset(t, c, topic); end != want {
		t.Errorf("%s: the log ends at %d, want %d", what, end, want)
		return
	}
	for n, b := range readAll(t, c, topic, 0) {
		if got := b.values(t); b.FirstOffset != int64(n) || !slices.Equal(got, []string{fmt.Sprintf("%010d", n)}) {
			t.Errorf("%s: at offset %d there is %q", what, b.FirstOffset, got)
			return
		}
	}
	if p := produce(t, c, topic, 0, fixedBatch(int32(want)).from(producer, 0, int32(want)).bytes()); p.ErrorCode != 0 || p.BaseOffset != want {
		t.Errorf("%s: the next batch: %s, offset %d", what, codeName(p.ErrorCode), p.BaseOffset)
	}
}

// Everything beside the segments can be made again from them, or is a hint. The broker does that, with a warning, where
// such a file is missing, empty or garbage; it does not wait until somebody deletes it.
func TestDamagedSideFilesAreMadeAgain(t *testing.T) {
	damages := map[string]damage{"removed": removed, "emptied": emptied, "overwritten": overwritten, "halved": halved, "zeroed": zeroed}
	for _, how := range ends {
		t.Run(how, func(t *testing.T) {
			s := start(t)
			logs := make(map[string]*bigLog)
			for _, suffix := range []string{".index", ".timeindex", ".snapshot", "leader-epoch-checkpoint"} {
				for name := range damages {
					logs[suffix+" "+name] = newBigLog(t, s.Address)
				}
			}
			s.end(t, how)
			for name, l := range logs {
				suffix, damage, _ := strings.Cut(name, " ")
				spoilAll(t, filepath.Join(s.options.DataDir, l.topic+"-0"), suffix, damages[damage])
			}
			s.restart(t)
			for name, l := range logs {
				t.Run(name, func(t *testing.T) { l.check(t, s.Address) })
			}
		})
	}
}

// spoilAll damages every file of a directory whose name ends so.
func spoilAll(t *testing.T, dir, suffix string, d damage) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	if len(names) == 0 && suffix != ".snapshot" && suffix != ".index" {
		t.Fatalf("there is no *%s in %s", suffix, dir)
	}
	for _, name := range names {
		spoil(t, name, d)
	}
}

// bigLog is a topic of one partition with several segments.
type bigLog struct {
	topic    string
	producer int64
	epoch    int32 // of the leader that wrote it
}

const (
	bigBatches   = 40
	bigBatchSize = 60 << 10 // a segment has about 17
)

// bigTime is the time before the first batch. It is not long ago, since the broker forgets producers by age.
var bigTime = time.Now().UnixMilli() - 3600_000

func bigBatch(n int32) *batch {
	value := bytes.Repeat([]byte{byte(n)}, bigBatchSize)
	return newBatch(record{bigTime + 10*int64(n), []byte("k"), value})
}

func newBigLog(t *testing.T, address string) *bigLog {
	t.Helper()
	c := dial(t, address)
	l := &bigLog{topic: newTopic(t, address, 1, "segment.bytes", "1048576").name, producer: newProducerID(t, c)}
	l.epoch = metadataOf(t, c, l.topic).Partitions[0].LeaderEpoch
	for n := range int32(bigBatches) {
		mustProduce(t, c, l.topic, 0, bigBatch(n).from(l.producer, 0, n))
	}
	return l
}

// check looks everything up that the side files are for: offsets, times, the producer's last batches, the leader epoch.
func (l *bigLog) check(t *testing.T, address string) {
	c := dial(t, address)
	if end := endOffset(t, c, l.topic); end != bigBatches {
		t.Errorf("the log ends at %d, want %d", end, bigBatches)
		return
	}
	for n := range int64(bigBatches) {
		req := fetchRequest(l.topic, 0, n)
		req.MaxBytes = 1
		p := ask(t, c, req).Topics[0].Partitions[0]
		if got := readBatches(t, p.RecordBatches); p.ErrorCode != 0 || len(got) != 1 || got[0].FirstOffset != n {
			t.Errorf("fetching offset %d: %s, %d batches", n, codeName(p.ErrorCode), len(got))
		}
		if p := listOffset(t, c, l.topic, bigTime+10*n-3); p.ErrorCode != 0 || p.Offset != n || p.Timestamp != bigTime+10*n {
			t.Errorf("looking time %d up: %s, offset %d", bigTime+10*n-3, codeName(p.ErrorCode), p.Offset)
		}
	}
	if p := listOffset(t, c, l.topic, bigTime+10*bigBatches); p.ErrorCode != 0 || p.Offset != -1 {
		t.Errorf("looking a time after the last up: %s, offset %d", codeName(p.ErrorCode), p.Offset)
	}
	wantEpochEnd(t, c, l.topic, 0, l.epoch, -1, nil, l.epoch, bigBatches)
	const last = bigBatches - 1
	runSteps(t, c, l.topic, []step{{l.producer, 0, last, nil, last}, {l.producer, 0, last + 1, nil, last + 1}})
}

// The same of the files that tell about all logs of a directory.
func TestDamagedCheckpointsAreMadeAgain(t *testing.T) {
	damages := map[string]damage{"removed": removed, "emptied": emptied, "overwritten": overwritten}
	for _, how := range ends {
		t.Run(how, func(t *testing.T) {
			s := start(t)
			l := newBigLog(t, s.Address)
			end := int64(bigBatches)
			for _, file := range []string{"recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
				"weir-run.json", "__cluster_metadata-0/leader-epoch-checkpoint", "__cluster_metadata-0/recovery-point-offset-checkpoint",
				"__cluster_metadata-0/00000000000000000000.index", "__cluster_metadata-0/00000000000000000000.timeindex"} {
				for name, d := range damages {
					s.end(t, how)
					spoil(t, filepath.Join(s.options.DataDir, file), d)
					s.restart(t)
					c := dial(t, s.Address)
					if got := endOffset(t, c, l.topic); got != end {
						t.Fatalf("%s %s: the log ends at %d, want %d", file, name, got, end)
					}
					mustProduce(t, c, l.topic, 0, bigBatch(int32(end)).from(l.producer, 0, int32(end)))
					end++
				}
			}
		})
	}
}

// The metadata log tells which topics there are. A torn write at its end costs nothing that was answered.
func TestDamageAtTheEndOfTheMetadataLog(t *testing.T) {
	for _, how := range ends {
		t.Run(how, func(t *testing.T) {
			s := start(t)
			for n := range 5 {
				topic := newTopic(t, s.Address, 1).name
				mustProduce(t, dial(t, s.Address), topic, 0, textBatch("a"))
				s.end(t, how)
				spoil(t, filepath.Join(s.options.DataDir, "__cluster_metadata-0", "00000000000000000000.log"), func(b []byte) []byte {
					return append(b, [][]byte{garbage(37), garbage(500), make([]byte, 4096), b[:50], b[:200]}[n]...)
				})
				s.restart(t)
				if end := endOffset(t, dial(t, s.Address), topic); end != 1 {
					t.Errorf("start %d: the log of the last topic ends at %d", n, end)
				}
			}
			if topics := ask(t, dial(t, s.Address), at(9, kmsg.NewPtrMetadataRequest())).Topics; len(topics) != 5 {
				t.Errorf("there are %d topics", len(topics))
			}
		})
	}
}
