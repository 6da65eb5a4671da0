package sim

import (
	"encoding/binary"
	"slices"
	"testing"

	"weir/internal/kafka"
	"weir/protocol/batch"
)

var (
	testTP = kafka.TopicPartition{Topic: "t"}
	testID = partitionID{TopicID: kafka.UUID{1}}
)

// feed is a checker with one partition and a producer whose records it is told of.
type feed struct {
	*checker
	p *producerLog
}

func newFeed(idempotent bool) *feed {
	c := newChecker(newWorld(1, nil))
	c.partition(testID, testTP, false, false)
	return &feed{c, c.producer(idempotent)}
}

// stored makes the batch that a log has.
func stored(offset int64, epoch int32, values ...uint64) []byte {
	return storedIn(0, offset, epoch, values...)
}

// storedIn is stored, of a producer in one of its epochs.
func storedIn(producerEpoch int16, offset int64, epoch int32, values ...uint64) []byte {
	b := batch.NewBuilder(batch.None, 0)
	b.SetProducer(1, producerEpoch, 0)
	b.SetBaseOffset(offset)
	b.SetLeaderEpoch(epoch)
	for _, v := range values {
		b.Append(1, nil, binary.BigEndian.AppendUint64(nil, v))
	}
	out, err := b.Build()
	if err != nil {
		panic(err)
	}
	return slices.Clone(out)
}

// show makes values visible on a broker.
func (f *feed) show(broker kafka.BrokerID, offset int64, epoch int32, values ...uint64) {
	f.visibleBatch(broker, testID, offset, stored(offset, epoch, values...))
}

// showIn is show, of a producer in one of its epochs.
func (f *feed) showIn(producerEpoch int16, offset int64, values ...uint64) {
	f.visibleBatch(1, testID, offset, storedIn(producerEpoch, offset, 0, values...))
}

func (f *feed) read(offset int64, epoch int32, value uint64) {
	h, err := batch.ParseHeader(stored(offset, epoch, value))
	if err != nil {
		panic(err)
	}
	f.consume(testID, offset, &h, value)
}

