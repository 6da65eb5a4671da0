package group

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// TestRandomCalls throws calls, time, commits that fail and reloads at a shard, and asks after every step for what must
// always hold.
func TestRandomCalls(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newCrowd(t, seed)
			for range 2500 {
				w.act()
				if t.Failed() {
					return
				}
			}
			w.settle()
			w.checkReplay()
			if w.answers[kafka.None] < 200 || w.synced < 20 || w.reloads == 0 {
				t.Errorf("the run is no test: answers %v, %d assignments, %d reloads", w.answers, w.synced, w.reloads)
			}
		})
	}
}

// crowd are clients that do what they like.
type crowd struct {
	*runtime
	t    *testing.T
	rand *rand.Rand

	hardBefore hard
	waiting    map[*coordinator.Call]bool
	members    map[string][]*client // by group; some are no members any more
	generation map[*classic]int32
	leaders    map[generationOf]string
	assigned   map[assignmentOf]map[string][][]byte // what leaders sent, by member
	answers    map[kafka.Code]int
	synced     int
	reloads    int
	step       int
}

type client struct {
	id         string
	instance   *string
	generation int32
	others     []string // of a leader
}

// generationOf names a generation. A group that is deleted, or loaded, may repeat one: then it is another classic.
type generationOf struct {
	group      *classic
	generation int32
}

type assignmentOf struct {
	group      string
	generation int32
}

func newCrowd(t *testing.T, seed uint64) *crowd {
	settings := testSettings()
	settings.MaxSize = 6
	settings.OffsetsRetention = time.Hour
	w := &crowd{
		t: t, rand: rand.New(rand.NewPCG(seed, 7)), runtime: newRuntime(settings, seed), waiting: make(map[*coordinator.Call]bool),
		members: make(map[string][]*client), generation: make(map[*classic]int32), leaders: make(map[generationOf]string),
		assigned: make(map[assignmentOf]map[string][][]byte), answers: make(map[kafka.Code]int),
	}
	w.before = func() { w.hardBefore = cloneHard(&w.shard.hard) }
	w.seen = w.checkStep
	return w
}

func (w *crowd) chance(percent int) bool { return w.rand.IntN(100) < percent }

func (w *crowd) act() {
	w.step++
	group := pick(w.rand, []string{"g", "h", "i"})
	switch n := w.rand.IntN(100); {
	case n < 30:
		w.join(group)
	case n < 52:
		w.sync(group)
	case n < 62:
		w.heartbeat(group)
	case n < 66:
		w.leave(group)
	case n < 74:
		w.commitOffset(group)
	case n < 76:
		w.call(pick(w.rand, []any{Delete{group}, List{}, Describe{group, 6}}), func(any) {})
	case n < 77:
		w.runtime.step(TopicsDeleted{Topics: []DeletedTopic{{Name: pick(w.rand, []string{"t", "u"})}}})
	case n < 90:
		w.advance(time.Duration(w.rand.IntN(4000)) * time.Millisecond)
	case n < 92:
		w.advance(time.Duration(w.rand.IntN(90)) * time.Second)
	case n < 93:
		w.advance(time.Duration(w.rand.IntN(90)) * time.Minute)
	case n < 95:
		w.hold = true
	case n < 98:
		w.hold = false
		w.commit(nil)
	case n < 99:
		w.hold = false
		w.commit(kafka.Errorf(kafka.RequestTimedOut, ""))
	default:
		w.rarely()
	}
	w.checkGroups()
	if w.step%50 == 0 {
		w.checkReplay()
	}
}

func (w *crowd) rarely() {
	switch w.rand.IntN(4) {
	case 0:
		w.settle()
	case 1:
		w.checkReplay()
		clear(w.waiting)
		w.reloads++
		w.hold, w.refuse = false, nil
		w.reload()
	default:
		w.refuse = kafka.Errorf(kafka.NotLeaderOrFollower, "")
	}
}

