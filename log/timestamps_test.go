package log

import (
	"testing"

	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

// K023, and what the indexes have to do with it.
func TestOffsetForTimestamp(t *testing.T) {
	l := openTest(t, vfs.NewMem())
	if _, found, err := l.OffsetForTimestamp(0, 0); found || err != nil {
		t.Errorf("in an empty log: %v, %v", found, err)
	}
	if _, found, err := l.MaxTimestamp(); found || err != nil {
		t.Errorf("the latest in an empty log: %v, %v", found, err)
	}
	for _, at := range []int64{1000, 3000, 2000} {
		appendTest(t, l, batchSpec{timestamp: at})
	}
	must(t, l.AssignEpoch(2, 3))
	appendTest(t, l, batchSpec{timestamp: 5000, records: 10, codec: batch.Gzip})
	for _, c := range []struct {
		ts, limit, offset, timestamp int64
		epoch                        kafka.LeaderEpoch
	}{
		{0, 13, 0, 1000, 0},
		{1000, 13, 0, 1000, 0},
		{1500, 13, 1, 3000, 0},
		{2500, 13, 1, 3000, 0},
		{3001, 13, 3, 5000, 2},
		{5004, 13, 7, 5004, 2},
		{5004, 8, 7, 5004, 2},
		{5004, 7, -1, 0, 0}, // not below the limit
		{5009, 13, 12, 5009, 2},
		{5010, 13, -1, 0, 0},
		{0, 0, -1, 0, 0},
	} {
		at, found, err := l.OffsetForTimestamp(c.ts, c.limit)
		must(t, err)
		if found != (c.offset >= 0) || found && at != (OffsetAndTimestamp{c.offset, c.timestamp, c.epoch}) {
			t.Errorf("time %d below %d is found %v at %+v, not %+v", c.ts, c.limit, found, at, c)
		}
	}
	if at, found, err := l.MaxTimestamp(); err != nil || !found || at != (OffsetAndTimestamp{12, 5009, 2}) {
		t.Errorf("the latest is found %v at %+v, %v", found, at, err)
	}
	must(t, l.AdvanceStartOffset(5))
	if at, found, err := l.OffsetForTimestamp(0, 13); err != nil || !found || at.Offset != 5 {
		t.Errorf("above the start, time 0 is found %v at %+v, %v", found, at, err)
	}
}

// Records without a time are no answer, and log append time counts as it is in the batch.
func TestTimesOfBatches(t *testing.T) {
	l := openTest(t, vfs.NewMem())
	appendTest(t, l, batchSpec{timestamp: -1})
	if _, found, err := l.MaxTimestamp(); found || err != nil {
		t.Errorf("the latest of records without a time: %v, %v", found, err)
	}
	v := batchSpec{timestamp: 1000, records: 3}.build()
	batch.SetMaxTimestamp(v.Bytes, true, 9000)
	_, err := l.AppendAsLeader(0, batch.Trusted(v.Bytes))
	must(t, err)
	for ts, offset := range map[int64]int64{0: 1, 1001: 1, 9000: 1} {
		if at, found, err := l.OffsetForTimestamp(ts, 4); err != nil || !found || at.Offset != offset || at.Timestamp != 9000 {
			t.Errorf("time %d is found %v at %+v, %v", ts, found, at, err)
		}
	}
	if at, found, err := l.MaxTimestamp(); err != nil || !found || at.Offset != 1 || at.Timestamp != 9000 {
		t.Errorf("the latest is found %v at %+v, %v", found, at, err)
	}
}

// A record that a producer made wrong is no damage of the disk, which takes a wrong CRC.
func TestTimesOfRecordsThatCannotBeRead(t *testing.T) {
	const start = 1000
	for _, c := range []struct {
		name  string
		store func(b []byte)
		want  kafka.Code
	}{
		{"as it was sent", func(b []byte) { batch.SetMaxTimestamp(b, false, start+4) }, kafka.InvalidRecord}, // a CRC that fits
		{"as the disk changed it", func([]byte) {}, kafka.KafkaStorageError},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := openTest(t, vfs.NewMem())
			appendTest(t, l, batchSpec{timestamp: start})
			v := batchSpec{timestamp: start + 1, records: 3}.build()
			v.Bytes[batch.HeaderSize]++ // the length of its first record, negative now
			c.store(v.Bytes)
			_, err := l.AppendAsLeader(0, batch.Trusted(v.Bytes))
			must(t, err)
			if at, found, err := l.OffsetForTimestamp(start, l.EndOffset()); err != nil || !found || at.Offset != 0 {
				t.Errorf("before that batch is found %v at %+v, %v", found, at, err)
			}
			if at, found, err := l.OffsetForTimestamp(start+1, l.EndOffset()); kafka.CodeOf(err) != c.want {
				t.Errorf("by time is found %v at %+v, %v", found, at, err)
			}
			if at, found, err := l.MaxTimestamp(); kafka.CodeOf(err) != c.want {
				t.Errorf("the latest is found %v at %+v, %v", found, at, err)
			}
			must(t, l.AdvanceStartOffset(2)) // within the batch, which is read to see what is newest
			if at, found, err := l.MaxTimestamp(); kafka.CodeOf(err) != c.want {
				t.Errorf("the latest above the start is found %v at %+v, %v", found, at, err)
			}
		})
	}
}
