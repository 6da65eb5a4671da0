package log

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

// copyTree copies a directory of the machine into a file system.
func copyTree(t testing.TB, fsys vfs.FS, from, to string) {
	t.Helper()
	must(t, filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := to + strings.TrimPrefix(path, from)
		if e.IsDir() {
			return fsys.MkdirAll(target, 0o755)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return vfs.WriteFileAtomic(fsys, target, content, 0o644, true)
	}))
}

// A data directory of Kafka 4.4 is opened as it is: one whose broker was stopped in good order, and one whose broker was
// killed. The log has four segments, batches of every codec, transactions that were committed, aborted and are still
// open. The answers are Kafka's.
func TestOpenWhatKafkaWrote(t *testing.T) {
	for _, state := range []string{"stopped", "killed"} {
		t.Run(state, func(t *testing.T) {
			fsys := vfs.NewMem()
			copyTree(t, fsys, "testdata/kafka-4.4/"+state, "/data")
			only := func(o *StoreOptions) { o.Dirs = []string{"/data"} }
			s := openStore(t, fsys, only)
			if s.ClusterID() != "L9tsvnClTqWMNB7nt1StGg" || s.DirectoryIDs()["/data"].String() != "vZ9B58NtRCuAjJ_1MSGl4Q" {
				t.Errorf("cluster %s, directories %v", s.ClusterID(), s.DirectoryIDs())
			}
			if epoch, clean := s.CleanShutdown(); clean != (state == "stopped") || clean && epoch != 180 || s.Lossy() {
				t.Errorf("clean %v in epoch %d, lossy %v", clean, epoch, s.Lossy())
			}
			l := s.Log(partition(0))
			if l == nil {
				t.Fatalf("no log: %v", s.Broken())
			}
			if id := l.TopicID().String(); id != "ax_buHLURPmxJn6SgDjchA" {
				t.Errorf("topic id %s", id)
			}
			checkKafkaLog(t, l)
			// It goes on, and is opened again.
			r, err := l.AppendAsLeader(3, batchSpec{producer: 8, sequence: 1}.build())
			must(t, err)
			if r.BaseOffset != 138 {
				t.Errorf("appended at %+v", r)
			}
			must(t, s.Close())
			l = openStore(t, fsys, only).Log(partition(0))
			if l.EndOffset() != 139 || l.LastStableOffset() != 136 {
				t.Errorf("opened again, it ends at %d and is stable up to %d", l.EndOffset(), l.LastStableOffset())
			}
		})
	}
}

func checkKafkaLog(t *testing.T, l *Log) {
	t.Helper()
	answers, err := os.ReadFile("testdata/kafka-4.4/answers.txt")
	must(t, err)
	for line := range strings.Lines(string(answers)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		var question string
		var ts int64
		var want OffsetAndTimestamp
		rest := line
		if after, ok := strings.CutPrefix(line, "after "); ok {
			_, err := fmt.Sscan(after, &ts)
			must(t, err)
			question, rest = "after", line[len("after ")+strings.IndexByte(after, ' '):]
			_, err = fmt.Sscan(rest, &want.Offset, &want.Timestamp, &want.LeaderEpoch)
			must(t, err)
		} else {
			_, err := fmt.Sscan(rest, &question, &want.Offset, &want.Timestamp, &want.LeaderEpoch)
			must(t, err)
		}
		got, found := OffsetAndTimestamp{Timestamp: -1}, true
		switch question {
		case "end":
			got.Offset = l.EndOffset()
		case "stable":
			got.Offset = l.LastStableOffset()
		case "max":
			got, found, err = l.MaxTimestamp()
		case "after":
			got, found, err = l.OffsetForTimestamp(ts, l.HighWatermark())
		default:
			t.Fatalf("question %q", line)
		}
		must(t, err)
		if question == "end" || question == "stable" {
			want.LeaderEpoch = 0
		}
		if !found || got != want {
			t.Errorf("%s: %v, %+v", strings.TrimSpace(line), found, got)
		}
	}
	txns, err := l.AbortedTxns(0, 138)
	must(t, err)
	var aborted []string
	for _, x := range txns {
		aborted = append(aborted, fmt.Sprintf("%d:%d-%d", x.ProducerID, x.FirstOffset, x.LastOffset))
	}
	if got := strings.Join(aborted, " "); got != "5:103-105 6:109-111 6:115-117 5:121-123 6:127-129 6:133-135" {
		t.Errorf("aborted: %s", got)
	}
	var raw []byte
	for _, base := range []int64{0, 45, 90, 102} {
		content, err := os.ReadFile("testdata/kafka-4.4/stopped/orders-0/" + segmentName(base, logSuffix))
		must(t, err)
		raw = append(raw, content...)
	}
	if !bytes.Equal(readTest(t, l, 0), raw) {
		t.Error("what is read is not what Kafka wrote")
	}
	for i := range int64(138) {
		r, err := l.Read(ReadRequest{Offset: i, MaxBytes: 1, EndOffset: 138, AtLeastOne: true})
		must(t, err)
		p := make([]byte, r.Len())
		_, err = r.ReadAt(p, 0)
		must(t, err)
		r.Release()
		if h, err := batch.CheckStored(p); err != nil || h.BaseOffset > i || h.LastOffset() < i {
			t.Errorf("offset %d is read in [%d, %d], %v", i, h.BaseOffset, h.LastOffset(), err)
		}
	}
	r, err := l.AppendAsLeader(max(l.LatestEpoch(), 0), batchSpec{producer: 8}.build())
	must(t, err)
	if !r.Duplicate || r.BaseOffset != 137 {
		t.Errorf("the last producer's batch, sent again: %+v", r)
	}
	if _, err := l.AppendAsLeader(max(l.LatestEpoch(), 0), batchSpec{producer: 7, sequence: 1}.build()); kafka.CodeOf(err) != kafka.InvalidTxnState {
		t.Errorf("a batch outside of the open transaction: %v", err)
	}
}