func TestCheckerFindsWhatItIsTold(t *testing.T) {
	for _, c := range []struct {
		name string
		idem bool
		feed func(f *feed)
		want string // kind; "" for none
	}{
		{name: "all is well", idem: true, feed: func(f *feed) {
			a, b := f.p.send(testID, 2), f.p.send(testID, 1)
			f.show(1, 0, 0, a, a+1)
			f.ack(testID, 0, a, 2, 0)
			f.show(2, 0, 0, a, a+1)
			f.show(2, 2, 1, b)
			f.show(1, 2, 1, b)
			f.ack(testID, 2, b, 1, 2)
			f.read(2, 1, b)
			f.leads(testID, 0, 1)
			f.leads(testID, 1, 2)
			f.watermark(testID, 0, 2)
			f.watermark(testID, 1, 2)
			f.watermark(testID, 1, 3)
			f.listLatest(testID, 1, 2)
			f.holds(testID, 2, "ISR", 3)
		}},
		{name: "a record changes", feed: func(f *feed) {
			a, b := f.p.send(testID, 1), f.p.send(testID, 1)
			f.show(1, 0, 0, a)
			f.show(2, 0, 1, b)
		}, want: "changed"},
		{name: "a batch changes", feed: func(f *feed) {
			a := f.p.send(testID, 1)
			f.show(1, 0, 0, a)
			f.show(2, 0, 1, a)
		}, want: "changed"},
		{name: "a consumer gets something else", feed: func(f *feed) {
			a, b := f.p.send(testID, 1), f.p.send(testID, 1)
			f.show(1, 0, 0, a)
			f.read(0, 0, b)
		}, want: "changed"},
		{name: "a consumer gets what is not committed", feed: func(f *feed) {
			f.read(0, 0, f.p.send(testID, 1))
		}, want: "uncommitted-read"},
		{name: "an acknowledged write is not there", feed: func(f *feed) {
			a, b := f.p.send(testID, 1), f.p.send(testID, 1)
			f.show(1, 0, 0, a)
			f.ack(testID, 0, b, 1, 0)
		}, want: "lost-write"},
		{name: "an acknowledgement before its time", feed: func(f *feed) {
			f.ack(testID, 0, f.p.send(testID, 1), 1, 0)
		}, want: "early-ack"},
		{name: "a write goes before what was acknowledged before", feed: func(f *feed) {
			a, b := f.p.send(testID, 1), f.p.send(testID, 1)
			f.show(1, 0, 0, b, a)
			f.ack(testID, 1, a, 1, 0)
			f.ack(testID, 0, b, 1, 2)
		}, want: "order"},
		{name: "an idempotent producer's record is there twice", idem: true, feed: func(f *feed) {
			a := f.p.send(testID, 1)
			f.show(1, 0, 0, a)
			f.show(1, 1, 0, a)
		}, want: "duplicate"},
		{name: "another producer's may be", feed: func(f *feed) {
			a := f.p.send(testID, 1)
			f.show(1, 0, 0, a)
			f.show(1, 1, 0, a)
		}},
		{name: "an idempotent producer's records change their order", idem: true, feed: func(f *feed) {
			a, b := f.p.send(testID, 1), f.p.send(testID, 1)
			f.show(1, 0, 0, b)
			f.show(1, 1, 0, a)
		}, want: "order"},
		{name: "records are there again in a new epoch of their producer", idem: true, feed: func(f *feed) {
			a, b, c := f.p.send(testID, 1), f.p.send(testID, 1), f.p.send(testID, 1)
			f.showIn(0, 0, a, b)
			f.showIn(1, 2, a, b, c)
		}},
		{name: "a record is there twice in the epoch of its producer", idem: true, feed: func(f *feed) {
			a := f.p.send(testID, 1)
			f.showIn(3, 0, a)
			f.showIn(3, 1, a)
		}, want: "duplicate"},
		{name: "a record is there twice in the new epoch", idem: true, feed: func(f *feed) {
			a := f.p.send(testID, 1)
			f.showIn(0, 0, a)
			f.showIn(1, 1, a)
			f.showIn(1, 2, a)
		}, want: "duplicate"},
		{name: "a record is there again in the epoch before", idem: true, feed: func(f *feed) {
			a := f.p.send(testID, 1)
			f.showIn(1, 0, a)
			f.showIn(0, 1, a)
		}, want: "duplicate"},
		{name: "records of the new epoch change their order", idem: true, feed: func(f *feed) {
			a, b := f.p.send(testID, 1), f.p.send(testID, 1)
			f.showIn(0, 0, a, b)
			f.showIn(1, 2, b)
			f.showIn(1, 3, a)
		}, want: "order"},
		{name: "a record of the epoch before comes late", idem: true, feed: func(f *feed) {
			a, b := f.p.send(testID, 1), f.p.send(testID, 1)
			f.showIn(1, 0, a)
			f.showIn(0, 1, b)
		}, want: "order"},
		{name: "a record that nobody sent", feed: func(f *feed) { f.show(1, 0, 0, 77) }, want: "unknown-value"},
		{name: "a record of another partition", feed: func(f *feed) {
			other := partitionID{TopicID: kafka.UUID{1}, Partition: 1}
			f.partition(other, kafka.TopicPartition{Topic: "t", Partition: 1}, false, false)
			f.show(1, 0, 0, f.p.send(other, 1))
		}, want: "wrong-partition"},
		{name: "a write that was refused", feed: func(f *feed) {
			a := f.p.send(testID, 1)
			f.refuse(a, 1)
			f.show(1, 0, 0, a)
		}, want: "refused-write"},
		{name: "a write that is refused later", feed: func(f *feed) {
			a := f.p.send(testID, 1)
			f.show(1, 0, 0, a)
			f.refuse(a, 1)
		}, want: "refused-write"},
		{name: "a gap", feed: func(f *feed) { f.show(1, 1, 0, f.p.send(testID, 1)) }, want: "gap"},
		{name: "offsets that do not follow each other", feed: func(f *feed) {
			f.show(1, 0, 0, f.p.send(testID, 1))
			f.visibleBatch(1, testID, 1, stored(2, 0, f.p.send(testID, 1)))
		}, want: "gap"},
		{name: "a batch that is damaged", feed: func(f *feed) {
			b := stored(0, 0, f.p.send(testID, 1))
			b[len(b)-3] ^= 1
			f.visibleBatch(1, testID, 0, b)
		}, want: "corrupt"},
		{name: "two leaders in one epoch", feed: func(f *feed) {
			f.leads(testID, 3, 1)
			f.leads(testID, 3, 2)
		}, want: "two-leaders"},
		{name: "a watermark goes back", feed: func(f *feed) {
			f.watermark(testID, 0, 2)
			f.watermark(testID, 0, 1)
		}, want: "watermark-back"},
		{name: "an end goes back", feed: func(f *feed) {
			f.watermark(testID, 0, 9)
			f.listLatest(testID, 1, 8)
		}, want: "latest-back"},
		{name: "images differ", feed: func(f *feed) {
			f.image(1, 5, 77)
			f.image(2, 5, 78)
		}, want: "metadata"},
		{name: "a member of the ISR is behind", feed: func(f *feed) {
			f.show(1, 0, 0, f.p.send(testID, 1))
			f.holds(testID, 2, "ISR", 0)
		}, want: "isr"},
		{name: "a consumer is out of range of what was deleted", feed: func(f *feed) {
			f.deleted(testID, 4)
			f.outOfRange(testID, 3)
		}},
		{name: "a record is there twice, of which one was deleted", idem: true, feed: func(f *feed) {
			a := f.p.send(testID, 1)
			f.show(1, 0, 0, a)
			f.deleted(testID, 1)
			f.show(1, 1, 0, a)
		}},
		{name: "a record is there three times, of which one was deleted", idem: true, feed: func(f *feed) {
			a := f.p.send(testID, 1)
			f.show(1, 0, 0, a)
			f.deleted(testID, 1)
			f.show(1, 1, 0, a)
			f.show(1, 2, 0, a)
		}, want: "duplicate"},
		{name: "a consumer is out of range", feed: func(f *feed) { f.outOfRange(testID, 3) }, want: "out-of-range"},
		{name: "an error that nobody expects", feed: func(f *feed) { f.unexpected("produce", kafka.UnknownServerError, nil) }, want: "error-code"},
		{name: "a sequence is out of order", idem: true, feed: func(f *feed) { f.sequenceGap(testID, f.p.send(testID, 1), nil) }, want: "sequence"},
		{name: "a producer id is given twice", feed: func(f *feed) {
			f.producerID(7, 0)
			f.producerID(7, 1)
		}, want: "producer-id"},
		{name: "what may be lost may change", feed: func(f *feed) {
			f.partitions[testID].mayLose = true
			a, b := f.p.send(testID, 1), f.p.send(testID, 1)
			f.show(1, 0, 0, a)
			f.ack(testID, 0, a, 1, 0)
			f.show(2, 0, 1, b)
			f.read(0, 1, b)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFeed(c.idem)
			c.feed(f)
			var got []string
			for _, v := range f.violations {
				if !slices.Contains(got, v.Kind) {
					got = append(got, v.Kind)
				}
			}
			if c.want == "" && len(got) > 0 || c.want != "" && !slices.Contains(got, c.want) {
				t.Errorf("found %v, want %q", f.violations, c.want)
			}
		})
	}
}

// One fault may have a thousand consequences, which are no news.
func TestViolationsAreBounded(t *testing.T) {
	f := newFeed(false)
	for i := range 1000 {
		f.violate("kind", i, "violation %d", i)
		f.violate("kind", 0, "once more")
	}
	if len(f.violations) != maxViolations {
		t.Fatalf("%d violations", len(f.violations))
	}
}
