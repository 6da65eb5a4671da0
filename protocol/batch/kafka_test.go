package batch

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/internal/kafka"
)

// kafkaAnswer is one line of testdata/kafka.jsonl: a batch that was sent to Kafka 4.4.0 by itself, to a topic with that
// configuration, what Kafka answered, and what a fetch returned afterwards, with base offset 0 and the leader epoch that
// was sent.
type kafkaAnswer struct {
	Name, Topic   string
	Config        map[string]string
	Version       int16
	Batch         string // hex
	Code          int16
	Message       *string
	LogAppendTime int64
	Stored        string // hex or "as sent"; empty if it was refused
	Errors        []struct {
		Index int32
		Text  string
	}
}

func (a *kafkaAnswer) rules(t *testing.T) *Rules {
	r := &Rules{
		TopicPartition: kafka.TopicPartition{Topic: a.Topic}, ProduceVersion: a.Version,
		MaxMessageBytes: 1048588, SegmentBytes: 1 << 30, TimestampBeforeMaxMs: math.MaxInt64, TimestampAfterMaxMs: 3600000,
		Compression: Compression{Producer: true}, MaxDecompressedRecordBytes: 2147483639,
	}
	for k, v := range a.Config {
		n, _ := strconv.ParseInt(v, 10, 64)
		switch k {
		case "message.timestamp.type":
			r.LogAppendTime = v == "LogAppendTime"
		case "cleanup.policy":
			r.Compacted = v == "compact"
		case "max.message.bytes":
			r.MaxMessageBytes = int32(n)
		case "message.timestamp.before.max.ms":
			r.TimestampBeforeMaxMs = n
		case "max.decompressed.message.bytes":
			r.MaxDecompressedRecordBytes = int32(n)
		case "compression.type":
			r.Compression = Compression{Codec: map[string]Codec{"uncompressed": None, "gzip": Gzip, "snappy": Snappy, "lz4": LZ4, "zstd": Zstd}[v]}
		default:
			t.Fatalf("unknown setting %s", k)
		}
	}
	return r
}

var timestampRange = regexp.MustCompile(`within \[-?\d+, (\d+)\]$`)

// now is the time of Kafka's clock when it answered, as far as the answer shows it.
func (a *kafkaAnswer) now(r *Rules) int64 {
	if a.LogAppendTime >= 0 {
		return a.LogAppendTime
	}
	for _, e := range a.Errors {
		if m := timestampRange.FindStringSubmatch(e.Text); m != nil {
			until, _ := strconv.ParseInt(m[1], 10, 64)
			return until - r.TimestampAfterMaxMs
		}
	}
	b, _ := hex.DecodeString(a.Batch)
	if len(b) < HeaderSize {
		return 0
	}
	return readHeader(b).BaseTimestamp
}

func TestValidateAnswersAsKafka(t *testing.T) {
	f, err := os.Open("testdata/kafka.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var a kafkaAnswer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		n++
		t.Run(fmt.Sprintf("%s %v v%d", a.Name, a.Config, a.Version), a.check)
	}
	if n < 100 {
		t.Fatalf("only %d answers", n)
	}
}

func (a *kafkaAnswer) check(t *testing.T) {
	batch, err := hex.DecodeString(a.Batch)
	if err != nil {
		t.Fatal(err)
	}
	r := a.rules(t)
	v, err := Validate(batch, r, a.now(r))
	if got := kafka.CodeOf(err); got != kafka.Code(a.Code) {
		t.Fatalf("code %v (%v), Kafka answers %v", got, err, kafka.Code(a.Code))
	}
	if err != nil {
		a.checkError(t, err)
		return
	}
	if v.LogAppendTime != a.LogAppendTime {
		t.Errorf("log append time %d, Kafka's %d", v.LogAppendTime, a.LogAppendTime)
	}
	if a.Stored == "as sent" {
		a.Stored = a.Batch
	}
	stored, err := hex.DecodeString(a.Stored)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(v.Bytes, stored) {
		return
	}
	if !r.Compression.Producer && r.Compression.Codec == v.Header.Attributes.Codec() { // the codec's implementations differ
		if got, want := recompressed(t, v.Bytes), recompressed(t, stored); got == want {
			return
		} else {
			t.Fatalf("stored\n%s\nKafka stores\n%s", got, want)
		}
	}
	t.Errorf("stored\n%x\nKafka stores\n%x", v.Bytes, stored)
}

func (a *kafkaAnswer) checkError(t *testing.T, err error) {
	if a.Version < 8 {
		return
	}
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("%v is no InvalidError", err)
	}
	message := ""
	if a.Message != nil {
		message = *a.Message
	}
	if invalid.Message != message {
		t.Errorf("message %q, Kafka's %q", invalid.Message, message)
	}
	var want []RecordError
	for _, e := range a.Errors {
		want = append(want, RecordError{e.Index, e.Text})
	}
	if !slices.Equal(invalid.RecordErrors, want) {
		t.Errorf("record errors %q, Kafka's %q", invalid.RecordErrors, want)
	}
}

// recompressed prints what must be the same whoever compressed it and stamps it.
func recompressed(t *testing.T, b []byte) string {
	t.Helper()
	if err := CheckCRC(b); err != nil {
		t.Fatal(err)
	}
	h := readHeader(b)
	h.Length, h.CRC, h.LeaderEpoch = 0, 0, 0
	var s strings.Builder
	fmt.Fprintf(&s, "%+v\n", h)
	for r, err := range Records(b) {
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&s, "%+v\n", r)
	}
	return s.String()
}
