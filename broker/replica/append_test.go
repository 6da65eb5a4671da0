package replica

import (
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/log"
	"weir/protocol/batch"
)

// A batch of a few kilobytes may take 128 MiB to look at: as many at a time as there are processors, whatever the number
// of clients. What is not compressed goes past.
func TestOnlySoManyBatchesAreDecompressedAtATime(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	p := f.create("topic", kafka.TopicID{1}, self)
	for range cap(decompressing) {
		decompressing <- struct{}{}
	}
	b := batch.NewBuilder(batch.Gzip, 0)
	b.Append(testTime.UnixMilli(), nil, []byte("value"))
	packed, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		_, err := p.Append(&AppendRequest{Records: packed, Version: 9, Acks: AcksLeader, Now: testTime})
		done <- err
	}()
	if _, err := p.Append(&AppendRequest{Records: records(t, 1), Version: 9, Acks: AcksLeader, Now: testTime}); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(20 * time.Millisecond): // nothing tells that it waits
	}
	for range cap(decompressing) {
		<-decompressing
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if len(decompressing) != 0 || p.Log().EndOffset() != 2 {
		t.Errorf("%d slots are taken, the log ends at %d", len(decompressing), p.Log().EndOffset())
	}
}

// So it is with look-ups by time, which read a batch; others go past.
func TestOnlySoManyBatchesAreSearchedAtATime(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	p := f.create("topic", kafka.TopicID{1}, self)
	produce(t, p, AcksLeader, nil)
	for range cap(searching) {
		searching <- struct{}{}
	}
	done := make(chan ListedOffset)
	go func() {
		found, err := p.ListOffset(testTime.UnixMilli(), ReadUncommitted, kafka.NoLeaderEpoch)
		if err != nil {
			t.Error(err)
		}
		done <- found
	}()
	if found, err := p.ListOffset(TimestampLatest, ReadUncommitted, kafka.NoLeaderEpoch); err != nil || found.Offset != 1 {
		t.Errorf("%+v, %v", found, err)
	}
	select {
	case found := <-done:
		t.Fatalf("it did not wait: %+v", found)
	case <-time.After(20 * time.Millisecond): // nothing tells that it waits
	}
	for range cap(searching) {
		<-searching
	}
	if found := <-done; found.Offset != 0 || len(searching) != 0 {
		t.Errorf("%+v; %d slots are taken", found, len(searching))
	}
}
