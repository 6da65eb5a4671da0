package replica

import (
	"log/slog"
	"slices"
	"syscall"
	"testing"
	"time"

	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
	"weir/protocol/batch"
)

// leaders is two brokers, 1 and 2, with a manager each over a disk in memory, in the test's goroutine. Whoever leads is
// fetched from by hand; a third broker is registered, and has replicas only as far as its fetches say so.
type leaders struct {
	t        testing.TB
	clock    *clock.Manual
	image    *metadata.Image
	config   TopicConfig
	managers map[kafka.BrokerID]*Manager
	asked    *askedISRs  // of broker 1
	disk     *vfs.Faulty // likewise
	topic    kafka.TopicID
	record   metadata.PartitionRecord // of partition 0, as the metadata has it
}

// askedISRs is an ISRController that answers when the test says so.
type askedISRs struct {
	proposals []ISRProposal
	done      func([]ISRResult, error)
	requests  int
}

func (a *askedISRs) AlterISR(proposals []ISRProposal, done func([]ISRResult, error)) {
	a.proposals, a.done = proposals, done
	a.requests++
}

// answer gives the answers to what was asked.
func (a *askedISRs) answer(t testing.TB, results ...ISRResult) {
	t.Helper()
	if a.done == nil {
		t.Fatal("nothing was asked")
	}
	done := a.done
	a.proposals, a.done = nil, nil
	done(results, nil)
}

func brokerEpoch(id kafka.BrokerID) kafka.BrokerEpoch { return kafka.BrokerEpoch(10 * id) }

// newLeaders has a topic t that broker 1 leads, with the replicas 1, 2 and 3 and the in-sync ones given.
func newLeaders(t testing.TB, minISR int, isr ...kafka.BrokerID) *leaders {
	t.Helper()
	l := &leaders{t: t, clock: clock.NewManual(testTime), image: metadata.Empty(), managers: map[kafka.BrokerID]*Manager{}, asked: &askedISRs{}, topic: kafka.TopicID{15: 9}}
	l.config = TopicConfig{Log: log.DefaultConfig(), MinInsyncReplicas: minISR, Rules: batch.Rules{MaxMessageBytes: 1 << 20, SegmentBytes: 1 << 30,
		TimestampBeforeMaxMs: 1 << 60, TimestampAfterMaxMs: 3_600_000, Compression: batch.Compression{Producer: true}, MaxDecompressedRecordBytes: 1 << 30}}
	logger := slog.New(slog.DiscardHandler)
	for _, id := range []kafka.BrokerID{1, 2} {
		disk := vfs.NewFaulty(vfs.NewMem())
		if id == 1 {
			l.disk = disk
		}
		store, err := log.OpenStore(log.StoreOptions{FS: disk, Clock: l.clock, Dirs: []string{"/data"}, NodeID: id, FsyncPolicy: log.FsyncBackground, Logger: logger})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		o := Options{Self: id, Logs: store, FsyncPolicy: log.FsyncBackground, Clock: l.clock, MaxLag: 30 * time.Second, Logger: logger,
			TopicConfig: func(*metadata.Image, string) *TopicConfig { c := l.config; return &c }}
		if id == 1 {
			o.Controller = l.asked
		}
		l.managers[id] = NewManager(o)
	}
	l.record = metadata.PartitionRecord{TopicID: l.topic, PartitionRegistration: metadata.PartitionRegistration{Replicas: []kafka.BrokerID{1, 2, 3}, ISR: isr,
		Leader: 1, Directories: make([]kafka.DirectoryID, 3)}}
	records := []metadata.Record{metadata.TopicRecord{ID: l.topic, Name: "t"}, l.record}
	for id := kafka.BrokerID(1); id <= 3; id++ {
		records = append(records, metadata.RegisterBrokerRecord{BrokerRegistration: metadata.BrokerRegistration{ID: id, Epoch: brokerEpoch(id)}})
	}
	l.apply(records...)
	return l
}

func (l *leaders) apply(records ...metadata.Record) {
	l.t.Helper()
	next, delta, err := l.image.With(records)
	if err != nil {
		l.t.Fatal(err)
	}
	l.image = next
	for _, id := range []kafka.BrokerID{1, 2} {
		l.managers[id].Apply(delta, next)
	}
}

