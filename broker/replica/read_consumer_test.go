package replica

import (
	"testing"
	"time"

	"weir/internal/kafka"
)

// consumerRead is what a consumer asks for at an offset in a leader epoch.
func consumerRead(offset int64, epoch kafka.LeaderEpoch) *ReadRequest {
	return &ReadRequest{Offset: offset, MaxBytes: 1 << 20, AtLeastOne: true, Replica: -1, CurrentLeaderEpoch: epoch, LastFetchedEpoch: kafka.NoLeaderEpoch, AnyReplica: true}
}

func readBytes(t *testing.T, p *Partition, r *ReadRequest) (bytes int, result ReadResult, code kafka.Code) {
	t.Helper()
	result, err := p.Read(r)
	defer result.Records.Release()
	return result.Records.Len(), result, kafka.CodeOf(err)
}

func TestFollowersServeConsumersUpToTheirHighWatermark(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	epoch := c.elect(1)
	c.applyAll()
	c.edit = func(d *FetchedPartition) { d.HighWatermark = min(d.HighWatermark, 2) }
	c.node(1).produce(2, 3)
	c.settle()
	p := c.node(2).partition(0)
	if hw, end := p.log.HighWatermark(), p.log.EndOffset(); hw != 2 || end != 5 {
		t.Fatalf("high watermark %d, end %d", hw, end)
	}
	n, result, code := readBytes(t, p, consumerRead(0, epoch))
	if whole, _, _ := readBytes(t, c.node(1).partition(0), consumerRead(0, epoch)); n == 0 || n >= whole || code != kafka.None {
		t.Fatalf("%v: the follower gives %d bytes, the leader %d", code, n, whole)
	}
	if result.HighWatermark != 2 || result.LastStableOffset != 2 || result.LeaderEpoch != epoch {
		t.Errorf("%+v", result)
	}
	for name, test := range map[string]struct {
		change func(*ReadRequest)
		want   kafka.Code
	}{
		"no leader epoch":                    {func(r *ReadRequest) { r.CurrentLeaderEpoch = kafka.NoLeaderEpoch }, kafka.None},
		"above the high watermark":           {func(r *ReadRequest) { r.Offset = 3 }, kafka.None},
		"the end":                            {func(r *ReadRequest) { r.Offset = 5 }, kafka.None},
		"above the end":                      {func(r *ReadRequest) { r.Offset = 6 }, kafka.OffsetOutOfRange},
		"below the start":                    {func(r *ReadRequest) { r.Offset = -1 }, kafka.OffsetOutOfRange},
		"an older leader epoch":              {func(r *ReadRequest) { r.CurrentLeaderEpoch-- }, kafka.FencedLeaderEpoch},
		"a newer leader epoch":               {func(r *ReadRequest) { r.CurrentLeaderEpoch++ }, kafka.UnknownLeaderEpoch},
		"a consumer that knows leaders only": {func(r *ReadRequest) { r.AnyReplica = false }, kafka.NotLeaderOrFollower},
		"a follower":                         {func(r *ReadRequest) { r.Replica = 1 }, kafka.NotLeaderOrFollower},
	} {
		r := consumerRead(0, epoch)
		test.change(r)
		if n, _, code := readBytes(t, p, r); code != test.want || r.Offset > 2 && n > 0 {
			t.Errorf("%s: %v, %d bytes", name, code, n)
		}
	}
	p.close()
	if _, _, code := readBytes(t, p, consumerRead(0, epoch)); code != kafka.NotLeaderOrFollower {
		t.Errorf("a replica that is gone: %v", code)
	}
}

func TestConsumersAtAFollowerWakeWhenItsHighWatermarkMoves(t *testing.T) {
	c := newCluster(t, 2, 1)
	c.elect(1)
	c.applyAll()
	c.settle()
	p, w := c.node(2).partition(0), NewWaiter()
	p.Register(w)
	w.Arm(1)
	c.edit = func(d *FetchedPartition) { d.HighWatermark = 0 }
	c.node(1).produce(1)
	c.settle()
	if len(w.C()) > 0 {
		t.Fatal("woken by records that it may not see")
	}
	c.edit = nil
	c.wait(time.Second)
	<-w.C()
	p.Register(w)
	w.Look()
	c.elect(1)
	c.applyAll()
	<-w.C() // its leader epoch is over
}