// settle lets time pass until everything that waits must have an answer.
func (w *crowd) settle() {
	w.hold = false
	w.commit(nil)
	w.advance(20 * time.Minute)
	for c := range w.waiting {
		w.t.Errorf("not answered: %T %+v", c.Body, c.Body)
	}
}

func (w *crowd) call(body any, answered func(body any)) {
	c := &coordinator.Call{Body: body, ClientID: pick(w.rand, []string{"", "a", "b"}), ClientHost: "/127.0.0.1"}
	w.waiting[c] = true
	reloads := w.reloads
	c.Done = func(answer any, err error) {
		if reloads != w.reloads {
			w.t.Errorf("an answer of a shard that is gone")
		}
		if !w.waiting[c] {
			w.t.Errorf("answered twice: %T", body)
		}
		delete(w.waiting, c)
		if err == nil {
			answered(answer)
		}
		scribble(body)
	}
	w.runtime.step(c)
}

// scribble overwrites what a request's memory is used for next.
func scribble(body any) {
	fill := func(b []byte) {
		for i := range b {
			b[i] = '#'
		}
	}
	switch q := body.(type) {
	case *kmsg.JoinGroupRequest:
		for _, p := range q.Protocols {
			fill(p.Metadata)
		}
	case *kmsg.SyncGroupRequest:
		for _, a := range q.GroupAssignment {
			fill(a.MemberAssignment)
		}
	}
}

// somebody is a client of a group: mostly one that is a member, else one that was, or a new one.
func (w *crowd) somebody(group string) *client {
	if known := w.members[group]; len(known) > 0 && w.chance(15) {
		return known[max(0, len(known)-1-w.rand.IntN(8))]
	}
	if g := w.shard.groups[group]; g != nil && len(g.list)+len(g.pending) > 0 && w.chance(85) {
		m := pick(w.rand, slices.AppendSeq(slices.Clone(g.list), slices.Values(slices.SortedFunc(maps.Values(g.pending), byID))))
		c := &client{id: m.id, instance: m.instanceID, generation: g.generation}
		if g.leader == m {
			for _, other := range g.list {
				c.others = append(c.others, other.id)
			}
		}
		return c
	}
	return &client{generation: -1}
}

func (w *crowd) join(group string) {
	from := w.somebody(group)
	if len(w.waiting) > 12 && from.id == "" {
		return
	}
	q := kmsg.NewPtrJoinGroupRequest()
	q.Version, q.Group, q.MemberID, q.InstanceID = int16(w.rand.IntN(10)), group, from.id, from.instance
	if from.id == "" && w.chance(25) {
		q.InstanceID = new(pick(w.rand, []string{"X", "Y"}))
	}
	if q.InstanceID != nil {
		q.Version = max(q.Version, 5)
		if w.chance(30) {
			q.MemberID = ""
		}
	}
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = int32(6000+w.rand.IntN(20000)), int32(w.rand.IntN(60000))
	q.ProtocolType = "consumer"
	if w.chance(2) {
		q.ProtocolType = "connect"
	}
	for _, name := range pick(w.rand, [][]string{{"p"}, {"p", "q"}, {"q", "p"}, {"q", "p", "q"}, {"r", "p"}, {}}) {
		metadata := subscriptionBytes(1, pick(w.rand, []string{"t", "u"}))
		if w.chance(10) {
			metadata = []byte("opaque")
		}
		q.Protocols = append(q.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: metadata})
	}
	w.call(q, func(body any) {
		resp := body.(*kmsg.JoinGroupResponse)
		code := kafka.Code(resp.ErrorCode)
		w.answers[code]++
		if code != kafka.None && code != kafka.MemberIDRequired {
			return
		}
		c := &client{id: resp.MemberID, instance: q.InstanceID, generation: resp.Generation}
		w.members[group] = append(w.members[group], c)
		if resp.LeaderID != resp.MemberID || code != kafka.None || resp.SkipAssignment {
			if len(resp.Members) > 0 && !resp.SkipAssignment {
				w.t.Errorf("a follower is told the members: %+v", resp)
			}
			return
		}
		for _, m := range resp.Members {
			c.others = append(c.others, m.MemberID)
		}
		if !slices.Contains(c.others, resp.MemberID) {
			w.t.Errorf("a leader is not among the members: %+v", resp)
		}
	})
}

