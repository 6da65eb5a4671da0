package log

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

var logTP = kafka.TopicPartition{Topic: "orders", Partition: 3}

const logDir = "/data/orders-3"

// logStart is what the clock of a test shows first.
var logStart = time.UnixMilli(1_700_000_000_000)

// openTest opens the log in logDir. change may adapt the options.
func openTest(t testing.TB, fsys vfs.FS, change ...func(*Options)) *Log {
	t.Helper()
	l, err := tryOpen(t, fsys, change...)
	must(t, err)
	return l
}

func tryOpen(t testing.TB, fsys vfs.FS, change ...func(*Options)) (*Log, error) {
	o := Options{
		FS: fsys, Clock: clock.NewManual(logStart), Dir: logDir, TP: logTP, TopicID: kafka.TopicID{1}, Config: DefaultConfig(),
		Logger: slog.New(slog.NewTextHandler(testWriter{t}, nil)),
	}
	for _, f := range change {
		f(&o)
	}
	return Open(o)
}

func withConfig(change func(*Config)) func(*Options) {
	return func(o *Options) { change(&o.Config) }
}

// testWriter writes a log to a test's output.
type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(string(bytes.TrimSpace(p)))
	return len(p), nil
}

// batchSpec describes a batch for a test. The zero value is one small record of the test's first moment.
type batchSpec struct {
	records   int   // 0 for 1
	size      int   // of each value, bytes
	timestamp int64 // of the first record, ms; each further one is a millisecond later; 0 for that of logStart
	producer  int64 // 0 for none
	epoch     int16
	sequence  int32
	codec     batch.Codec
	txn       bool
}

func (s batchSpec) build() batch.Validated {
	b := batch.NewBuilder(s.codec, 0)
	if s.producer != 0 {
		b.SetProducer(s.producer, s.epoch, s.sequence)
	}
	if s.txn {
		b.SetTransactional()
	}
	at := s.timestamp
	if at == 0 {
		at = logStart.UnixMilli()
	}
	for i := range max(s.records, 1) {
		b.Append(at+int64(i), fmt.Appendf(nil, "key %d", i), bytes.Repeat([]byte("x"), s.size))
	}
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return batch.Trusted(bytes.Clone(out))
}

func marker(producer int64, epoch int16, t batch.ControlType) batch.Validated {
	return batch.Trusted(batch.ControlBatch(batch.EndTxnMarker{Type: t}, producer, epoch, 0, logStart.UnixMilli()))
}

// appendTest appends a batch in leader epoch 0 and returns its stored bytes.
func appendTest(t testing.TB, l *Log, s batchSpec) []byte {
	t.Helper()
	v := s.build()
	_, err := l.AppendAsLeader(max(l.LatestEpoch(), 0), v)
	must(t, err)
	return v.Bytes
}

// readTest reads everything from an offset up to the log's end.
func readTest(t testing.TB, l *Log, offset int64) []byte {
	t.Helper()
	var all []byte
	for offset < l.EndOffset() {
		r, err := l.Read(ReadRequest{Offset: offset, MaxBytes: 1 << 20, EndOffset: l.EndOffset(), AtLeastOne: true})
		must(t, err)
		if r.Len() == 0 {
			break
		}
		p := make([]byte, r.Len())
		_, err = r.ReadAt(p, 0)
		must(t, err)
		r.Release()
		all = append(all, p...)
		for b, err := range batch.Batches(p) {
			must(t, err)
			h, err := batch.CheckStored(b)
			must(t, err)
			offset = h.NextOffset()
		}
	}
	return all
}

// changeFile changes the content of a file, in place and durably.
func changeFile(t testing.TB, fsys vfs.FS, path string, change func([]byte) []byte) {
	t.Helper()
	content, err := vfs.ReadFile(fsys, path)
	must(t, err)
	content = change(content)
	f, err := fsys.OpenFile(path, os.O_RDWR, 0)
	must(t, err)
	must(t, f.Truncate(int64(len(content))))
	_, err = f.WriteAt(content, 0)
	must(t, err)
	must(t, f.Sync())
	must(t, f.Close())
}

func fileSize(t testing.TB, fsys vfs.FS, path string) int64 {
	t.Helper()
	info, err := fsys.Stat(path)
	must(t, err)
	return info.Size()
}