// The high watermark may stop between two batches: whoever then waits for the second one is woken when that becomes visible.
func TestConsumersWakeForWhatTheHighWatermarkReachesLater(t *testing.T) {
	c := newCluster(t, 2, 1)
	epoch := c.elect(1)
	c.applyAll()
	c.settle()
	p := c.node(1).partition(0)
	fetch := func(offset int64) {
		t.Helper()
		r := &ReadRequest{Offset: offset, MaxBytes: 1, Replica: 2, ReplicaEpoch: 2, CurrentLeaderEpoch: epoch, LastFetchedEpoch: kafka.NoLeaderEpoch, Fetched: c.now}
		if _, _, code := readBytes(t, p, r); code != kafka.None {
			t.Fatal(code)
		}
	}
	c.node(1).produce(1, 1, 1)
	for offset := range int64(3) {
		w := NewWaiter()
		p.Register(w)
		w.Arm(1)
		fetch(offset + 1)
		if len(w.C()) == 0 {
			t.Errorf("not woken when the high watermark came to %d", p.log.HighWatermark())
		}
		p.Unregister(w)
	}
}

func TestHiddenBytesAreNeverTooFew(t *testing.T) {
	h := uncounted(3, 3)
	h.add(10) // 3 to 5
	h.add(20) // 5 to 7
	if n := h.shown(5, 7); n < 10 {
		t.Errorf("%d bytes at offset 5", n)
	}
	h.add(40) // 7 to 9
	if n := h.shown(7, 9); n < 20 {
		t.Errorf("%d bytes at offset 7", n)
	}
	if n := h.shown(9, 9); n < 40 || n > 60 {
		t.Errorf("%d bytes at offset 9", n)
	}
	if n := h.shown(9, 9); n != 0 {
		t.Errorf("%d bytes where nothing is hidden", n)
	}
	if h = uncounted(3, 4); h.shown(4, 4) < unknownBytes {
		t.Error("bytes that nobody counted do not wake everybody")
	}
}

func TestLeadersNameANearReplica(t *testing.T) {
	c := newCluster(t, 3, 1)
	c.elect(1)
	epoch := c.elect(1)
	c.parts[0].ISR = c.parts[0].Replicas
	c.applyAll()
	c.node(1).produce(1)
	c.settle()
	p := c.node(1).partition(0)
	near := func(id kafka.BrokerID) bool { return id == 3 }
	for name, test := range map[string]struct {
		change func(*ReadRequest)
		want   kafka.BrokerID
		code   kafka.Code
	}{
		"near":                  {func(*ReadRequest) {}, 3, kafka.None},
		"at its end":            {func(r *ReadRequest) { r.Offset = 1 }, 3, kafka.None},
		"no rack":               {func(r *ReadRequest) { r.Near = nil }, kafka.NoBroker, kafka.None},
		"nobody there":          {func(r *ReadRequest) { r.Near = func(kafka.BrokerID) bool { return false } }, kafka.NoBroker, kafka.None},
		"an older leader epoch": {func(r *ReadRequest) { r.CurrentLeaderEpoch-- }, 0, kafka.FencedLeaderEpoch},
	} {
		r := consumerRead(0, epoch)
		r.Near = near
		test.change(r)
		n, result, code := readBytes(t, p, r)
		if code != test.code || result.PreferredReplica != test.want || n > 0 && result.PreferredReplica != kafka.NoBroker {
			t.Errorf("%s: %v, replica %d, %d bytes", name, code, result.PreferredReplica, n)
		}
	}
	r := consumerRead(0, epoch)
	r.Near = near
	if n, result, code := readBytes(t, c.node(3).partition(0), r); n == 0 || result.PreferredReplica != kafka.NoBroker || code != kafka.None {
		t.Errorf("at the follower: %v, replica %d, %d bytes", code, result.PreferredReplica, n)
	}
}