// change commits a change of the partition, as the controller does, and tells the brokers.
func (l *leaders) change(f func(*metadata.PartitionRegistration)) {
	l.t.Helper()
	before := l.record.Leader
	f(&l.record.PartitionRegistration)
	if l.record.Leader != before {
		l.record.LeaderEpoch++
	}
	l.record.PartitionEpoch++
	l.apply(l.record)
}

func (l *leaders) setISR(isr ...kafka.BrokerID) {
	l.t.Helper()
	l.change(func(r *metadata.PartitionRegistration) { r.ISR = isr })
}

// elect makes a broker the leader of a new epoch, even if it is that already.
func (l *leaders) elect(id kafka.BrokerID, isr ...kafka.BrokerID) {
	l.t.Helper()
	l.change(func(r *metadata.PartitionRegistration) {
		if r.Leader == id {
			r.LeaderEpoch++
		}
		r.Leader, r.ISR = id, isr
	})
}

func (l *leaders) fence(id kafka.BrokerID, fenced bool) {
	l.t.Helper()
	l.apply(metadata.BrokerChangeRecord{ID: id, Epoch: brokerEpoch(id), Fenced: fenced})
}

func (l *leaders) partition(id kafka.BrokerID) *Partition {
	return l.managers[id].Partition(kafka.TopicPartition{Topic: "t"})
}

func (l *leaders) request(from kafka.BrokerID, offset int64) *ReadRequest {
	return &ReadRequest{Offset: offset, MaxBytes: 1 << 20, AtLeastOne: true, CurrentLeaderEpoch: l.record.LeaderEpoch, LastFetchedEpoch: kafka.NoLeaderEpoch,
		Replica: from, ReplicaEpoch: brokerEpoch(from), Fetched: l.clock.Now()}
}

// fetch has a follower fetch from the leader.
func (l *leaders) fetch(from kafka.BrokerID, offset int64) ReadResult {
	l.t.Helper()
	result, err := l.partition(l.record.Leader).Read(l.request(from, offset))
	if err != nil {
		l.t.Fatal(err)
	}
	result.Records.Release()
	return result
}

// copyTo has broker 1 or 2 fetch what it lacks and append it; the leader learns of that with the next fetch.
func (l *leaders) copyTo(id kafka.BrokerID) {
	l.t.Helper()
	own := l.partition(id).Log()
	result, err := l.partition(l.record.Leader).Read(l.request(id, own.EndOffset()))
	if err != nil {
		l.t.Fatal(err)
	}
	defer result.Records.Release()
	b := make([]byte, result.Records.Len())
	if _, err := result.Records.ReadAt(b, 0); err != nil && len(b) > 0 {
		l.t.Fatal(err)
	}
	if _, err := own.AppendAsFollower(b); err != nil {
		l.t.Fatal(err)
	}
	own.SetHighWatermark(result.HighWatermark)
}

func (l *leaders) requireHW(want int64) {
	l.t.Helper()
	if hw := l.partition(l.record.Leader).Log().HighWatermark(); hw != want {
		l.t.Fatalf("high watermark %d, want %d", hw, want)
	}
}

func acked(a *acks) bool {
	select {
	case <-a.c:
		return true
	default:
		return false
	}
}

func TestTheHighWatermarkFollowsTheFollowers(t *testing.T) {
	l := newLeaders(t, 2, 1, 2, 3)
	p, a := l.partition(1), newAcks()
	if r := produce(t, p, AcksAll, a); !r.Parked {
		t.Fatal("acknowledged before a follower has it")
	}
	if r := l.fetch(2, 0); r.HighWatermark != 0 || r.LogStartOffset != 0 {
		t.Fatalf("the first fetch is told %+v", r)
	}
	if l.fetch(2, 1); acked(a) {
		t.Fatal("acknowledged with one of two followers")
	}
	if r := l.fetch(3, 1); r.HighWatermark != 1 {
		t.Fatalf("who moves the high watermark is told that it is %d", r.HighWatermark)
	}
	if !acked(a) || a.errs[0] != nil {
		t.Fatalf("not acknowledged: %v", a.errs)
	}
	l.requireHW(1)
}

