package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
)

// largeGroup is a stable group of n members.
func largeGroup(n int) (*runtime, []string) {
	settings := testSettings()
	settings.MaxSize = int32(n)
	rt := newRuntime(settings, 1)
	var ids []string
	metadata := subscriptionBytes(3, "topic")
	for range n {
		q := kmsg.NewPtrJoinGroupRequest()
		q.Version, q.Group, q.SessionTimeoutMillis, q.RebalanceTimeoutMillis, q.ProtocolType = 3, "g", 60000, 60000, "consumer"
		q.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: metadata}, {Name: "roundrobin", Metadata: metadata}}
		rt.step(&coordinator.Call{Body: q, ClientID: "client", Done: func(body any, _ error) { ids = append(ids, body.(*kmsg.JoinGroupResponse).MemberID) }})
	}
	rt.advance(time.Minute)
	for _, id := range ids {
		q := kmsg.NewPtrSyncGroupRequest()
		q.Group, q.MemberID, q.Generation = "g", id, 1
		rt.step(&coordinator.Call{Body: q, Done: func(any, error) {}})
	}
	if g := rt.shard.groups["g"]; g.state != stateStable || len(ids) != n || g.unsynced != 0 {
		panic(fmt.Sprintf("%v with %d members, %d unsynced", g.state, len(ids), g.unsynced))
	}
	return rt, ids
}

// A group forms at a cost a member that does not grow with the group.
func BenchmarkFormGroup(b *testing.B) {
	for _, n := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				largeGroup(n)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/member")
		})
	}
}

func BenchmarkHeartbeat(b *testing.B) {
	rt, ids := largeGroup(1000)
	q := kmsg.NewPtrHeartbeatRequest()
	q.Group, q.Generation = "g", 1
	c := &coordinator.Call{Body: q}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		q.MemberID = ids[i%len(ids)]
		if out := rt.shard.Step(rt.now, c); out.Replies[0].Body.(*kmsg.HeartbeatResponse).ErrorCode != 0 {
			b.Fatal(out)
		}
	}
}

// A heartbeat makes the answer and the two lists of one that carry it, and nothing else.
func TestHeartbeatAllocates(t *testing.T) {
	rt, ids := largeGroup(10)
	q := kmsg.NewPtrHeartbeatRequest()
	q.Group, q.Generation, q.MemberID = "g", 1, ids[3]
	c := &coordinator.Call{Body: q}
	if n := testing.AllocsPerRun(100, func() { rt.shard.Step(rt.now, c) }); n > 3 {
		t.Errorf("%v allocations, want at most 3", n)
	}
}