func (w *crowd) sync(group string) {
	from := w.somebody(group)
	q := kmsg.NewPtrSyncGroupRequest()
	q.Version, q.Group, q.MemberID, q.InstanceID, q.Generation = int16(w.rand.IntN(5)), group, from.id, from.instance, from.generation
	sent := make(map[string][]byte)
	for _, m := range from.others {
		if w.chance(80) {
			sent[m] = fmt.Appendf(nil, "%d for %s", w.step, m)
			q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: m, MemberAssignment: bytes.Clone(sent[m])})
		}
	}
	key := assignmentOf{group, from.generation}
	if w.assigned[key] == nil {
		w.assigned[key] = make(map[string][][]byte)
	}
	for _, m := range from.others {
		w.assigned[key][m] = append(w.assigned[key][m], sent[m])
	}
	w.call(q, func(body any) {
		resp := body.(*kmsg.SyncGroupResponse)
		w.answers[kafka.Code(resp.ErrorCode)]++
		if resp.ErrorCode != 0 {
			return
		}
		w.synced++
		for _, sent := range w.assigned[key] {
			for _, b := range sent {
				if bytes.Equal(b, resp.MemberAssignment) {
					return
				}
			}
		}
		if len(resp.MemberAssignment) > 0 {
			w.t.Errorf("%s got %q, which nobody sent it", q.MemberID, resp.MemberAssignment)
		}
	})
}

func (w *crowd) heartbeat(group string) {
	from := w.somebody(group)
	q := kmsg.NewPtrHeartbeatRequest()
	q.Group, q.MemberID, q.InstanceID, q.Generation = group, from.id, from.instance, from.generation
	w.call(q, func(body any) { w.answers[kafka.Code(body.(*kmsg.HeartbeatResponse).ErrorCode)]++ })
}

func (w *crowd) leave(group string) {
	q := kmsg.NewPtrLeaveGroupRequest()
	q.Version, q.Group = 5, group
	for range w.rand.IntN(3) {
		from := w.somebody(group)
		m := kmsg.LeaveGroupRequestMember{MemberID: from.id, InstanceID: from.instance}
		if from.instance != nil && w.chance(50) {
			m.MemberID = ""
		}
		q.Members = append(q.Members, m)
	}
	w.call(q, func(any) {})
}

func (w *crowd) commitOffset(group string) {
	from := w.somebody(group)
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Version, q.Group, q.MemberID, q.InstanceID, q.Generation = 8, group, from.id, from.instance, from.generation
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = int32(w.rand.IntN(3)), int64(w.step)
	q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: pick(w.rand, []string{"t", "u"}), Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
	w.call(q, func(any) {})
}

// checkStep: a Step leaves hard state alone, and a generation has one leader.
func (w *crowd) checkStep(in coordinator.Input, out *coordinator.Output) {
	if !reflect.DeepEqual(w.hardBefore, w.shard.hard) {
		w.t.Errorf("Step changed hard state: %T %+v", in, in)
	}
	for _, r := range out.Replies {
		resp, is := r.Body.(*kmsg.JoinGroupResponse)
		if !is || resp.ErrorCode != 0 || resp.LeaderID != resp.MemberID || resp.SkipAssignment {
			continue
		}
		key := generationOf{w.shard.groups[r.To.Body.(*kmsg.JoinGroupRequest).Group], resp.Generation}
		if other, led := w.leaders[key]; led && other != resp.MemberID {
			w.t.Errorf("generation %d has two leaders: %s and %s", resp.Generation, other, resp.MemberID)
		}
		w.leaders[key] = resp.MemberID
	}
}

