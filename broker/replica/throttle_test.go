package replica

import (
	"slices"
	"testing"
	"time"

	"weir/internal/kafka"
)

func TestThrottle(t *testing.T) {
	now := testTime
	th := NewThrottle(1000)
	requireWait := func(want time.Duration) {
		t.Helper()
		if got := th.Wait(now); got < want || got > want+2*time.Millisecond {
			t.Fatalf("waits %v, want %v", got, want)
		}
	}
	requireWait(0)
	th.Add(now, 900)
	requireWait(0) // a second's worth may come at once
	th.Add(now, 600)
	requireWait(500 * time.Millisecond)
	now = now.Add(500 * time.Millisecond)
	requireWait(time.Millisecond)
	now = now.Add(time.Hour) // what was not copied counts for a second only
	th.Add(now, 1500)
	requireWait(500 * time.Millisecond)
	th.Add(now, 10_000)
	requireWait(maxThrottleWait)
	th.SetRate(now, 100_000)
	requireWait(105 * time.Millisecond)
	th.SetRate(now, unlimitedRate)
	requireWait(0)
	th.SetRate(now, 0)
	now = now.Add(time.Second)
	requireWait(maxThrottleWait)
	if th = nil; th.Wait(now) != 0 {
		t.Error("without a throttle there is a wait")
	}
	th.Add(now, 1)
}

func TestThrottledReplicas(t *testing.T) {
	for _, test := range []struct {
		replicas []string
		want     []int32 // of partitions 0 to 3, on broker 7
	}{
		{nil, nil},
		{[]string{""}, nil},
		{[]string{"*"}, []int32{0, 1, 2, 3}},
		{[]string{"3:7", "1:8", "0:7", "2:77"}, []int32{0, 3}},
		{[]string{"0", ":7", "0:", "x:7", "99999999999:7"}, nil},
	} {
		throttled := ThrottledOn(7, test.replicas)
		var got []int32
		for p := range int32(4) {
			if throttled.Has(p) {
				got = append(got, p)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%q: partitions %v, want %v", test.replicas, got, test.want)
		}
	}
}

func (n *node) end(partition int) int64 { return n.partition(partition).log.EndOffset() }

func TestLeadersGiveThrottledFollowersNothingWhileTheRateIsExceeded(t *testing.T) {
	c := newCluster(t, 2, 2)
	c.config.LeaderThrottled = ThrottledOn(1, []string{"0:1"})
	sending := NewThrottle(10)
	c.node(1).manager.surroundings.sending = sending
	epoch := c.elect(1)
	c.applyAll()
	c.node(1).produceTo(0, 1)
	c.node(1).produceTo(1, 1)
	sending.Add(c.now, 1000)
	read := func(partition int) (bytes int) {
		t.Helper()
		p := c.node(1).partition(partition)
		r := &ReadRequest{MaxBytes: 1 << 20, AtLeastOne: true, Replica: 2, ReplicaEpoch: 2, CurrentLeaderEpoch: epoch, LastFetchedEpoch: kafka.NoLeaderEpoch}
		n, _, code := readBytes(t, p, r)
		if code != kafka.None {
			t.Fatal(code)
		}
		if readable, _ := p.Readable(r); (readable > 0) != (n > 0) {
			t.Errorf("partition %d: %d bytes are readable, %d are read", partition, readable, n)
		}
		return n
	}
	if n := read(0); n != 0 {
		t.Errorf("%d bytes of the throttled partition", n)
	}
	if n := read(1); n == 0 {
		t.Error("nothing of the other one")
	}
	sending.SetRate(c.now, unlimitedRate)
	if n := read(0); n == 0 {
		t.Error("nothing without a limit")
	}
	sending.SetRate(c.now, 10)
	if n := read(0); n != 0 {
		t.Errorf("%d bytes with the limit again", n)
	}
	c.parts[0].ISR = c.parts[0].Replicas
	c.parts[0].PartitionEpoch++
	c.applyAll()
	if n := read(0); n == 0 {
		t.Error("nothing for a follower in sync")
	}
	before := sending.Wait(c.now)
	sending.SetRate(c.now, 1<<30)
	c.node(1).partition(0).CountSent(1 << 31)
	c.node(1).partition(1).CountSent(1 << 40)
	if wait := sending.Wait(c.now); before == 0 || wait < 900*time.Millisecond || wait > 1100*time.Millisecond {
		t.Errorf("waits %v, and %v for what was sent since", before, wait)
	}
}

func TestFollowersLeaveThrottledPartitionsOutWhileTheRateIsExceeded(t *testing.T) {
	for name, sessions := range map[string]bool{"with sessions": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 2, 2)
			c.sessions = sessions
			c.config.FollowerThrottled = ThrottledOn(2, []string{"0:2"})
			receiving := NewThrottle(1000)
			c.node(2).fetchers.options.Throttle = receiving
			c.elect(1)
			c.applyAll()
			receiving.Add(c.now, 3000)
			c.node(1).produceTo(0, 1)
			c.node(1).produceTo(1, 1)
			c.wait(time.Second)
			if n := c.node(2); n.end(0) != 0 || n.end(1) != 1 {
				t.Fatalf("after a second the ends are %d and %d", n.end(0), n.end(1))
			}
			c.wait(2 * time.Second)
			if n := c.node(2); n.end(0) != 1 {
				t.Fatalf("after three seconds the end is %d", n.end(0))
			}
			// In sync it is not throttled any more.
			receiving.Add(c.now, 10_000)
			c.node(1).produceTo(0, 1)
			c.wait(time.Second)
			if n := c.node(2); n.end(0) != 2 {
				t.Fatalf("in sync: the end is %d", n.end(0))
			}
			// Nor by the next leader, of which nothing is known yet.
			c.elect(1)
			c.parts[0].ISR = c.parts[0].Replicas
			c.applyAll()
			c.node(1).produceTo(0, 1)
			c.wait(time.Second)
			if n := c.node(2); n.end(0) != 3 {
				t.Fatalf("in sync after an election: the end is %d", n.end(0))
			}
		})
	}
}