func TestFollowersReadWhatConsumersDoNotSee(t *testing.T) {
	l := newLeaders(t, 1, 1, 2)
	p := l.partition(1)
	produce(t, p, AcksLeader, nil)
	consumer := &ReadRequest{MaxBytes: 1 << 20, CurrentLeaderEpoch: -1, LastFetchedEpoch: -1, Replica: -1}
	for reader, r := range map[string]*ReadRequest{"follower": l.request(2, 0), "consumer": consumer} {
		got, err := p.Read(r)
		if err != nil {
			t.Fatal(err)
		}
		n, more := p.Readable(r)
		if sees := got.Records.Len() > 0; sees != (reader == "follower") || n > 0 != sees || more {
			t.Errorf("a %s reads %d bytes, and is told of %d", reader, got.Records.Len(), n)
		}
		got.Records.Release()
	}
	for isolation, want := range map[Isolation]int64{UpToLogEnd: 1, ReadUncommitted: 0} {
		if found, err := p.ListOffset(TimestampLatest, isolation, -1); err != nil || found.Offset != want {
			t.Errorf("isolation %d: the log ends at %d, %v", isolation, found.Offset, err)
		}
	}
	// In a new epoch consumers are told to wait; a follower finds out where the log ends.
	l.elect(1, 1, 2)
	if found, err := p.ListOffset(TimestampLatest, UpToLogEnd, 1); err != nil || found.Offset != 1 {
		t.Errorf("the log ends at %d, %v", found.Offset, err)
	}
}

func TestAppendsWakeFollowersAndTheHighWatermarkConsumers(t *testing.T) {
	l := newLeaders(t, 1, 1, 2)
	p := l.partition(1)
	follower, consumer := NewFollowerWaiter(), NewWaiter()
	for _, w := range []*Waiter{follower, consumer} {
		p.Register(w)
		w.Arm(1)
	}
	woken := func(w *Waiter) bool {
		select {
		case <-w.C():
			return true
		default:
			return false
		}
	}
	produce(t, p, AcksLeader, nil)
	if f, c := woken(follower), woken(consumer); !f || c {
		t.Fatalf("after an append: follower woken %t, consumer %t", f, c)
	}
	p.Register(follower)
	follower.Look()
	follower.Arm(1)
	l.fetch(2, 1)
	if f, c := woken(follower), woken(consumer); f || !c {
		t.Fatalf("when the high watermark moved: follower woken %t, consumer %t", f, c)
	}
	p.Unregister(follower)
	if n := len(p.mu.followers) + len(p.mu.consumers); n != 0 {
		t.Fatalf("%d waiters are left", n)
	}
}

// What a new leader had before, above its high watermark, was appended when nobody counted it.
func TestConsumersAreWokenByWhatAnEarlierLeaderAppended(t *testing.T) {
	l := newLeaders(t, 1, 1, 2)
	produce(t, l.partition(1), AcksLeader, nil)
	l.copyTo(2)
	l.elect(2, 1, 2)
	p, w := l.partition(2), NewWaiter()
	p.Register(w)
	w.Arm(1)
	l.fetch(1, 1)
	l.requireHW(1)
	select {
	case <-w.C():
	default:
		t.Fatal("the consumer sleeps on")
	}
}

