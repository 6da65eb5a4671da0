package sim

import (
	"encoding/binary"
	"slices"
	"time"

	"weir/broker/replica"
	"weir/internal/kafka"
	"weir/protocol/batch"
)

// producer sends batches of numbered values to partitions that it draws, and sends again what it has no answer to.
type producer struct {
	client
	log        *producerLog
	acks       int16
	idempotent bool
	inFlight   int   // batches that a partition may have on their way
	producerID int64 // -1 before it is known

	initialising bool // it is asked for
	interval     time.Duration
	conns        map[*node]*conn
	lanes        map[partitionID]*lane
	order        []*lane
	builder      *batch.Builder
	stopped      bool
}

// lane is what a producer has to do with one partition. After a failure it sends one batch at a time, the oldest first,
// until all that was on its way then is answered: as clients do, so that no batch overtakes another one.
type lane struct {
	id       partitionID
	tp       kafka.TopicPartition
	epoch    int16
	sequence int32
	batches  int
	pending  []*send // in the order of their sequences
	repeats  int     // batches that are to be sent one at a time
	begun    bool    // a batch was acknowledged
}

// send is a batch that was not answered yet.
type send struct {
	lane     *lane
	number   int // of the lane's batches
	first    uint64
	count    int
	bytes    []byte
	ackedEnd int64 // of the partition when it was sent first
	unknown  bool  // an attempt may have been appended
	flying   bool  // an attempt has no answer
	attempts int
}

// produceResult is the answer to a produce request.
type produceResult struct {
	code      kafka.Code
	err       error
	offset    int64
	duplicate bool
}

func newProducer(s *simulation, index int) *producer {
	p := &producer{client: newClient(s, "producer"+string(rune('0'+index))), conns: map[*node]*conn{}, lanes: map[partitionID]*lane{}, builder: batch.NewBuilder(batch.None, 0), producerID: -1}
	p.acks = pick(p.rng, replica.AcksAll, replica.AcksAll, replica.AcksAll, replica.AcksLeader)
	p.idempotent = p.acks == replica.AcksAll && chance(p.rng, 0.6)
	if index == 0 { // every run has something to lose
		p.acks, p.idempotent = replica.AcksAll, true
	}
	p.inFlight = 1
	if p.idempotent {
		p.inFlight = 5 // as many as brokers remember
	}
	p.interval = between(p.rng, 5*time.Millisecond, 60*time.Millisecond)
	p.log = s.check.producer(p.idempotent)
	return p
}

func (p *producer) start() {
	p.refresh()
	p.host.after(p.interval, p.tick)
}

func (p *producer) tick() {
	if p.stopped {
		return
	}
	p.host.after(time.Duration((0.5+p.rng.ExpFloat64()/2)*float64(p.interval)), p.tick)
	if p.idempotent && p.producerID < 0 {
		if !p.initialising {
			p.initProducerID()
		}
		return
	}
	id, tp, ok := p.choose()
	if !ok || p.rng.IntN(50) == 0 {
		p.refresh()
	}
	if ok {
		p.begin(id, tp)
	}
}

// initProducerID asks a broker for an id, which the broker has from the controller.
func (p *producer) initProducerID() {
	p.initialising = true
	n := p.s.nodes[p.rng.IntN(len(p.s.nodes))]
	call(p.s.net, p.host.id, n.host.id, 2*callTimeout, n.allocateProducerID, func(id int64, err error) {
		p.initialising = false
		if err == nil && id >= 0 {
			p.producerID = id
			p.s.check.producerID(id, p.log.index)
		}
	})
}

// begin sends a new batch, unless too many wait.
func (p *producer) begin(id partitionID, tp kafka.TopicPartition) {
	l := p.lanes[id]
	if l == nil {
		l = &lane{id: id, tp: tp}
		p.lanes[id] = l
		p.order = append(p.order, l)
	}
	// As many as brokers remember, counted from the oldest that has no answer; but the first goes alone. A partition that has
	// no state of a producer takes any sequence, so that the second batch might go before a first one that was refused.
	inFlight := p.inFlight
	if !l.begun {
		inFlight = 1
	}
	if len(l.pending) > 0 && l.batches-l.pending[0].number >= inFlight || l.repeats > 0 || !p.s.check.knows(id) {
		return
	}
	count := 1 + p.rng.IntN(5)
	s := &send{lane: l, number: l.batches, count: count, first: p.log.send(id, count), ackedEnd: p.s.check.invoke(id)}
	s.bytes = p.build(s)
	l.sequence += int32(count)
	l.batches++
	l.pending = append(l.pending, s)
	p.transmit(s)
}

