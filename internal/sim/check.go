package sim

import (
	"encoding/binary"
	"fmt"
	"time"

	"weir/broker/replica"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/protocol/batch"
)

// partitionID names a partition of one life of a topic.
type partitionID = replica.TopicIDPartition

// Violation is something that must not happen.
type Violation struct {
	At   time.Duration
	Kind string // one word for each invariant
	Text string
}

func (v Violation) String() string {
	return fmt.Sprintf("%.3fs %s: %s", v.At.Seconds(), v.Kind, v.Text)
}

// checker holds what was seen of a run to what must be true of it. It knows of every record that was ever below some
// replica's high watermark, since from then on a consumer may have seen it.
type checker struct {
	w             *world
	partitions    map[partitionID]*history
	order         []partitionID // of their first mention
	sends         []*producerLog
	producerIDs   map[int64]int
	images        map[int64]uint64
	raftLeaders   map[int32]uint64 // by term
	removed       map[kafka.DirectoryID]bool
	violations    []Violation
	acked         int // records
	offsetCommits int // acknowledged
	seen          map[string]bool
}

func newChecker(w *world) *checker {
	return &checker{w: w, partitions: map[partitionID]*history{}, producerIDs: map[int64]int{}, images: map[int64]uint64{},
		raftLeaders: map[int32]uint64{}, removed: map[kafka.DirectoryID]bool{}, seen: map[string]bool{}}
}

// maxViolations ends the collection: what follows a violation is mostly its consequence.
const maxViolations = 20

// violate notes a violation; of one kind and about one subject only the first.
func (c *checker) violate(kind string, subject any, format string, args ...any) {
	key := fmt.Sprint(kind, subject)
	if c.seen[key] || len(c.violations) >= maxViolations {
		return
	}
	c.seen[key] = true
	v := Violation{At: c.w.now, Kind: kind, Text: fmt.Sprintf(format, args...)}
	c.w.tracef("VIOLATION %s: %s", v.Kind, v.Text)
	c.violations = append(c.violations, v)
}

// history is what is known of one partition.
type history struct {
	id kafka.TopicPartition
	// mayLose says that the partition's settings allow that visible records are lost (unclean elections).
	mayLose bool
	// opaque records have no values of producers: a coordinator wrote them.
	opaque bool
	gone   bool // its topic was deleted
	// mayStand says that it may have no leader in the end: when it was made, so many of its replicas had lost their power
	// without being missed that nobody is left who is known to have everything.
	mayStand bool
	// held says that as many replicas as min.insync.replicas were in its ISR at some time: only then anything can have become
	// visible, and only then the replication promises to bear that some of them are lost.
	held bool
	// copies is how many replicas have all that is visible, at least.
	copies int
	// deletedEnd is the highest offset that a log ever began at: what lies below it may be gone, and come back.
	deletedEnd int64

	committed  []visible      // by offset
	newest     map[int]placed // of each producer
	ackedEnd   int64          // end offset of what was acknowledged by all
	leaders    map[kafka.LeaderEpoch]kafka.BrokerID
	watermarks map[kafka.LeaderEpoch]int64
}

// visible is a record below a high watermark; the zero value is one that was deleted before anybody saw it.
type visible struct {
	value uint64
	batch uint64 // identifies the bytes of its batch
}

// placed is a value in the epoch of its producer that its batch was sent in.
type placed struct {
	epoch int16
	value uint64
}

// partition begins a history.
func (c *checker) partition(id partitionID, tp kafka.TopicPartition, mayLose, opaque bool) *history {
	h := c.partitions[id]
	if h == nil {
		h = &history{
			id: tp, mayLose: mayLose, opaque: opaque, newest: map[int]placed{},
			leaders: map[kafka.LeaderEpoch]kafka.BrokerID{}, watermarks: map[kafka.LeaderEpoch]int64{},
		}
		c.partitions[id] = h
		c.order = append(c.order, id)
	}
	return h
}

// end is the end offset of what is visible.
func (h *history) end() int64 { return int64(len(h.committed)) }

// producerLog is what one producer sent: the values of a producer are numbered.
type producerLog struct {
	index      int
	idempotent bool
	sent       []sentValue
}

type sentValue struct {
	partition partitionID
	refused   bool // the broker said that it was never appended, and it was not sent again
	attempts  int
	offset    int64 // where it was seen last; -1
	epoch     int16 // of the producer, in the batch there
}

// A value is the number of its producer and its own number there.
const valueBits = 40

