package replica

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
	"weir/protocol/batch"
)

const self kafka.BrokerID = 1

var testTime = time.UnixMilli(1_700_000_000_000)

// fixture is a manager over an in-memory disk whose image the test writes.
type fixture struct {
	t       *testing.T
	store   *log.Store
	manager *Manager
	image   *metadata.Image
	config  TopicConfig
}

func newFixture(t *testing.T, policy log.FsyncPolicy) *fixture {
	t.Helper()
	return newFixtureOn(t, policy, vfs.NewMem())
}

// newFixtureOn starts on a disk that another one left.
func newFixtureOn(t *testing.T, policy log.FsyncPolicy, disk *vfs.Mem) *fixture {
	t.Helper()
	store, err := log.OpenStore(log.StoreOptions{FS: disk, Clock: clock.System(), Dirs: []string{"/data"}, NodeID: self, FsyncPolicy: policy, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, store: store, image: metadata.Empty()}
	f.config = TopicConfig{Log: log.DefaultConfig(), MinInsyncReplicas: 1, Rules: batch.Rules{MaxMessageBytes: 1 << 20, SegmentBytes: 1 << 30,
		TimestampBeforeMaxMs: 1 << 60, TimestampAfterMaxMs: 3_600_000, Compression: batch.Compression{Producer: true}, MaxDecompressedRecordBytes: 1 << 30}}
	f.manager = NewManager(Options{Self: self, Logs: store, FsyncPolicy: policy, Logger: slog.New(slog.DiscardHandler),
		TopicConfig: func(*metadata.Image, string) *TopicConfig { return &f.config }})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = store.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
		_ = store.Close()
	})
	return f
}

// apply folds records into the image and hands the change to the manager.
func (f *fixture) apply(records ...metadata.Record) {
	f.t.Helper()
	next, delta, err := f.image.With(records)
	if err != nil {
		f.t.Fatal(err)
	}
	f.image = next
	f.manager.Apply(delta, next)
}

func (f *fixture) create(topic string, id kafka.TopicID, isr ...kafka.BrokerID) *Partition {
	f.t.Helper()
	f.apply(metadata.TopicRecord{ID: id, Name: topic}, f.registration(id, 0, isr...))
	return f.partition(topic)
}

func (f *fixture) registration(id kafka.TopicID, epoch kafka.LeaderEpoch, isr ...kafka.BrokerID) metadata.PartitionRecord {
	return metadata.PartitionRecord{TopicID: id, Partition: 0, PartitionRegistration: metadata.PartitionRegistration{Replicas: isr, ISR: isr, Leader: isr[0], LeaderEpoch: epoch,
		PartitionEpoch: kafka.PartitionEpoch(epoch), Directories: make([]kafka.DirectoryID, len(isr))}}
}

func (f *fixture) partition(topic string) *Partition {
	f.t.Helper()
	p := f.manager.Partition(kafka.TopicPartition{Topic: topic})
	if p == nil {
		f.t.Fatalf("no partition of %s", topic)
	}
	return p
}