func TestADeposedLeaderFailsWhatWaits(t *testing.T) {
	l := newLeaders(t, 2, 1, 2)
	a := newAcks()
	produce(t, l.partition(1), AcksLeader, nil)
	l.copyTo(2)
	l.fetch(2, 1)
	l.requireHW(1)
	produce(t, l.partition(1), AcksAll, a) // 2 does not get it
	l.elect(2, 1, 2)
	if !acked(a) || kafka.CodeOf(a.errs[0]) != kafka.NotLeaderOrFollower {
		t.Fatalf("the producer is told %v", a.errs)
	}
	if _, err := l.partition(1).Read(l.request(2, 1)); kafka.CodeOf(err) != kafka.NotLeaderOrFollower {
		t.Fatalf("the deposed leader serves: %v", err)
	}
	produce(t, l.partition(2), AcksAll, newAcks())
	// The deposed one has a record in the old epoch where the new leader has one of the new: that it fetches there says
	// nothing of what it has.
	r := l.request(1, 2)
	r.LastFetchedEpoch = 0
	got, err := l.partition(2).Read(r)
	if err != nil || got.Diverging == nil || *got.Diverging != (EpochEnd{Epoch: 0, End: 1}) || got.Records.Len() != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	l.requireHW(0) // 2 was told of no high watermark
	l.fetch(1, 1)
	l.requireHW(1)
	l.fetch(1, 2)
	l.requireHW(2)
}