func valueOf(producer, n int) uint64 { return uint64(producer+1)<<valueBits | uint64(n) }

func splitValue(v uint64) (producer, n int) {
	return int(v>>valueBits) - 1, int(v & (1<<valueBits - 1))
}

func valueName(v uint64) string {
	p, n := splitValue(v)
	return fmt.Sprintf("p%d/%d", p, n)
}

// producer begins the log of one more producer.
func (c *checker) producer(idempotent bool) *producerLog {
	p := &producerLog{index: len(c.sends), idempotent: idempotent}
	c.sends = append(c.sends, p)
	return p
}

// send notes values that a producer is about to send for the first time, and returns the first of them.
func (p *producerLog) send(to partitionID, count int) (first uint64) {
	first = valueOf(p.index, len(p.sent))
	for range count {
		p.sent = append(p.sent, sentValue{partition: to, offset: -1})
	}
	return first
}

// attempt notes that values are on their way once more.
func (p *producerLog) attempt(first uint64, count int) {
	_, n := splitValue(first)
	for i := range count {
		p.sent[n+i].attempts++
	}
}

// refuse notes that values were never appended and are given up.
func (c *checker) refuse(first uint64, count int) {
	p, n := splitValue(first)
	for i := range count {
		s := &c.sends[p].sent[n+i]
		s.refused = true
		if s.offset >= 0 {
			c.violate("refused-write", valueName(first), "%s was refused, and is at offset %d of %v", valueName(first), s.offset, s.partition)
		}
	}
}

// leads notes that a broker serves as the leader of an epoch.
func (c *checker) leads(id partitionID, epoch kafka.LeaderEpoch, broker kafka.BrokerID) {
	h := c.partitions[id]
	if other, known := h.leaders[epoch]; known && other != broker {
		c.violate("two-leaders", id, "brokers %d and %d both lead %v in epoch %d", other, broker, h.id, epoch)
	}
	h.leaders[epoch] = broker
}

// watermark notes the high watermark of a leader.
func (c *checker) watermark(id partitionID, epoch kafka.LeaderEpoch, hw int64) {
	h := c.partitions[id]
	before, known := h.watermarks[epoch]
	if known && hw < before {
		c.violate("watermark-back", id, "the high watermark of %v in epoch %d went back from %d to %d", h.id, epoch, before, hw)
	}
	h.watermarks[epoch] = max(hw, before)
}

// visibleBatch notes a batch that lies below the high watermark of a broker's replica; next is the offset that it should
// begin at. It returns the offset behind it.
func (c *checker) visibleBatch(broker kafka.BrokerID, id partitionID, next int64, b []byte) int64 {
	h := c.partitions[id]
	header, err := batch.CheckStored(b)
	if err != nil {
		c.violate("corrupt", id, "the batch at offset %d of %v on broker %d: %v", next, h.id, broker, err)
		return next + 1
	}
	if header.BaseOffset > next || header.NextOffset() <= next { // a log may begin within a batch
		c.violate("gap", id, "offset %d of %v on broker %d follows offset %d", header.BaseOffset, h.id, broker, next-1)
	}
	identity := batchIdentity(&header)
	offset := header.BaseOffset
	for r, err := range batch.Records(b) {
		if err != nil {
			c.violate("corrupt", id, "the batch at offset %d of %v on broker %d: %v", next, h.id, broker, err)
			break
		}
		v := visible{batch: identity}
		if !h.opaque && len(r.Value) >= 8 {
			v.value = binary.BigEndian.Uint64(r.Value)
		}
		c.visibleRecord(broker, h, id, offset, v, header.ProducerEpoch)
		offset++
	}
	return header.NextOffset()
}

// deleted notes that what lies below an offset was deleted, whether or not it was seen.
func (c *checker) deleted(id partitionID, start int64) {
	h := c.partitions[id]
	h.deletedEnd = max(h.deletedEnd, start)
	for h.end() < start {
		h.committed = append(h.committed, visible{})
	}
}

// batchIdentity tells batches apart: the checksum, which was checked, covers all but base offset and epoch.
func batchIdentity(h *batch.Header) uint64 {
	x := uint64(h.CRC)<<32 ^ uint64(h.Length)
	for _, n := range []uint64{uint64(h.BaseOffset), uint64(uint32(h.LeaderEpoch))} {
		x = (x ^ n) * 0x9E3779B97F4A7C15
		x ^= x >> 32
	}
	return x
}