func (p *producer) build(s *send) []byte {
	p.builder.Reset()
	if p.idempotent {
		p.builder.SetProducer(p.producerID, s.lane.epoch, s.lane.sequence)
	}
	now := p.s.w.time().UnixMilli()
	for i := range s.count {
		value := make([]byte, 8+p.rng.IntN(200))
		binary.BigEndian.PutUint64(value, s.first+uint64(i))
		p.builder.Append(now, nil, value)
	}
	b, err := p.builder.Build()
	if err != nil {
		panic(err) // nothing is compressed, and the batch is small
	}
	return append([]byte(nil), b...)
}

// transmit sends a batch to the leader, or tries again later.
func (p *producer) transmit(s *send) {
	n, _ := p.leader(s.lane.id)
	if n == nil {
		if !p.known(s.lane.id) {
			p.drop(s)
			return
		}
		p.again(s)
		return
	}
	s.attempts++
	s.flying = true
	p.log.attempt(s.first, s.count)
	c := p.conns[n]
	if c == nil || c.broken {
		c = p.s.net.dial(p.host.id, n.host.id)
		p.conns[n] = c
	}
	callOn(c, callTimeout, func(reply func(produceResult)) {
		n.produce(s.lane.id, s.lane.tp, slices.Clone(s.bytes), p.acks, reply) // the broker stamps them
	}, func(r produceResult, err error) {
		s.flying = false
		p.answered(s, r, err)
	})
}

// again has a batch sent once more: when its turn comes, and after a pause.
func (p *producer) again(s *send) {
	p.refresh()
	l := s.lane
	l.repeats = len(l.pending)
	p.host.after(between(p.rng, 20*time.Millisecond, 150*time.Millisecond), func() { p.repeat(l) })
}

// repeat sends the oldest batch once more, when nothing else is on its way.
func (p *producer) repeat(l *lane) {
	if l.repeats == 0 || len(l.pending) == 0 {
		return
	}
	for _, s := range l.pending {
		if s.flying {
			return // its answer comes here
		}
	}
	p.transmit(l.pending[0])
}

func (p *producer) answered(s *send, r produceResult, err error) {
	if err != nil {
		p.s.w.tracef("produce %s+%d to %v: %v", valueName(s.first), s.count, s.lane.tp, err)
		s.unknown = s.unknown || err != errRefused
		p.again(s)
		return
	}
	if r.code != kafka.None {
		p.s.w.tracef("produce %s+%d to %v: %v", valueName(s.first), s.count, s.lane.tp, r.code)
	}
	p.s.w.mix(uint64(r.code), uint64(r.offset), s.first)
	switch r.code {
	case kafka.None:
		p.s.w.tracef("ack %s+%d at %d of %v", valueName(s.first), s.count, r.offset, s.lane.tp)
		if p.acks == replica.AcksAll {
			p.s.check.ack(s.lane.id, r.offset, s.first, s.count, s.ackedEnd)
		}
		s.lane.begun = true
		p.resolve(s)
	case kafka.NotEnoughReplicas:
		p.s.rare.count(rareNotEnoughReplicas)
		if !s.unknown && !p.idempotent && chance(p.rng, 0.2) {
			p.s.check.refuse(s.first, s.count)
			p.resolve(s)
			return
		}
		p.again(s)
	case kafka.OutOfOrderSequenceNumber:
		if s == s.lane.pending[0] {
			p.s.check.sequenceGap(s.lane.id, s.first, r.err)
			p.beginAnew(s.lane)
		}
		p.again(s)
	case kafka.NotLeaderOrFollower, kafka.NotEnoughReplicasAfterAppend, kafka.RequestTimedOut, kafka.KafkaStorageError, kafka.FencedLeaderEpoch:
		s.unknown = true
		p.again(s)
	case kafka.UnknownTopicOrPartition, kafka.UnknownTopicID:
		s.unknown = true
		p.again(s)
	default:
		p.s.check.unexpected("produce to "+s.lane.tp.String(), r.code, r.err)
		p.again(s)
	}
}

// beginAnew gives the waiting batches new sequences in a new epoch, where the partition lost what was before them: as clients
// do (KIP-360).
func (p *producer) beginAnew(l *lane) {
	l.epoch++
	l.sequence, l.begun = 0, false
	for _, s := range l.pending {
		s.bytes = p.build(s)
		l.sequence += int32(s.count)
	}
}

// resolve ends a send.
func (p *producer) resolve(s *send) {
	l := s.lane
	l.pending = slices.DeleteFunc(l.pending, func(other *send) bool { return other == s })
	l.repeats = min(max(l.repeats-1, 0), len(l.pending))
	p.repeat(l)
}

// drop gives up what was sent to a topic that is gone.
func (p *producer) drop(s *send) { p.resolve(s) }

// waiting counts batches that have no answer, and should have one.
func (p *producer) waiting(s *simulation) (n int) {
	for _, l := range p.order {
		if !s.stands(l.id) {
			n += len(l.pending)
		}
	}
	return n
}

// produceAck takes a partition's acknowledgement back to the producer.
type produceAck struct{ done func(error) }

func (a *produceAck) Acked(_ int, err error) { a.done(err) }
