package cluster

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"weir/cluster/controller"
	"weir/internal/kafka"
)

// Whichever node is asked, the one that leads says how far everybody has come. A node that joins is a learner.
func TestDescribeQuorumAnywhere(t *testing.T) {
	w := newWorld(t, 1, 3)
	w.up(1, 2, 3)
	w.add(4, func(o *Options) { o.Join, o.Roles.NoBroker = w.members, false })
	w.up(4)
	w.pass(time.Second)
	active := w.active()
	want := active.node.DescribeQuorum()
	voters := []kafka.BrokerID{}
	for _, v := range want.Voters {
		voters = append(voters, v.Node)
		if v.LogEndOffset != want.HighWatermark || v.Directory != w.hosts[v.Node].o.DirectoryID {
			t.Errorf("%+v, though all is quiet at %d", v, want.HighWatermark)
		}
	}
	if want.Leader != active.id || !slices.Equal(voters, []kafka.BrokerID{1, 2, 3}) || len(want.Learners) != 1 || want.Learners[0].Node != 4 {
		t.Errorf("%+v", want)
	}
	for _, m := range w.all() {
		r := w.submit(m, controller.DescribeQuorum{})
		got, ok := r.reply.(controller.DescribeQuorumReply)
		for _, q := range slices.Concat(got.Voters, got.Learners) {
			if now := w.clock.Now(); now.Sub(time.UnixMilli(q.LastFetchMs)) > time.Second || now.Sub(time.UnixMilli(q.LastCaughtUpMs)) > time.Second {
				t.Errorf("all is well, and node %d is said to be %+v at %d", q.Node, q, now.UnixMilli())
			}
		}
		got, want := timeless(got), timeless(want)
		if r.err != nil || !ok || got.Leader != want.Leader || got.LeaderEpoch != want.LeaderEpoch || !slices.Equal(got.Voters, want.Voters) || !slices.Equal(got.Learners, want.Learners) {
			t.Errorf("node %d is told %+v, %v; want %+v", m.id, got, r.err, want)
		}
	}
	if own := w.follower().node.DescribeQuorum(); own.Leader != active.id || !reflect.DeepEqual(own.Voters, timeless(own).Voters) {
		t.Errorf("a node that follows knows %+v", own)
	}
}

// timeless leaves out when members answered.
func timeless(r controller.DescribeQuorumReply) controller.DescribeQuorumReply {
	r.Voters, r.Learners = slices.Clone(r.Voters), slices.Clone(r.Learners)
	for _, replicas := range [][]controller.QuorumReplica{r.Voters, r.Learners} {
		for i := range replicas {
			replicas[i].LastFetchMs, replicas[i].LastCaughtUpMs = 0, 0
		}
	}
	return r
}
