package batch

import (
	"fmt"
	"testing"

	"weir/internal/kafka"
)

// timed makes a stored batch at base offset 100 whose records have these timestamps.
func timed(t *testing.T, codec Codec, timestamps ...int64) []byte {
	b := NewBuilder(codec, 0)
	b.SetBaseOffset(100)
	for _, ms := range timestamps {
		b.Append(ms, nil, []byte("value"))
	}
	return build(t, b)
}

func TestOffsetOfTimestamp(t *testing.T) {
	for _, codec := range everyCodec {
		rising := timed(t, codec, 10, 20, 30)
		jumping := timed(t, codec, 1000, 3000, 2000, 3000)
		stamped := timed(t, codec, 10, 20, 30)
		SetMaxTimestamp(stamped, true, 500)
		for _, c := range []struct {
			b             []byte
			ts, minOffset int64
			want          string
		}{
			{rising, 0, 0, "100 10 true"},
			{rising, 15, 0, "101 20 true"}, // K023
			{rising, 30, 0, "102 30 true"},
			{rising, 31, 0, "0 0 false"},
			{rising, 15, 102, "102 30 true"},
			{rising, 0, 101, "101 20 true"}, // a log start within the batch
			{rising, 0, 103, "0 0 false"},
			{jumping, 1500, 0, "101 3000 true"},
			{jumping, 2500, 102, "103 3000 true"},
			{stamped, 31, 0, "100 500 true"},
			{stamped, 31, 101, "101 500 true"},
			{stamped, 501, 0, "0 0 false"},
		} {
			offset, timestamp, ok, err := OffsetOfTimestamp(c.b, c.ts, c.minOffset)
			if got := fmt.Sprint(offset, timestamp, ok); err != nil || got != c.want {
				t.Errorf("%v, %d from offset %d: %s, %v, want %s", codec, c.ts, c.minOffset, got, err, c.want)
			}
		}
	}
}

func TestOffsetOfMaxTimestamp(t *testing.T) {
	for _, codec := range everyCodec {
		stamped := timed(t, codec, 10, 20, 30)
		SetMaxTimestamp(stamped, true, 500)
		lying := timed(t, codec, 10, 20, 30)
		SetMaxTimestamp(lying, false, 31)
		for name, c := range map[string]struct {
			b    []byte
			want string
		}{
			"the first of two": {timed(t, codec, 0, 30, 10, 30), "101 30 true"}, // as Kafka answers ListOffsets -3
			"log append time":  {stamped, "100 500 true"},                       // so too
			"no timestamps":    {timed(t, codec, -1, -1), "0 0 false"},
			"none has it":      {lying, "0 0 false"},
		} {
			offset, timestamp, ok, err := OffsetOfMaxTimestamp(c.b)
			if got := fmt.Sprint(offset, timestamp, ok); err != nil || got != c.want {
				t.Errorf("%v, %s: %s, %v, want %s", codec, name, got, err, c.want)
			}
		}
	}
}

func TestLookupErrors(t *testing.T) {
	b := timed(t, Gzip, 10, 20)
	b[HeaderSize]++
	if _, _, _, err := OffsetOfTimestamp(b, 0, 0); kafka.CodeOf(err) != kafka.CorruptMessage {
		t.Error(err)
	}
	if _, _, _, err := OffsetOfMaxTimestamp(b); kafka.CodeOf(err) != kafka.CorruptMessage {
		t.Error(err)
	}
	if _, _, _, err := OffsetOfTimestamp(b[:20], 0, 0); kafka.CodeOf(err) != kafka.CorruptMessage {
		t.Error(err)
	}
	if _, _, _, err := OffsetOfMaxTimestamp(b[:20]); kafka.CodeOf(err) != kafka.CorruptMessage {
		t.Error(err)
	}
}