func (c *checker) visibleRecord(broker kafka.BrokerID, h *history, id partitionID, offset int64, v visible, epoch int16) {
	switch end := h.end(); {
	case offset < end:
		if was := h.committed[offset]; was != v && was != (visible{}) && !h.mayLose {
			c.violate("changed", id, "offset %d of %v was %s, and on broker %d it is %s%s", offset, h.id, valueName(was.value), broker, valueName(v.value),
				sameValue(was, v))
		}
	case offset > end:
		c.violate("gap", id, "offset %d of %v is visible on broker %d, and nothing before it from %d on ever was", offset, h.id, broker, end)
	default:
		h.committed = append(h.committed, v)
		if !h.opaque {
			c.newValue(h, id, offset, placed{epoch, v.value})
		}
	}
}

func sameValue(a, b visible) string {
	if a.value == b.value {
		return " in another batch"
	}
	return ""
}

// newValue looks at a record that has just become visible for the first time.
//
// What an idempotent producer sends is there once, and in its order, in each epoch of the producer. It begins another one where a
// broker finds a gap before the oldest batch that has no answer, which sequenceGap allows only where records were deleted: the
// batch itself may be among them, with its answer lost and then what a broker remembers of it, while those that followed it are
// still there. The producer cannot tell, and sends them all again (KIP-360), so Kafka has these twice, too.
func (c *checker) newValue(h *history, id partitionID, offset int64, v placed) {
	p, n := splitValue(v.value)
	if p < 0 || p >= len(c.sends) || n >= len(c.sends[p].sent) {
		c.violate("unknown-value", id, "offset %d of %v has the value %#x, which nobody sent", offset, h.id, v.value)
		return
	}
	sender := c.sends[p]
	s := &sender.sent[n]
	newest := h.newest[p]
	switch {
	case s.partition != id:
		c.violate("wrong-partition", id, "%s at offset %d of %v was sent to %v", valueName(v.value), offset, h.id, s.partition)
	case s.refused:
		c.violate("refused-write", valueName(v.value), "%s was refused, and is at offset %d of %v", valueName(v.value), offset, h.id)
	case s.offset >= 0 && s.offset < h.deletedEnd: // what is deleted cannot be compared with
	case !sender.idempotent || h.mayLose:
	case s.offset >= 0 && v.epoch <= s.epoch:
		c.violate("duplicate", id, "%s of an idempotent producer is at offsets %d and %d of %v", valueName(v.value), s.offset, offset, h.id)
	case v.epoch < newest.epoch || v.epoch == newest.epoch && v.value < newest.value:
		c.violate("order", id, "%s at offset %d of %v comes behind %s", valueName(v.value), offset, h.id, valueName(newest.value))
	}
	s.offset, s.epoch = offset, v.epoch
	if v.epoch > newest.epoch || v.epoch == newest.epoch && v.value > newest.value {
		h.newest[p] = v
	}
}

// invoke returns what ack wants to know of the moment when a batch was sent first: whatever was acknowledged by then must
// lie before it.
func (c *checker) invoke(id partitionID) (ackedEnd int64) { return c.partitions[id].ackedEnd }

// ack notes that values were acknowledged by all in-sync replicas, at an offset.
func (c *checker) ack(id partitionID, offset int64, first uint64, count int, ackedEnd int64) {
	h := c.partitions[id]
	c.acked += count
	h.ackedEnd = max(h.ackedEnd, offset+int64(count))
	if h.mayLose || h.gone { // what became visible just before the deletion was not seen
		return
	}
	if offset < ackedEnd {
		c.violate("order", id, "%s was acknowledged at offset %d of %v; all below %d was acknowledged before it was sent", valueName(first), offset, h.id, ackedEnd)
	}
	for i := range int64(count) {
		if offset+i >= h.end() {
			c.violate("early-ack", id, "%s was acknowledged at offset %d of %v, and %d is as far as any high watermark came", valueName(first), offset, h.id, h.end())
			return
		}
		if got := h.committed[offset+i].value; got != first+uint64(i) && got != 0 {
			c.violate("lost-write", id, "%s was acknowledged at offset %d of %v, where %s is", valueName(first+uint64(i)), offset+i, h.id, valueName(got))
			return
		}
	}
}

