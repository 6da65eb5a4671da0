package config

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"weir/internal/kafka"
)

func TestValidateTopicAnswersAsKafka(t *testing.T) {
	file, err := os.Open("testdata/validate_topic.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	n := 0
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		f := strings.Split(lines.Text(), "\t")
		if len(f) != 3 {
			t.Fatalf("not three fields: %q", lines.Text())
		}
		overrides := make(map[string]string)
		for pair := range strings.SplitSeq(f[0], ";") {
			name, value, _ := strings.Cut(pair, "=")
			overrides[name] = value
		}
		err := ValidateTopic(overrides)
		message := ""
		if err != nil {
			message = err.Error()
		}
		if code := strconv.Itoa(int(kafka.CodeOf(err))); code != f[1] || message != f[2] {
			t.Errorf("%s\n got %s %s\nwant %s %s", f[0], code, message, f[1], f[2])
		}
		n++
	}
	if n < 90 {
		t.Errorf("only %d cases read", n)
	}
}

func TestRemovedTopicConfigsPass(t *testing.T) {
	overrides := map[string]string{
		"message.format.version": "3.0", "message.downconversion.enable": "bogus", "message.timestamp.difference.max.ms": "x",
	}
	for name := range overrides {
		if !IsRemovedTopicConfig(name) {
			t.Errorf("%s is not known as removed", name)
		}
	}
	if err := ValidateTopic(overrides); err != nil {
		t.Error(err)
	}
	if IsRemovedTopicConfig("retention.ms") {
		t.Error("retention.ms counts as removed")
	}
}

func TestTopicConfigDefaults(t *testing.T) {
	got := (*Server)(nil).TopicConfig(nil, nil, nil)
	want := Topic{
		SegmentBytes: 1 << 30, SegmentMs: 604800000, SegmentIndexBytes: 10 << 20, IndexIntervalBytes: 4096, FileDeleteDelayMs: 60000,
		FlushMessages: 1<<63 - 1, FlushMs: 1<<63 - 1,
		Delete: true, RetentionMs: 604800000, RetentionBytes: -1, DeleteRetentionMs: 86400000, MaxCompactionLagMs: 1<<63 - 1,
		MinCleanableDirtyRatio: 0.5,
		MaxMessageBytes:        1048588, MaxDecompressedMessageBytes: 2147483639,
		Compression:          Compression{Type: "producer", GzipLevel: -1, LZ4Level: 9, ZstdLevel: 3},
		TimestampBeforeMaxMs: 1<<63 - 1, TimestampAfterMaxMs: 3600000,
		MinInsyncReplicas: 1,
	}
	equal(t, got, want)
}

func TestTopicConfigLayers(t *testing.T) {
	static := load(t, "log.retention.hours=2", "log.roll.hours=3", "log.flush.scheduler.interval.ms=7", "message.max.bytes=10",
		"min.insync.replicas=4", "log.cleanup.policy=delete,", "compression.type=zstd")
	brokerDefault := map[string]string{"min.insync.replicas": "3", "message.max.bytes": "20", "log.retention.ms": "5"}
	broker := map[string]string{"min.insync.replicas": "2"}
	overrides := map[string]string{"retention.ms": "1", "cleanup.policy": " compact , delete ", "compression.zstd.level": "7",
		"flush.messages": "not a number"}

	got := static.TopicConfig(nil, nil, nil)
	if got.RetentionMs != 2*3600_000 || got.SegmentMs != 3*3600_000 || got.FlushMs != 7 || got.MaxMessageBytes != 10 || got.MinInsyncReplicas != 4 {
		t.Errorf("static values: %+v", got)
	}
	got = static.TopicConfig(nil, brokerDefault, nil)
	if got.RetentionMs != 5 || got.MaxMessageBytes != 20 || got.MinInsyncReplicas != 3 {
		t.Errorf("dynamic default values: %+v", got)
	}
	got = static.TopicConfig(overrides, brokerDefault, broker)
	if got.RetentionMs != 1 || got.MaxMessageBytes != 20 || got.MinInsyncReplicas != 2 || !got.Compact || !got.Delete {
		t.Errorf("all layers: %+v", got)
	}
	if got.Compression.Producer() || got.Compression.Level() != 7 {
		t.Errorf("compression: %+v", got.Compression)
	}
	if got.FlushMessages != 1<<63-1 {
		t.Errorf("a stored value that does not parse gave %d", got.FlushMessages)
	}
}

func TestInternalSegmentBytesWins(t *testing.T) {
	for raw, want := range map[string]int32{"100": 100, "0": 1, "-5": 1} {
		got := (*Server)(nil).TopicConfig(map[string]string{"internal.segment.bytes": raw, "segment.bytes": "2000000"}, nil, nil)
		if got.SegmentBytes != want {
			t.Errorf("internal.segment.bytes=%s gives %d", raw, got.SegmentBytes)
		}
	}
}

func TestRetentionBelowZeroIsForEver(t *testing.T) {
	for _, name := range []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"} {
		if got := load(t, name+"=-7").TopicConfig(nil, nil, nil).RetentionMs; got != -1 {
			t.Errorf("%s=-7 gives %d", name, got)
		}
	}
}