func TestFollowersFetchesAreCheckedInOrder(t *testing.T) {
	l := newLeaders(t, 1, 1, 2)
	p := l.partition(1)
	for range 3 {
		produce(t, p, AcksLeader, nil)
	}
	l.fetch(2, 3)
	if _, err := p.DeleteRecords(2); err != nil {
		t.Fatal(err)
	}
	l.elect(1, 1, 2)
	l.elect(1, 1, 2)
	for name, c := range map[string]struct {
		change func(*ReadRequest)
		want   kafka.Code
	}{
		"as it should be":              {func(*ReadRequest) {}, kafka.None},
		"an epoch without records yet": {func(r *ReadRequest) { r.LastFetchedEpoch = 2 }, kafka.None},
		"a deposed follower's epoch":   {func(r *ReadRequest) { r.CurrentLeaderEpoch = 1; r.Replica = 7 }, kafka.FencedLeaderEpoch},
		"an epoch to come":             {func(r *ReadRequest) { r.CurrentLeaderEpoch = 3; r.Replica = 7 }, kafka.UnknownLeaderEpoch},
		"no replica":                   {func(r *ReadRequest) { r.Replica = 7; r.Offset = 99 }, kafka.UnknownLeaderEpoch},
		"no replica, without an epoch": {func(r *ReadRequest) { r.Replica = 7; r.CurrentLeaderEpoch = -1 }, kafka.NotLeaderOrFollower},
		"the leader itself":            {func(r *ReadRequest) { r.Replica = 1 }, kafka.UnknownLeaderEpoch},
		"below the start":              {func(r *ReadRequest) { r.Offset = 1 }, kafka.OffsetOutOfRange},
		"below the start, diverging":   {func(r *ReadRequest) { r.Offset, r.LastFetchedEpoch = 1, 9 }, kafka.OffsetOutOfRange},
		"an epoch that is unknown":     {func(r *ReadRequest) { r.LastFetchedEpoch = 9 }, kafka.OffsetOutOfRange},
		"above the end":                {func(r *ReadRequest) { r.Offset = 4 }, kafka.OffsetOutOfRange},
		"an incarnation that is over":  {func(r *ReadRequest) { r.ReplicaEpoch-- }, kafka.NotLeaderOrFollower},
		"no incarnation":               {func(r *ReadRequest) { r.ReplicaEpoch = -1 }, kafka.NotLeaderOrFollower},
		"the same fetch once more":     {func(r *ReadRequest) { r.ReplicaEpoch = -1; r.Fetched = time.Time{} }, kafka.None},
	} {
		r := l.request(2, 3)
		c.change(r)
		got, err := p.Read(r)
		got.Records.Release()
		if kafka.CodeOf(err) != c.want || got.Diverging != nil {
			t.Errorf("%s: %v, diverging %v; want %v", name, err, got.Diverging, c.want)
		}
	}
	r := l.request(2, 3)
	r.LastFetchedEpoch = 0
	r.Offset = 4 // beyond the end of epoch 0, and of the log
	if got, err := p.Read(r); err != nil || got.Diverging == nil || *got.Diverging != (EpochEnd{Epoch: 0, End: 3}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestTheMinimumOfInSyncReplicasHoldsTheHighWatermark(t *testing.T) {
	l := newLeaders(t, 2, 1, 2)
	p, a := l.partition(1), newAcks()
	produce(t, p, AcksAll, a)
	l.setISR(1)
	if acked(a) {
		t.Fatal("acknowledged by a leader that is alone")
	}
	if _, err := p.Append(&AppendRequest{Records: records(t, 1), Version: 9, Acks: AcksAll, Now: testTime}); kafka.CodeOf(err) != kafka.NotEnoughReplicas {
		t.Fatalf("append below the minimum: %v", err)
	}
	l.requireHW(0)
	l.clock.Advance(31 * time.Second) // 2 does not come back
	l.config.MinInsyncReplicas = 1
	one := "1"
	l.apply(metadata.ConfigRecord{Resource: metadata.ConfigResource{Type: metadata.TopicResource, Name: "t"}, Key: "min.insync.replicas", Value: &one})
	l.requireHW(1)
	if !acked(a) || a.errs[0] != nil {
		t.Fatalf("not acknowledged with a minimum of one: %v", a.errs)
	}
}

func TestDeletionsWaitForEveryActiveReplica(t *testing.T) {
	l := newLeaders(t, 1, 1, 2)
	p := l.partition(1)
	for range 3 {
		produce(t, p, AcksLeader, nil)
	}
	l.fetch(2, 3)
	deleted, err := p.DeleteRecords(-1)
	if err != nil || deleted != (DeletedRecords{Offset: 3, LowWatermark: -1}) { // 3 has not fetched yet
		t.Fatalf("%+v, %v", deleted, err)
	}
	a := newAcks()
	for i, offset := range []int64{2, 3} {
		if parked, err := p.AwaitLowWatermark(offset, a, i); !parked || err != nil {
			t.Fatalf("parked %t, %v", parked, err)
		}
	}
	follow := func(id kafka.BrokerID, start int64) {
		r := l.request(id, 3)
		r.LogStart = start
		if _, err := p.Read(r); err != nil {
			t.Fatal(err)
		}
	}
	follow(2, 3)
	follow(3, 1)
	if acked(a) {
		t.Fatal("broker 3 has the records still")
	}
	follow(3, 2)
	if i := <-a.c; i != 0 || len(a.errs) != 1 {
		t.Fatalf("told %v", a.errs)
	}
	l.fence(3, true)
	if i := <-a.c; i != 1 || a.errs[1] != nil {
		t.Fatalf("told %v when broker 3 was fenced", a.errs)
	}
	if parked, err := p.AwaitLowWatermark(3, a, 2); parked || err != nil {
		t.Fatalf("parked %t, %v", parked, err)
	}
	l.fence(3, false)
	for i := 3; i <= 4; i++ {
		if parked, _ := p.AwaitLowWatermark(3, a, i); !parked {
			t.Fatal("broker 3 is back, and has a record still")
		}
		if i == 3 {
			p.Forget(a)
		}
	}
	l.elect(2, 1, 2)
	if i := <-a.c; i != 4 || kafka.CodeOf(a.errs[4]) != kafka.NotLeaderOrFollower || len(a.errs) != 3 {
		t.Fatalf("told %v", a.errs)
	}
	_, lowErr := p.LowWatermark()
	_, awaitErr := p.AwaitLowWatermark(0, a, 5)
	for _, err := range []error{lowErr, awaitErr} {
		if kafka.CodeOf(err) != kafka.NotLeaderOrFollower {
			t.Errorf("without leadership: %v", err)
		}
	}
}

// A follower that is not in sync holds the high watermark only as long as it may join.
func TestAFencedFollowerIsNotWaitedFor(t *testing.T) {
	l := newLeaders(t, 1, 1, 2)
	p, a := l.partition(1), newAcks()
	l.fetch(2, 0)
	l.setISR(1) // it keeps up all the same
	produce(t, p, AcksAll, a)
	if acked(a) {
		t.Fatal("it is not waited for")
	}
	l.fence(2, true)
	if !acked(a) {
		t.Fatal("it is waited for though it is fenced")
	}
}

func TestAFetchAllocatesNothingForItsProgress(t *testing.T) {
	if testing.CoverMode() != "" {
		t.Skip("counting takes memory")
	}
	l := newLeaders(t, 1, 1, 2, 3)
	p := l.partition(1)
	for range 100 {
		produce(t, p, AcksLeader, nil)
	}
	leader, offset := p.leadership.Load(), int64(0)
	r := l.request(2, 0)
	if n := testing.AllocsPerRun(99, func() {
		r.Offset = offset
		if err := p.fetched(r, leader, 100); err != nil {
			t.Error(err)
		}
		offset++
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// Whoever changes a registration is told by all brokers what the metadata says last.
func TestLateMetadataChangesNothing(t *testing.T) {
	l := newLeaders(t, 1, 1, 2)
	p := l.partition(1)
	l.setISR(1)
	late := l.record.PartitionRegistration
	late.PartitionEpoch, late.Leader, late.LeaderEpoch = 0, 2, 5
	if err := p.apply(late); err != nil {
		t.Fatal(err)
	}
	if p.LeaderEpoch() != 0 || !slices.Equal(p.mu.tracker.ISR(), []kafka.BrokerID{1}) {
		t.Fatalf("leader epoch %d, ISR %v", p.LeaderEpoch(), p.mu.tracker.ISR())
	}
}

// followNotes notes what a FollowerSet is told, and what Manager.Partition gives then.
type followNotes struct {
	manager *Manager
	told    []string
}

func (f *followNotes) note(what string, tp kafka.TopicPartition) {
	leads := "none"
	if p := f.manager.Partition(tp); p != nil {
		leads = "follows"
		if p.LeaderEpoch() >= 0 {
			leads = "leads"
		}
	}
	f.told = append(f.told, what+" "+leads)
}

func (f *followNotes) Follow(p *Partition, _ kafka.BrokerID, _ kafka.LeaderEpoch) {
	f.note("follow", p.tp)
}
func (f *followNotes) Unfollow(tp kafka.TopicPartition) { f.note("unfollow", tp) }

func TestFollowersAreToldInOrder(t *testing.T) {
	f := newFixture(t, log.FsyncBackground)
	set := &followNotes{manager: f.manager}
	f.manager.Followers = set
	id := kafka.NewUUID()
	expect := func(want ...string) {
		t.Helper()
		if !slices.Equal(set.told, want) {
			t.Fatalf("told %q, want %q", set.told, want)
		}
		set.told = nil
	}
	f.create("t", id, self, 2)
	expect("unfollow none")
	r := f.registration(id, 1, self, 2)
	r.Leader = 2
	f.apply(r)
	expect("follow follows")
	r.Leader, r.LeaderEpoch, r.PartitionEpoch = kafka.NoBroker, 2, 2
	f.apply(r)
	expect("unfollow follows")
	r.Leader, r.LeaderEpoch, r.PartitionEpoch = 2, 3, 3
	f.apply(r)
	expect("follow follows")
	f.apply(f.registration(id, 4, self, 2)) // before it leads
	expect("unfollow follows")
	f.apply(metadata.RemoveTopicRecord{ID: id}) // before its log is deleted
	expect("unfollow leads")
}

// A leader whose disk has failed leads until the controller has heard of it. If its ISR shrinks to itself meanwhile, what
// waits must not count as acknowledged: nobody but the failed disk has it (KAFKA-10778).
func TestAFailedDiskAcknowledgesNothing(t *testing.T) {
	l := newLeaders(t, 1, 1, 2)
	p, a := l.partition(1), newAcks()
	produce(t, p, AcksAll, a)
	l.disk.Inject(vfs.Fault{Op: vfs.OpWrite, Err: syscall.EIO})
	if _, err := p.Append(&AppendRequest{Records: records(t, 1), Version: 9, Acks: AcksAll, Now: testTime, Acker: newAcks()}); kafka.CodeOf(err) != kafka.KafkaStorageError {
		t.Fatalf("an append to a failed disk: %v", err)
	}
	l.setISR(1)
	if !acked(a) || kafka.CodeOf(a.errs[0]) != kafka.KafkaStorageError {
		t.Errorf("what waited was told %v", a.errs)
	}
	l.requireHW(0)
}
