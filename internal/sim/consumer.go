package sim

import (
	"encoding/binary"
	"time"

	"weir/broker/replica"
	"weir/internal/kafka"
	"weir/protocol/batch"
)

// consumer reads what is committed of every partition, from the beginning.
type consumer struct {
	client
	interval  time.Duration
	positions map[partitionID]*position
}

// position is how far a consumer has come.
type position struct {
	id     partitionID
	offset int64
	epoch  kafka.LeaderEpoch // of the newest leader that it was served by
	busy   bool
	lost   bool // its offset was out of range: it asks where the partition begins
}

// fetchResult is the answer to a fetch for one partition.
type fetchResult struct {
	code    kafka.Code
	err     error
	epoch   kafka.LeaderEpoch
	records []byte
}

// listResult is the answer to a ListOffsets request.
type listResult struct {
	code   kafka.Code
	err    error
	epoch  kafka.LeaderEpoch
	offset int64
}

func newConsumer(s *simulation, index int) *consumer {
	c := &consumer{client: newClient(s, "consumer"+string(rune('0'+index))), positions: map[partitionID]*position{}}
	c.interval = between(c.rng, 10*time.Millisecond, 60*time.Millisecond)
	return c
}

func (c *consumer) start() {
	c.refresh()
	c.host.after(c.interval, c.tick)
}

func (c *consumer) tick() {
	c.host.after(c.interval, c.tick)
	id, tp, ok := c.choose()
	if !ok || c.rng.IntN(50) == 0 {
		c.refresh()
	}
	if !ok || !c.s.check.knows(id) {
		return
	}
	p := c.positions[id]
	if p == nil {
		p = &position{id: id}
		c.positions[id] = p
	}
	if p.busy {
		return
	}
	n, epoch := c.leader(id)
	if n == nil || epoch < p.epoch { // as clients do, it never goes back to an older leader
		c.refresh()
		return
	}
	p.busy = true
	if c.rng.IntN(10) == 0 || p.lost {
		timestamp := replica.TimestampLatest
		if p.lost {
			timestamp = replica.TimestampEarliest
		}
		call(c.s.net, c.host.id, n.host.id, callTimeout, func(reply func(listResult)) { n.listOffset(timestamp, id, tp, epoch, reply) },
			func(r listResult, err error) { c.listed(p, timestamp, r, err) })
		return
	}
	offset := p.offset
	call(c.s.net, c.host.id, n.host.id, callTimeout, func(reply func(fetchResult)) { n.fetch(id, tp, epoch, offset, reply) },
		func(r fetchResult, err error) { c.fetched(p, r, err) })
}

func (c *consumer) fetched(p *position, r fetchResult, err error) {
	p.busy = false
	switch {
	case err != nil:
		c.refresh()
	case r.code == kafka.None:
		p.epoch = r.epoch
		c.read(p, r.records)
	case r.code == kafka.OffsetOutOfRange:
		p.lost = true
	default:
		c.failed("fetch", p, r.code, r.err)
	}
}

func (c *consumer) read(p *position, records []byte) {
	for b, err := range batch.Batches(records) {
		if err != nil {
			return // a torn end
		}
		h, err := batch.ParseHeader(b)
		if err != nil {
			c.s.check.violate("corrupt", p.id, "a consumer got a batch behind offset %d of %v: %v", p.offset, p.id, err)
			return
		}
		for r, err := range batch.Records(b) {
			offset := h.RecordOffset(r)
			if err != nil || len(r.Value) < 8 {
				c.s.check.violate("corrupt", p.id, "a consumer got offset %d of %v: %v", offset, p.id, err)
				return
			}
			if offset >= p.offset {
				c.s.check.consume(p.id, offset, &h, binary.BigEndian.Uint64(r.Value))
			}
		}
		p.offset = max(p.offset, h.NextOffset())
	}
	c.s.w.mix(uint64(p.offset))
}

func (c *consumer) listed(p *position, timestamp int64, r listResult, err error) {
	p.busy = false
	switch {
	case err != nil:
		c.refresh()
	case r.code == kafka.None && timestamp == replica.TimestampEarliest:
		p.epoch, p.lost = r.epoch, false
		if r.offset <= p.offset { // not deleted: so the end was before it
			c.s.check.outOfRange(p.id, p.offset)
		}
		p.offset = r.offset
	case r.code == kafka.None:
		p.epoch = r.epoch
		c.s.check.listLatest(p.id, r.epoch, r.offset)
	case r.code == kafka.OffsetNotAvailable:
		c.s.rare.count(rareOffsetNotAvailable)
	default:
		c.failed("list offsets", p, r.code, r.err)
	}
}

func (c *consumer) failed(what string, p *position, code kafka.Code, err error) {
	switch code {
	case kafka.NotLeaderOrFollower, kafka.UnknownTopicOrPartition, kafka.UnknownTopicID, kafka.InconsistentTopicID,
		kafka.FencedLeaderEpoch, kafka.UnknownLeaderEpoch, kafka.KafkaStorageError, kafka.OffsetNotAvailable:
		c.refresh()
	default:
		c.s.check.unexpected(what, code, err)
	}
}