// consume notes a record that a consumer got.
func (c *checker) consume(id partitionID, offset int64, b *batch.Header, value uint64) {
	h := c.partitions[id]
	if h.mayLose {
		return
	}
	if offset >= h.end() {
		c.violate("uncommitted-read", id, "a consumer got %s at offset %d of %v, and %d is as far as any high watermark came", valueName(value), offset, h.id, h.end())
		return
	}
	if was := h.committed[offset]; was == (visible{}) {
		return
	} else if was.value != value || was.batch != batchIdentity(b) {
		c.violate("changed", id, "a consumer got %s at offset %d of %v, which was %s", valueName(value), offset, h.id, valueName(was.value))
	}
}

// listLatest notes an end offset that a leader of an epoch told a consumer.
func (c *checker) listLatest(id partitionID, epoch kafka.LeaderEpoch, offset int64) {
	h := c.partitions[id]
	if h.mayLose {
		return
	}
	was := int64(0)
	for e, hw := range h.watermarks {
		if e < epoch {
			was = max(was, hw)
		}
	}
	if offset < was {
		c.violate("latest-back", id, "the leader of %v in epoch %d says that it ends at %d; in an older epoch it ended at %d", h.id, epoch, offset, was)
	}
}

// outOfRange notes that a consumer's offset, which it has read up to, was refused.
func (c *checker) outOfRange(id partitionID, offset int64) {
	if h := c.partitions[id]; !h.mayLose && !h.gone && offset >= h.deletedEnd {
		c.violate("out-of-range", id, "a consumer has read %v up to %d, and that is out of range", h.id, offset)
	}
}

// sequenceGap notes that a broker found a gap before the first batch that a producer has no answer to.
func (c *checker) sequenceGap(id partitionID, first uint64, err error) {
	p, n := splitValue(first)
	if h := c.partitions[id]; !h.mayLose && (h.deletedEnd == 0 || c.sends[p].sent[n].offset >= h.deletedEnd) {
		c.violate("sequence", id, "%s was out of order in %v, though all before it was acknowledged: %v", valueName(first), h.id, err)
	}
}

// producerID notes that a producer got an id.
func (c *checker) producerID(id int64, producer int) {
	if other, taken := c.producerIDs[id]; taken {
		c.violate("producer-id", id, "the producers %d and %d both have the id %d", other, producer, id)
	}
	c.producerIDs[id] = producer
}

// knows reports whether the partition's history was begun.
func (c *checker) knows(id partitionID) bool { return c.partitions[id] != nil }

// unexpected notes an error that a client must not get.
func (c *checker) unexpected(what string, code kafka.Code, detail error) {
	c.violate("error-code", fmt.Sprint(what, code), "%s: %v (%v)", what, code, detail)
}

// leadsRaft notes that a node leads Raft in a term.
func (c *checker) leadsRaft(term int32, raftID uint64) {
	if other, known := c.raftLeaders[term]; known && other != raftID {
		c.violate("two-raft-leaders", term, "%x and %x both lead Raft in term %d", other, raftID, term)
	}
	c.raftLeaders[term] = raftID
}

// directories checks that none that was removed from the cluster is back.
func (c *checker) directories(img *metadata.Image) {
	for dir := range c.removed {
		if n, known := img.Nodes.ByDirectory(dir); !known || !n.Removed {
			c.violate("removed-back", dir, "directory %v was removed, and the metadata does not know that any more", dir)
		}
	}
	for n := range img.Nodes.All() {
		if n.Removed {
			c.removed[n.Directory] = true
		}
	}
	for m := range img.Quorum.All() {
		if c.removed[m.Directory] {
			c.violate("removed-back", m.Directory, "directory %v was removed, and is one of the quorum again", m.Directory)
		}
	}
	for b := range img.Brokers.All() {
		for _, dir := range b.Directories {
			if c.removed[dir] {
				c.violate("removed-back", dir, "directory %v was removed, and broker %d is registered with it", dir, b.ID)
			}
		}
	}
}

// image notes the state of the metadata that a node published at an index.
func (c *checker) image(broker kafka.BrokerID, index int64, digest uint64) {
	if was, known := c.images[index]; known && was != digest {
		c.violate("metadata", index, "broker %d has another image at index %d than another one", broker, index)
	}
	c.images[index] = digest
}

// holds checks that a replica of which the metadata says that it has all that is committed does have it.
func (c *checker) holds(id partitionID, broker kafka.BrokerID, role string, endOffset int64) {
	if h := c.partitions[id]; !h.mayLose && endOffset < h.end() {
		c.violate("isr", id, "broker %d is in the %s of %v and ends at %d; %d is visible", broker, role, h.id, endOffset, h.end())
	}
}
