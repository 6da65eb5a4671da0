package java

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/compat-tests/harness"
)

// Kafka's own log inspector reads every file that the broker leaves behind, after a clean stop and after a crash, and
// finds what was acknowledged.
func TestDumpLogReadsTheDataDirectory(t *testing.T) {
	kafka := newTools(t)
	for name, stop := range map[string]func(*testing.T, *harness.Broker){
		"clean stop": func(t *testing.T, b *harness.Broker) { b.Stop(t) },
		"crash": func(t *testing.T, b *harness.Broker) {
			b.Kill()
			b.Restart(t) // which mends what the crash left
			b.Stop(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			broker := harness.Start(t)
			topics := mixedLoad(t, broker)
			stop(t, broker)
			checkLogs(t, kafka, broker.DataDir(), topics)
			checkSideFiles(t, kafka, broker.DataDir(), topics)
			checkMetadataLog(t, kafka, broker.DataDir())
		})
	}
}

// recordsPerTopic fill a few segments of 1 MiB in each of two partitions; only the last topic has one record in each.
const recordsPerTopic = 10000

// mixedLoad writes with every codec, idempotently and not, into small segments, and returns the topics.
func mixedLoad(t *testing.T, broker *harness.Broker) (topics []string) {
	t.Helper()
	ctx := harness.Context(t)
	for i, codec := range []kgo.CompressionCodec{
		kgo.NoCompression(), kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression(),
	} {
		topic := broker.Topic(t, 2, "segment.bytes", "1048576", "index.interval.bytes", "1024")
		opts := []kgo.Opt{
			kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(32 << 10),
			kgo.RecordPartitioner(kgo.RoundRobinPartitioner()),
		}
		if i%2 == 1 {
			opts = append(opts, kgo.DisableIdempotentWrite())
		}
		client := broker.Client(t, opts...)
		var failed error
		for n := range recordsPerTopic {
			r := &kgo.Record{Key: fmt.Append(nil, n), Value: payload(n), Headers: []kgo.RecordHeader{{Key: "n", Value: fmt.Append(nil, n)}, {Key: "null"}}}
			client.Produce(context.WithoutCancel(ctx), r, func(_ *kgo.Record, err error) { failed = errors.Join(failed, err) })
		}
		if err := client.Flush(ctx); err != nil || failed != nil {
			t.Fatalf("producing: %v, %v", err, failed)
		}
		topics = append(topics, topic)
	}
	// Last, a record in each partition of a topic: too few for an index to have an entry.
	topic := broker.Topic(t, 2)
	client := broker.Client(t, kgo.DefaultProduceTopic(topic), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for partition := range int32(2) {
		if err := client.ProduceSync(ctx, &kgo.Record{Partition: partition, Value: []byte("x")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	return append(topics, topic)
}

// payload does not compress to nothing, so that every codec fills several segments.
func payload(n int) []byte {
	b := make([]byte, 0, 400)
	for x := uint64(n) + 1; len(b) < 384; {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b = strconv.AppendUint(b, x, 36)
	}
	return b
}

var (
	batchLine  = regexp.MustCompile(`^baseOffset: (\d+) lastOffset: (\d+) count: (\d+) .* isvalid: (\w+)$`)
	recordLine = regexp.MustCompile(`^\| offset: (\d+) `)
)

// dump runs the inspector over many files at once, a virtual machine being slow to start, and returns what it says of
// each.
func dump(t *testing.T, kafka tools, files []string, args ...string) map[string][]string {
	t.Helper()
	out := kafka.must(t, "", "DumpLogSegments", append(args, "--files", strings.Join(files, ","))...)
	said := make(map[string][]string)
	file := ""
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "Dumping "); ok {
			file = name
			said[file] = nil
			continue
		}
		said[file] = append(said[file], line)
	}
	for _, name := range files {
		if _, ok := said[name]; !ok {
			t.Fatalf("the inspector says nothing of %s: %.2000s", name, out)
		}
	}
	return said
}

// checkLogs has every batch of every segment read: valid, without a gap, and as many records as were acknowledged.
func checkLogs(t *testing.T, kafka tools, dataDir string, topics []string) {
	t.Helper()
	said := dump(t, kafka, partitionFiles(t, dataDir, topics, "*.log"), "--deep-iteration")
	for i, topic := range topics {
		segments, records := 0, 0
		for partition := range 2 {
			next := 0
			for _, file := range glob(t, partitionDir(dataDir, topic, partition), "*.log") {
				segments++
				next = checkSegment(t, file, said[file], next)
			}
			records += next
		}
		wantRecords, wantSegments := recordsPerTopic, 4
		if i == len(topics)-1 {
			wantRecords, wantSegments = 2, 2
		}
		if records != wantRecords || segments < wantSegments {
			t.Errorf("topic %s: %d records in %d segments, want %d in at least %d", topic, records, segments, wantRecords, wantSegments)
		}
	}
}

// checkSegment follows one segment from offset next on and returns the offset after it.
func checkSegment(t *testing.T, file string, lines []string, next int) int {
	t.Helper()
	record := next
	for _, line := range lines {
		if m := batchLine.FindStringSubmatch(line); m != nil {
			base, last, count := number(t, m[1]), number(t, m[2]), number(t, m[3])
			if base != next || record != next || count != last-base+1 || m[4] != "true" {
				t.Fatalf("%s: after offset %d and %d records comes: %s", file, next, record, line)
			}
			next = last + 1
		} else if m := recordLine.FindStringSubmatch(line); m != nil {
			if number(t, m[1]) != record {
				t.Fatalf("%s: record %d is expected: %s", file, record, line)
			}
			record++
		}
	}
	if record != next {
		t.Fatalf("%s: batches up to offset %d hold records up to %d", file, next, record)
	}
	return next
}

// checkSideFiles has the inspector compare the indexes with the log, and read the snapshots of producers.
func checkSideFiles(t *testing.T, kafka tools, dataDir string, topics []string) {
	t.Helper()
	indexes := append(partitionFiles(t, dataDir, topics, "*.index"), partitionFiles(t, dataDir, topics, "*.timeindex")...)
	for check, praise := range map[string]string{"--verify-index-only": "", "--index-sanity-check": " passed sanity check."} {
		for file, lines := range dump(t, kafka, indexes, check) {
			if text := strings.TrimPrefix(strings.Join(lines, "\n"), file); text != praise && text != " is empty." {
				t.Errorf("%s %s: %.1000s", check, file, text)
			}
		}
	}
	snapshots := 0
	for file, lines := range dump(t, kafka, partitionFiles(t, dataDir, topics, "*.snapshot")) {
		for _, line := range lines {
			if !strings.HasPrefix(line, "producerId: ") {
				t.Errorf("%s: %s", file, line)
			}
			snapshots++
		}
	}
	if snapshots == 0 {
		t.Error("no snapshot knows a producer")
	}
}

func partitionDir(dataDir, topic string, partition int) string {
	return filepath.Join(dataDir, fmt.Sprintf("%s-%d", topic, partition))
}

// partitionFiles lists files of the topics' two partitions, a partition's in the order of their offsets.
func partitionFiles(t *testing.T, dataDir string, topics []string, pattern string) (files []string) {
	t.Helper()
	for _, topic := range topics {
		for partition := range 2 {
			files = append(files, glob(t, partitionDir(dataDir, topic, partition), pattern)...)
		}
	}
	return files
}

// The batches of the metadata log are Kafka's, whatever the records in them say.
func checkMetadataLog(t *testing.T, kafka tools, dataDir string) {
	t.Helper()
	batches := 0
	for file, lines := range dump(t, kafka, glob(t, filepath.Join(dataDir, "__cluster_metadata-0"), "*.log"), "--deep-iteration") {
		for _, line := range lines {
			if m := batchLine.FindStringSubmatch(line); m != nil {
				batches++
				if m[4] != "true" {
					t.Errorf("%s: %s", file, line)
				}
			}
		}
	}
	if batches == 0 {
		t.Error("__cluster_metadata-0 holds no batch")
	}
}

func glob(t *testing.T, dir, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err == nil && len(files) == 0 {
		_, err = os.Stat(dir)
		if err == nil {
			err = fmt.Errorf("no %s in %s", pattern, dir)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