func records(t testing.TB, n int) []byte {
	t.Helper()
	b := batch.NewBuilder(batch.None, 0)
	for range n {
		b.Append(testTime.UnixMilli(), nil, []byte("value"))
	}
	out, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// acks notes what an Acker was told.
type acks struct {
	mu   sync.Mutex
	errs map[int]error
	c    chan int
}

func newAcks() *acks { return &acks{errs: map[int]error{}, c: make(chan int, 10)} }

func (a *acks) Acked(index int, err error) {
	a.mu.Lock()
	a.errs[index] = err
	a.mu.Unlock()
	a.c <- index
}

func produce(t testing.TB, p *Partition, requiredAcks int16, to Acker) AppendResult {
	t.Helper()
	r, err := p.Append(&AppendRequest{Records: records(t, 1), Version: 9, Acks: requiredAcks, Now: testTime, Acker: to})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestAppendIsVisibleAtOnceWhenAlone(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	p := f.create("t", kafka.NewUUID(), self)
	if r := produce(t, p, AcksAll, nil); r.Parked || r.BaseOffset != 0 {
		t.Fatalf("acks=all with no other replica: %+v", r)
	}
	got, err := p.Read(&ReadRequest{Offset: 0, MaxBytes: 1, AtLeastOne: true, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, Replica: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer got.Records.Release()
	if got.Records.Len() == 0 || got.HighWatermark != 1 || got.LastStableOffset != 1 {
		t.Fatalf("read %d bytes, high watermark %d, last stable offset %d", got.Records.Len(), got.HighWatermark, got.LastStableOffset)
	}
}

func TestAcksWaitForTheDiskUnderPolicyAck(t *testing.T) {
	f := newFixture(t, log.FsyncAck)
	p := f.create("t", kafka.NewUUID(), self)
	for _, required := range []int16{AcksAll, AcksLeader} {
		a := newAcks()
		r := produce(t, p, required, a)
		if r.Parked {
			<-a.c
			if a.errs[0] != nil {
				t.Fatal(a.errs[0])
			}
		}
		if p.Log().DurableEndOffset() <= r.LastOffset {
			t.Fatalf("acks=%d acknowledged offset %d, durable end is %d", required, r.LastOffset, p.Log().DurableEndOffset())
		}
	}
	if hw, end := p.Log().HighWatermark(), p.Log().EndOffset(); hw != end {
		t.Fatalf("high watermark %d, end %d", hw, end)
	}
}

func TestAcknowledgedRecordsAreVisibleAfterAKill(t *testing.T) {
	disk, id := vfs.NewMem(), kafka.NewUUID()
	before := newFixtureOn(t, log.FsyncAck, disk)
	a := newAcks()
	if r := produce(t, before.create("t", id, self), AcksAll, a); r.Parked {
		<-a.c
	}
	after := newFixtureOn(t, log.FsyncAck, disk.Kill())
	p := after.create("t", id, self)
	durable := make(chan error, 1)
	after.store.Commit(p.Log(), func(err error) { durable <- err }) // in the group after the partition's own
	if err := <-durable; err != nil {
		t.Fatal(err)
	}
	if hw, end := p.Log().HighWatermark(), p.Log().EndOffset(); hw != 1 || end != 1 {
		t.Fatalf("high watermark %d, end %d; want both behind the record", hw, end)
	}
}

func TestAcksAllWaitsForTheInSyncReplicas(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	id := kafka.NewUUID()
	p := f.create("t", id, self, 2)
	a := newAcks()
	if r := produce(t, p, AcksAll, a); !r.Parked {
		t.Fatal("acknowledged although the other in-sync replica has nothing")
	}
	if r := produce(t, p, AcksLeader, a); r.Parked {
		t.Fatal("acks=1 waits for another replica")
	}
	got, err := p.Read(&ReadRequest{Offset: 0, MaxBytes: 100, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, Replica: -1})
	if err != nil || got.Records.Len() != 0 {
		t.Fatalf("read %d bytes above the high watermark, error %v", got.Records.Len(), err)
	}
	// The other replica leaves the in-sync set: what waited for it is acknowledged.
	r := f.registration(id, 0, self, 2)
	r.ISR, r.PartitionEpoch = []kafka.BrokerID{self}, 1
	f.apply(r)
	if i := <-a.c; a.errs[i] != nil {
		t.Fatal(a.errs[i])
	}
}

func TestLosingLeadershipFailsWhatWaits(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	id := kafka.NewUUID()
	p := f.create("t", id, self, 2)
	a, w := newAcks(), NewWaiter()
	produce(t, p, AcksAll, a)
	p.Register(w)
	next := f.registration(id, 1, self, 2)
	next.Leader = 2
	f.apply(next)
	if i := <-a.c; kafka.CodeOf(a.errs[i]) != kafka.NotLeaderOrFollower {
		t.Fatalf("the waiting producer is told %v", a.errs[i])
	}
	<-w.C()
	if _, err := p.Append(&AppendRequest{Records: records(t, 1), Version: 9, Acks: AcksLeader, Now: testTime}); kafka.CodeOf(err) != kafka.NotLeaderOrFollower {
		t.Fatalf("append without leadership: %v", err)
	}
}

func TestTooFewInSyncReplicasRefuseAcksAll(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	f.config.MinInsyncReplicas = 2
	alone := f.create("alone", kafka.NewUUID(), self)
	if r := produce(t, alone, AcksAll, nil); r.Parked {
		t.Fatal("a topic with one replica asks for two in-sync ones")
	}
	id := kafka.NewUUID()
	p := f.create("two", id, self, 2)
	r := f.registration(id, 0, self, 2)
	r.ISR, r.PartitionEpoch = []kafka.BrokerID{self}, 1
	f.apply(r)
	_, err := p.Append(&AppendRequest{Records: records(t, 1), Version: 9, Acks: AcksAll, Now: testTime})
	if kafka.CodeOf(err) != kafka.NotEnoughReplicas || p.Log().EndOffset() != 0 {
		t.Fatalf("error %v, end offset %d", err, p.Log().EndOffset())
	}
	if r := produce(t, p, AcksLeader, nil); r.Parked {
		t.Fatal("acks=1 is held by the minimum")
	}
}

func TestLeaderEpochIsChecked(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	id := kafka.NewUUID()
	p := f.create("t", id, self)
	f.apply(f.registration(id, 3, self))
	for epoch, want := range map[kafka.LeaderEpoch]kafka.Code{-1: kafka.None, 3: kafka.None, 2: kafka.FencedLeaderEpoch, 4: kafka.UnknownLeaderEpoch} {
		if _, err := p.Read(&ReadRequest{CurrentLeaderEpoch: epoch, LastFetchedEpoch: -1, Replica: -1, MaxBytes: 1}); kafka.CodeOf(err) != want {
			t.Errorf("current leader epoch %d: %v, want %v", epoch, err, want)
		}
	}
	produce(t, p, AcksLeader, nil)
	if e, err := p.EndOffsetForEpoch(3, -1); err != nil || e != (EpochEnd{3, 1}) {
		t.Fatalf("end of epoch 3: %+v, %v", e, err)
	}
	if e, err := p.EndOffsetForEpoch(50, -1); err != nil || e != (EpochEnd{-1, -1}) {
		t.Fatalf("end of an unknown epoch: %+v, %v", e, err)
	}
}

func TestWaiterWakesWhenEnoughBytesCame(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	p := f.create("t", kafka.NewUUID(), self)
	size := len(records(t, 1))
	w := NewWaiter()
	p.Register(w)
	w.Arm(size + 1)
	produce(t, p, AcksLeader, nil)
	select {
	case <-w.C():
		t.Fatal("woken by fewer bytes than it waits for")
	default:
	}
	produce(t, p, AcksLeader, nil)
	<-w.C()
	p.Unregister(w)
	if n := len(p.mu.consumers); n != 0 {
		t.Fatalf("%d waiters are left", n)
	}
}

func TestWaiterCountsWhatComesWhileItsOwnerLooks(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	p := f.create("t", kafka.NewUUID(), self)
	size := len(records(t, 1))
	w := NewWaiter()
	for range 2 {
		w.Look()
		p.Register(w)
		produce(t, p, AcksLeader, nil) // after the look, which found nothing
		w.Arm(2 * size)
		select {
		case <-w.C():
			t.Fatal("woken by half of what it waits for")
		default:
		}
		produce(t, p, AcksLeader, nil)
		<-w.C()
	}
	w.Look()
	p.Register(w)
	produce(t, p, AcksLeader, nil)
	w.Arm(size) // all of it is there already
	<-w.C()
}

func TestForgottenAcksAreNotTold(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	p := f.create("t", kafka.NewUUID(), self, 2)
	a := newAcks()
	produce(t, p, AcksAll, a)
	p.Forget(a)
	p.close()
	if len(a.errs) != 0 {
		t.Fatalf("told of %v", a.errs)
	}
}

func TestDeletedAndCreatedAgain(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	first, second := kafka.NewUUID(), kafka.NewUUID()
	old := f.create("t", first, self)
	produce(t, old, AcksLeader, nil)
	// In one step, as when a node catches up.
	f.apply(metadata.RemoveTopicRecord{ID: first}, metadata.TopicRecord{ID: second, Name: "t"}, f.registration(second, 0, self))
	p := f.partition("t")
	if p == old || p.TopicID() != second || p.Log().EndOffset() != 0 {
		t.Fatalf("topic id %v, end offset %d", p.TopicID(), p.Log().EndOffset())
	}
	if _, err := old.Append(&AppendRequest{Records: records(t, 1), Version: 9, Acks: AcksLeader, Now: testTime}); kafka.CodeOf(err) != kafka.NotLeaderOrFollower {
		t.Fatalf("append to the deleted partition: %v", err)
	}
	f.apply(metadata.RemoveTopicRecord{ID: second})
	if f.manager.Partition(kafka.TopicPartition{Topic: "t"}) != nil || f.store.Log(kafka.TopicPartition{Topic: "t"}) != nil {
		t.Fatal("a deleted topic left something behind")
	}
}

func TestDeleteRecords(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	p := f.create("t", kafka.NewUUID(), self)
	for range 3 {
		produce(t, p, AcksLeader, nil)
	}
	for _, step := range []struct {
		offset, want int64
		code         kafka.Code
	}{{99, 0, kafka.OffsetOutOfRange}, {-2, 0, kafka.OffsetOutOfRange}, {1, 1, kafka.None}, {0, 1, kafka.None}, {-1, 3, kafka.None}} {
		if got, err := p.DeleteRecords(step.offset); got.LowWatermark != step.want || kafka.CodeOf(err) != step.code {
			t.Errorf("delete up to %d: %+v, %v; want %d, %v", step.offset, got, err, step.want, step.code)
		}
	}
	f.config.Log.CompactPolicy, f.config.Log.DeletePolicy = true, false
	compacted := f.create("compacted", kafka.NewUUID(), self)
	if _, err := compacted.DeleteRecords(-1); kafka.CodeOf(err) != kafka.PolicyViolation {
		t.Fatalf("compacted topic: %v", err)
	}
}

func TestAllIsSorted(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	for _, name := range []string{"b", "a", "c"} {
		f.create(name, kafka.NewUUID(), self)
	}
	var names []string
	for _, p := range f.manager.All() {
		names = append(names, p.TP().Topic)
	}
	if !slices.Equal(names, []string{"a", "b", "c"}) {
		t.Fatal(names)
	}
}

func TestLeadingAnewWakesEveryWaiter(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	id := kafka.NewUUID()
	p := f.create("t", id, self, 2)
	produce(t, p, AcksLeader, nil)
	enough, patient := NewWaiter(), NewWaiter()
	p.Register(enough)
	p.Register(patient)
	enough.Arm(1)
	// In the new epoch the other replica is out of sync, so that the high watermark moves in the same step.
	r := f.registration(id, 1, self, 2)
	r.ISR = []kafka.BrokerID{self}
	f.apply(r)
	for name, w := range map[string]*Waiter{"the one with enough bytes": enough, "the patient one": patient} {
		select {
		case <-w.C():
		default:
			t.Errorf("%s sleeps on", name)
		}
	}
}

func TestReadableCountsWhatAReadCutsOff(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	size := len(records(t, 1))
	f.config.Log.SegmentBytes = int32(3 * size)
	p := f.create("t", kafka.NewUUID(), self)
	for range 5 { // three batches in the first segment, two in the second
		produce(t, p, AcksLeader, nil)
	}
	for _, c := range []struct {
		name     string
		offset   int64
		maxBytes int
		bytes    int
		more     bool
	}{
		{"half a batch counts", 3, size / 2, size / 2, false},
		{"more than there is does not", 3, 10 * size, 2 * size, false},
		{"records go on in the next segment", 1, 10 * size, 2 * size, true},
		{"the last batch", 4, 10 * size, size, false},
		{"the end", 5, 10 * size, 0, false},
		{"below zero", 3, -1, 0, false},
		{"out of range", 9, size, 0, false},
	} {
		bytes, more := p.Readable(&ReadRequest{Offset: c.offset, MaxBytes: c.maxBytes, Replica: -1, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1})
		if bytes != c.bytes || more != c.more {
			t.Errorf("%s: %d bytes, more %t; want %d, %t", c.name, bytes, more, c.bytes, c.more)
		}
	}
}

func TestUnknownFollowersAreRefused(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	p := f.create("t", kafka.NewUUID(), self, 2)
	for _, c := range []struct {
		replica kafka.BrokerID
		epoch   kafka.LeaderEpoch
		want    kafka.Code
	}{{2, -1, kafka.None}, {3, -1, kafka.NotLeaderOrFollower}, {3, 0, kafka.UnknownLeaderEpoch}, {self, -1, kafka.NotLeaderOrFollower}} {
		_, err := p.Read(&ReadRequest{Replica: c.replica, CurrentLeaderEpoch: c.epoch, LastFetchedEpoch: -1, MaxBytes: 1})
		if kafka.CodeOf(err) != c.want {
			t.Errorf("replica %d, epoch %d: %v, want %v", c.replica, c.epoch, err, c.want)
		}
	}
}

func TestOffsetsAreNotListedPastTheHighWatermark(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	id := kafka.NewUUID()
	p := f.create("t", id, self)
	produce(t, p, AcksLeader, nil)
	grown := f.registration(id, 0, self, 2)
	grown.PartitionEpoch = 1
	f.apply(grown)
	later := batch.NewBuilder(batch.None, 0)
	later.Append(testTime.UnixMilli()+1, nil, nil)
	hidden, err := later.Build()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Append(&AppendRequest{Records: hidden, Version: 9, Acks: AcksLeader, Now: testTime}); err != nil {
		t.Fatal(err)
	}
	list := func(timestamp int64) (int64, kafka.Code) {
		listed, err := p.ListOffset(timestamp, ReadUncommitted, -1)
		return listed.Offset, kafka.CodeOf(err)
	}
	past := testTime.UnixMilli() + 1
	for timestamp, want := range map[int64]int64{TimestampLatest: 1, TimestampMax: -1, past: -1, past - 1: 0, TimestampEarliest: 0} {
		if got, code := list(timestamp); got != want || code != kafka.None {
			t.Errorf("timestamp %d: offset %d, %v; want %d", timestamp, got, code, want)
		}
	}
	// A new leadership begins at the log's end, above the high watermark: what is not found may yet come (KIP-207).
	next := f.registration(id, 1, self, 2)
	next.PartitionEpoch = 2
	f.apply(next)
	for timestamp, want := range map[int64]kafka.Code{TimestampLatest: kafka.OffsetNotAvailable, TimestampMax: kafka.OffsetNotAvailable, past: kafka.OffsetNotAvailable,
		past - 1: kafka.None, TimestampEarliest: kafka.None, TimestampLatestTiered: kafka.None} {
		if _, code := list(timestamp); code != want {
			t.Errorf("timestamp %d in the new epoch: %v, want %v", timestamp, code, want)
		}
	}
}
