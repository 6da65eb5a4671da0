package tracker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"weir/internal/kafka"
)

// TestCommittedRecordsAreOnEveryInSyncReplica plays a leader against a controller and two followers whose messages are late,
// lost and out of order, and whose disks are lost: whatever the leader took for committed must be on every replica that the
// controller counts as in sync, since any of them may lead next. When all is well again, all are in sync and have all.
func TestCommittedRecordsAreOnEveryInSyncReplica(t *testing.T) {
	seeds := uint64(2000)
	if testing.Short() {
		seeds = 200
	}
	for seed := range seeds {
		if err := play(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

const (
	steps      = 400
	maxLag     = 30 * time.Second
	modelMin   = 2
	leads      = kafka.BrokerID(1) // in every epoch, so that its log is all there is
	loseAnswer = kafka.Code(13)    // NETWORK_EXCEPTION
)

// world is all that there is of one partition. What the leader knows of it comes by messages.
type world struct {
	r       *rand.Rand
	now     time.Time
	end     int64                     // of the leader's log
	ends    map[kafka.BrokerID]int64  // of the followers' logs
	brokers map[kafka.BrokerID]Broker // as registered
	truth   Registration              // as the controller has it
	visible int64                     // highest high watermark that there ever was
	known   map[kafka.BrokerID]Broker // brokers as the leader knows them
	leader  *Leader
	fetches []Fetch    // under way to the leader
	asked   []Proposal // under way to the controller: one at most
	answers []Answer   // under way back
	sent    Proposal
	news    []metadata // under way to the leader, in order
}

// metadata is a change that the controller has committed.
type metadata struct {
	registration Registration
	broker       kafka.BrokerID
	state        Broker
}

func play(seed uint64) error {
	w := &world{r: rand.New(rand.NewPCG(seed, 1)), now: start, end: 10, ends: map[kafka.BrokerID]int64{2: 10, 3: 10},
		brokers: map[kafka.BrokerID]Broker{1: {1, true}, 2: {2, true}, 3: {3, true}}, known: map[kafka.BrokerID]Broker{1: {1, true}, 2: {2, true}, 3: {3, true}}}
	w.truth = Registration{Replicas: []kafka.BrokerID{1, 2, 3}, ISR: []kafka.BrokerID{1, 2, 3}}
	w.lead(w.truth)
	for step := range steps {
		w.now = w.now.Add(time.Duration(w.r.IntN(4000)) * time.Millisecond)
		if err := w.step(w.r.IntN(100)); err != nil {
			return fmt.Errorf("step %d: %w", step, err)
		}
	}
	return w.heal()
}

// step lets one thing happen, in proportion to n of 100.
func (w *world) step(n int) error {
	switch follower := kafka.BrokerID(2 + w.r.IntN(2)); {
	case n < 15:
		w.end += int64(w.r.IntN(4))
	case n < 40:
		w.fetch(follower)
	case n < 60:
		w.deliverFetch()
	case n < 68:
		w.ask()
	case n < 76:
		w.decide()
	case n < 82:
		w.deliverAnswer()
	case n < 92:
		w.deliverNews()
	case n < 95:
		w.leader.Check(w.now, w.end)
	case n < 97:
		w.loseDisk(follower)
	case n < 99:
		w.fence(follower, w.brokers[follower].Active)
	default:
		w.elect()
	}
	return w.check()
}

// check advances the high watermark and holds it against what must be true.
func (w *world) check() error {
	l, before := w.leader, w.leader.HighWatermark()
	hw := l.Advance(w.now, w.end)
	switch {
	case hw < before:
		return fmt.Errorf("the high watermark went back from %d to %d", before, hw)
	case hw > w.end:
		return fmt.Errorf("the high watermark is %d, the log's end %d", hw, w.end)
	case hw > before && len(l.ISR()) < modelMin:
		return fmt.Errorf("the high watermark moved to %d with the ISR %v", hw, l.ISR())
	}
	w.visible = max(w.visible, hw)
	for _, id := range w.truth.ISR {
		if id != leads && w.ends[id] < w.visible {
			return fmt.Errorf("offset %d was committed, and replica %d of the ISR %v ends at %d", w.visible, id, w.truth.ISR, w.ends[id])
		}
	}
	return nil
}

func (w *world) lead(r Registration) {
	// The log's own high watermark may be far behind what was committed: that of a follower is, and a checkpoint's.
	hw := w.visible - int64(w.r.IntN(6))
	w.leader = NewLeader(Options{Self: leads, MaxLag: maxLag, Brokers: func(id kafka.BrokerID) (Broker, bool) {
		b, ok := w.known[id]
		return b, ok
	}}, w.now, r, modelMin, w.end, max(hw, 0))
}

func (w *world) fetch(id kafka.BrokerID) {
	w.fetches = append(w.fetches, Fetch{Replica: id, BrokerEpoch: w.brokers[id].Epoch, Offset: w.ends[id]})
}

// deliverFetch lets the leader answer one of the fetches; the follower has the answer at once, if it still waits for it.
func (w *world) deliverFetch() {
	if len(w.fetches) == 0 {
		return
	}
	i := w.r.IntN(len(w.fetches))
	f := w.fetches[i]
	w.fetches = slices.Delete(w.fetches, i, i+1)
	f.LeaderEnd, f.Time = w.end, w.now
	if !w.leader.Fetched(f) {
		return
	}
	w.leader.TryExpand(f.Replica)
	if f.BrokerEpoch == w.brokers[f.Replica].Epoch && f.Offset == w.ends[f.Replica] {
		w.ends[f.Replica] += w.r.Int64N(w.end - f.Offset + 1)
	}
}

func (w *world) ask() {
	if p, ok := w.leader.Proposal(); ok && len(w.asked)+len(w.answers) == 0 {
		w.asked, w.sent = append(w.asked, p), p
	}
}

// decide is the controller's part of AlterPartition.
func (w *world) decide() {
	if len(w.asked) == 0 {
		return
	}
	p := w.asked[0]
	w.asked = nil
	code := w.validate(p)
	if code == kafka.None {
		next := w.truth
		next.ISR, next.PartitionEpoch = nil, next.PartitionEpoch+1
		for _, m := range p.ISR {
			next.ISR = append(next.ISR, m.Broker)
		}
		w.commit(next)
	}
	if w.r.IntN(4) == 0 {
		code = loseAnswer
	}
	w.answers = append(w.answers, Answer{Code: code, Leader: leads, LeaderEpoch: w.truth.LeaderEpoch, PartitionEpoch: w.truth.PartitionEpoch, ISR: w.truth.ISR})
}

func (w *world) validate(p Proposal) kafka.Code {
	switch {
	case p.LeaderEpoch != w.truth.LeaderEpoch:
		return kafka.FencedLeaderEpoch
	case p.PartitionEpoch != w.truth.PartitionEpoch:
		return kafka.InvalidUpdateVersion
	}
	for _, m := range p.ISR {
		if b := w.brokers[m.Broker]; !b.Active || m.Epoch != unknownBrokerEpoch && m.Epoch != b.Epoch {
			return kafka.IneligibleReplica
		}
	}
	return kafka.None
}

func (w *world) deliverAnswer() {
	if len(w.answers) > 0 {
		w.leader.Answered(w.sent, w.answers[0])
		w.answers = nil
	}
}

func (w *world) commit(r Registration) {
	w.truth = r
	w.news = append(w.news, metadata{registration: r})
}

func (w *world) register(id kafka.BrokerID, b Broker) {
	w.brokers[id] = b
	w.news = append(w.news, metadata{broker: id, state: b})
}

func (w *world) deliverNews() {
	if len(w.news) == 0 {
		return
	}
	news := w.news[0]
	w.news = w.news[1:]
	switch {
	case news.broker != 0:
		w.known[news.broker] = news.state
	case news.registration.LeaderEpoch > w.leader.LeaderEpoch():
		w.lead(news.registration)
	default:
		w.leader.Update(w.now, news.registration, modelMin)
	}
}

// loseDisk has a follower's broker come back as another incarnation, with nothing.
func (w *world) loseDisk(id kafka.BrokerID) {
	w.ends[id] = 0
	w.leave(id)
	w.register(id, Broker{Epoch: w.brokers[id].Epoch + 10, Active: true})
}

func (w *world) fence(id kafka.BrokerID, fenced bool) {
	if fenced {
		w.leave(id)
	}
	w.register(id, Broker{Epoch: w.brokers[id].Epoch, Active: !fenced})
}

func (w *world) leave(id kafka.BrokerID) {
	if next := w.truth; slices.Contains(next.ISR, id) {
		next.ISR = slices.DeleteFunc(slices.Clone(next.ISR), func(other kafka.BrokerID) bool { return other == id })
		next.PartitionEpoch++
		w.commit(next)
	}
}

func (w *world) elect() {
	next := w.truth
	next.LeaderEpoch++
	next.PartitionEpoch++
	w.commit(next)
}

// heal lets everything arrive until nothing is left to do.
func (w *world) heal() error {
	for _, id := range []kafka.BrokerID{2, 3} {
		w.fence(id, false)
	}
	for range 100 {
		w.now = w.now.Add(time.Second)
		for len(w.news) > 0 {
			w.deliverNews()
		}
		for _, id := range []kafka.BrokerID{2, 3} {
			w.ends[id] = w.end
			w.fetch(id)
		}
		for len(w.fetches) > 0 {
			w.deliverFetch()
		}
		w.ask()
		w.decide()
		w.deliverAnswer()
		if err := w.check(); err != nil {
			return err
		}
	}
	if hw := w.leader.HighWatermark(); hw != w.end || len(w.leader.ISR()) != 3 || w.leader.Pending() {
		return fmt.Errorf("when all was well: high watermark %d, log end %d, ISR %v, pending %t", hw, w.end, w.leader.ISR(), w.leader.Pending())
	}
	return nil
}
