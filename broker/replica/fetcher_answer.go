package replica

import (
	"time"

	"weir/internal/kafka"
)

// fetched takes the answer to a request.
func (f *Fetcher) fetched(now time.Time, r FetchResponse, err error) {
	f.inFlight = false
	if err != nil {
		f.requestFailed(now, err)
		return
	}
	if f.failures > 0 {
		f.o.Logger.Info("a leader is fetched from again", "leader", f.leader)
	}
	f.failures = 0
	f.session = r.Session
	for i := range r.Partitions {
		if st := f.partitions[r.Partitions[i].TopicIDPartition]; st != nil && st.asked {
			f.row(now, st, &r.Partitions[i])
		}
	}
}

// expressFetched takes the answer to an express request.
func (f *Fetcher) expressFetched(now time.Time, r FetchResponse, err error) {
	f.expressInFlight = false
	f.expressFailed = f.inFlight && err != nil
	for i := range r.Partitions {
		if st := f.partitions[r.Partitions[i].TopicIDPartition]; st != nil && st.named {
			f.row(now, st, &r.Partitions[i])
		}
	}
	for _, st := range f.express {
		st.named = false
	}
}

// requestFailed: what the leader took of the request is not known, so that the next one is full.
func (f *Fetcher) requestFailed(now time.Time, err error) {
	f.session = false
	switch kafka.CodeOf(err) {
	case kafka.FetchSessionIDNotFound, kafka.InvalidFetchSessionEpoch, kafka.FetchSessionTopicIDError:
		if !f.full {
			return // the leader only forgot, and can be asked at once
		}
	}
	if f.failures == 0 {
		f.o.Logger.Warn("a leader cannot be fetched from", "leader", f.leader, "error", err)
	}
	f.retryAt = now.Add(min(maxLeaderBackoff, minLeaderBackoff<<min(f.failures, 10)))
	f.failures++
}

// A leader that cannot be reached is tried again after these times; at once when the metadata says something new of it.
const (
	minLeaderBackoff = 50 * time.Millisecond
	maxLeaderBackoff = time.Second
)

// row takes one partition's part of an answer, if it is about what the leader was asked and would be asked still: the same
// topic id, leader epoch (in another one it is another followed, which the leader was not asked for yet) and offset.
func (f *Fetcher) row(now time.Time, st *followed, d *FetchedPartition) {
	if st.state != fetching || st.sent.Offset != st.p.log.EndOffset() {
		return
	}
	switch d.Code {
	case kafka.None:
		if d.Diverging != nil {
			f.diverged(now, st, d)
		} else {
			f.append(now, st, d)
		}
	case kafka.OffsetOutOfRange:
		f.hold(now, st, asking)
		f.effects.offsets = append(f.effects.offsets, st)
	default:
		f.refused(now, st, kafka.Errorf(d.Code, ""))
	}
}

// refused deals with an error that the leader answers for one partition.
func (f *Fetcher) refused(now time.Time, st *followed, err error) {
	switch kafka.CodeOf(err) {
	case kafka.FencedLeaderEpoch: // this broker's metadata is behind the leader's
		f.stop(st, err)
	case kafka.NotLeaderOrFollower, kafka.UnknownLeaderEpoch, kafka.UnknownTopicID, kafka.UnknownTopicOrPartition, kafka.InconsistentTopicID,
		kafka.LeaderNotAvailable, kafka.OffsetNotAvailable:
		f.delay(now, st, true) // the leader's metadata may be behind, or this broker's
	default:
		f.o.Logger.Warn("a leader refuses a partition", f.attrs(st, "error", err)...)
		f.delay(now, st, false)
	}
}

func (f *Fetcher) append(now time.Time, st *followed, d *FetchedPartition) {
	var n int
	err := st.owning(func() (err error) {
		n, err = st.p.appendFetched(st.epoch, d)
		return err
	})
	if err != nil {
		f.failed(now, st, err)
		return
	}
	st.attempts = 0
	lag := max(0, d.HighWatermark-st.p.log.EndOffset())
	st.lag.Store(lag)
	st.inSync = lag == 0
	if n > 0 {
		f.countFetched(now, st, n)
		f.order.MoveToBack(st.position)
	}
	f.settle(now, st)
	if st.state == fetching && n > 0 && st.p.store.NeedsCommit(st.p.log) {
		f.effects.commit = append(f.effects.commit, st) // nothing waits for it: flush.messages of more than one
	}
}

// failed deals with an error of this broker.
func (f *Fetcher) failed(now time.Time, st *followed, err error) {
	switch kafka.CodeOf(err) {
	case kafka.CorruptMessage, kafka.InvalidRecord:
		f.o.Logger.Error("a leader sent records that cannot be appended, and will be asked again", f.attrs(st, "offset", st.sent.Offset, "error", err)...)
		f.delay(now, st, false)
	default:
		f.stop(st, err)
	}
}

func (f *Fetcher) diverged(now time.Time, st *followed, d *FetchedPartition) {
	var t truncation
	err := st.owning(func() (err error) {
		t, err = st.p.truncateDiverged(st.epoch, d)
		return err
	})
	f.truncated(now, st, t, err, "a log left its leader's and is truncated")
}

// offsets takes where the leader's log begins and ends, for a partition whose offset is out of its range.
func (f *Fetcher) offsets(now time.Time, e *fetcherEvent) {
	st := e.of
	if st.gone || st.state != asking {
		return
	}
	if e.err != nil {
		f.refused(now, st, e.err)
		return
	}
	var t truncation
	err := st.owning(func() (err error) {
		t, err = st.p.outOfRange(st.epoch, e.start, e.end)
		return err
	})
	f.truncated(now, st, t, err, "a log is out of its leader's range and is truncated")
}

func (f *Fetcher) truncated(now time.Time, st *followed, t truncation, err error, why string) {
	if err != nil {
		f.failed(now, st, err)
		return
	}
	if !t.changed { // the same request would get the same answer
		f.delay(now, st, true)
		return
	}
	log := f.o.Logger.Info
	if t.to < t.highWatermark {
		log = f.o.Logger.Warn // consumers may have seen it: the leader was not elected from the in-sync replicas
	}
	log(why, f.attrs(st, "from", t.from, "to", t.to, "high_watermark", t.highWatermark)...)
	st.attempts = 0
	f.settle(now, st)
}

// committed takes the end of a group commit.
func (f *Fetcher) committed(now time.Time, e *fetcherEvent) {
	st := e.of
	switch {
	case st.gone:
	case e.err != nil:
		f.stop(st, e.err)
	case st.state == committing:
		f.settle(now, st)
	}
}