// checkReplay: the records alone give the hard state that lives.
func (w *crowd) checkReplay() {
	if replayed := replay(w.settings, 0, w.log); !reflect.DeepEqual(replayed.hard, w.shard.hard) {
		w.t.Errorf("replayed hard state is another:\n%+v\n%+v", replayed.hard, w.shard.hard)
	}
}

// checkGroups: what the counters say is so, generations go up, and nothing waits without a timer.
func (w *crowd) checkGroups() {
	for id, g := range w.shard.groups {
		if g.generation < w.generation[g] {
			w.t.Errorf("%s: generation %d after %d", id, g.generation, w.generation[g])
		}
		w.generation[g] = g.generation
		if why := w.wrong(g); why != "" {
			w.t.Errorf("step %d: %s in %v: %s", w.step, id, g.state, why)
		}
	}
	for id := range w.shard.hard.metadata {
		// A group that is being removed is forgotten before its tombstone is on record.
		if w.shard.groups[id] == nil && !w.hold {
			w.t.Errorf("%s is on record and not known", id)
		}
	}
}

func (w *crowd) wrong(g *classic) string {
	joining, unsynced, instances := 0, 0, 0
	supported := make(map[string]int)
	for _, m := range g.list {
		timer := w.timers[sessionTimer{m}] != nil
		switch {
		case m.group != g || g.members[m.id] != m:
			return m.id + " is not known by its id"
		case m.instanceID != nil && g.instances[*m.instanceID] != m:
			return m.id + " is not known by its instance"
		case !timer && (m.isNew || m.join == nil && m.sync == nil):
			return m.id + " has no session"
		case m.sync != nil && g.state != stateCompletingRebalance:
			return m.id + " waits for an assignment"
		}
		if m.join != nil {
			joining++
		}
		if m.unsynced {
			unsynced++
		}
		if m.instanceID != nil {
			instances++
		}
		names := make(map[string]bool)
		for _, p := range m.protocols {
			names[p.name] = true
		}
		for name := range names {
			supported[name]++
		}
	}
	for _, m := range g.pending {
		if w.timers[sessionTimer{m}] == nil {
			return m.id + " is pending for ever"
		}
	}
	switch {
	case joining != g.joining || unsynced != g.unsynced || instances != len(g.instances) || len(g.list) != len(g.members):
		return fmt.Sprintf("counts are wrong: joining %d %d, unsynced %d %d", joining, g.joining, unsynced, g.unsynced)
	case !maps.Equal(supported, g.supported):
		return fmt.Sprintf("protocols are %v, counted %v", supported, g.supported)
	case g.isEmpty() && len(g.list) > 0, g.state > statePreparingRebalance && len(g.list) == 0:
		return fmt.Sprintf("%d members", len(g.list))
	case (g.leader == nil) != (len(g.list) == 0), g.leader != nil && g.members[g.leader.id] != g.leader:
		return "the leader is no member"
	case g.state == statePreparingRebalance && w.timers[joinTimer{g}] == nil:
		return "nothing ends the rebalance"
	case g.unsynced > 0 && w.timers[syncTimer{g}] == nil:
		return "nothing ends the wait for those that do not sync"
	case (g.storing != nil) != (g.state == stateCompletingRebalance) && g.storing != nil:
		return "an assignment of no rebalance"
	}
	return ""
}

func cloneHard(h *hard) hard {
	c := hard{metadata: make(map[string]*metadata), offsets: newOffsets()}
	for id, m := range h.metadata {
		m := *m
		m.Members = slices.Clone(m.Members)
		for i := range m.Members {
			m.Members[i].Subscription = bytes.Clone(m.Members[i].Subscription)
			m.Members[i].Assignment = bytes.Clone(m.Members[i].Assignment)
		}
		c.metadata[id] = &m
	}
	for id, g := range h.offsets.byGroup {
		g := *g
		g.topics = slices.Clone(g.topics)
		for i := range g.topics {
			g.topics[i].partitions = slices.Clone(g.topics[i].partitions)
		}
		c.offsets.byGroup[id] = &g
	}
	return c
}

func pick[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }
