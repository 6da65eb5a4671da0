package sim

import (
	"io"
	"slices"
	"time"

	"weir/broker/replica"
	"weir/internal/kafka"
)

// sessionKey names the owner of a fetch session: a follower's process and its fetcher.
type sessionKey struct {
	follower kafka.BrokerID
	life     int
	fetcher  int
}

// fetchSession is what a leader remembers of a fetcher's partitions.
type fetchSession struct {
	id, epoch  int
	partitions []*sessionPartition // in the order in which they are served
}

type sessionPartition struct {
	replica.FetchPartition
	told                    bool  // the follower has had an answer since it named the partition
	highWatermark, logStart int64 // that it was told
}

// waitingFetch is a follower's fetch that waits for records.
type waitingFetch struct {
	f       *followerFetch
	session *fetchSession
	reply   func(followerAnswer)
	over    bool
}

// serveFollower answers a follower's fetch, now or when there is something to tell.
func (p *process) serveFollower(f *followerFetch, reply func(followerAnswer)) {
	session, err := p.session(f)
	if err != nil {
		reply(followerAnswer{err: err})
		return
	}
	w := &waitingFetch{f: f, session: session, reply: reply}
	if p.look(w, p.clock.Now(), f.MaxWaitMs == 0) {
		return
	}
	p.waiting = append(p.waiting, w)
	p.host.after(time.Duration(f.MaxWaitMs)*time.Millisecond, func() {
		if !w.over {
			p.look(w, time.Time{}, true)
		}
	})
}

// session finds or begins the session of a fetch, and takes what the fetch says of its partitions.
func (p *process) session(f *followerFetch) (*fetchSession, error) {
	key := sessionKey{f.follower, f.life, f.Fetcher}
	s := p.sessions[key]
	if f.Full {
		s = &fetchSession{epoch: 1}
		if p.s.c.sessions {
			p.lastSession++
			s.id = p.lastSession
			p.sessions[key] = s
		}
	} else {
		if s == nil || s.id != f.session {
			return nil, kafka.Errorf(kafka.FetchSessionIDNotFound, "session %d", f.session)
		}
		if s.epoch != f.sessionEpoch {
			return nil, kafka.Errorf(kafka.InvalidFetchSessionEpoch, "epoch %d of session %d", f.sessionEpoch, f.session)
		}
		s.epoch++
	}
	for _, id := range f.Forgotten {
		s.partitions = slices.DeleteFunc(s.partitions, func(sp *sessionPartition) bool { return sp.is(id) })
	}
	for _, want := range f.Partitions {
		s.take(want)
	}
	return s, nil
}

func (sp *sessionPartition) is(id replica.TopicIDPartition) bool {
	return sp.TopicID == id.TopicID && sp.Partition == id.Partition
}

func (s *fetchSession) take(want replica.FetchPartition) {
	for _, sp := range s.partitions {
		if sp.is(partitionID{TopicID: want.TopicID, Partition: want.Partition}) {
			sp.FetchPartition, sp.told = want, false
			return
		}
	}
	s.partitions = append(s.partitions, &sessionPartition{FetchPartition: want})
}

// look reads what a fetch asks for, and answers if there is news, or anyway. fetched is when the fetch came; zero where the
// partitions know that already. It reports whether the fetch is over.
func (p *process) look(w *waitingFetch, fetched time.Time, anyway bool) bool {
	var r replica.FetchResponse
	var told []*sessionPartition
	bytes, urgent := 0, false
	for _, sp := range w.session.partitions {
		d := p.read(w.f, sp, fetched, int(w.f.MaxBytes)-bytes, bytes == 0)
		bytes += len(d.Records)
		content := d.Code != kafka.None || d.Diverging != nil || len(d.Records) > 0
		urgent = urgent || content
		if content || !sp.told || d.HighWatermark != sp.highWatermark || d.LogStartOffset != sp.logStart {
			r.Partitions = append(r.Partitions, d)
			told = append(told, sp)
		}
	}
	if !anyway && !urgent {
		return false
	}
	w.over = true
	for i, sp := range told {
		sp.told, sp.highWatermark, sp.logStart = true, r.Partitions[i].HighWatermark, r.Partitions[i].LogStartOffset
	}
	w.reply(followerAnswer{FetchResponse: r, session: w.session.id})
	return true
}

// read is one partition's part of an answer.
func (p *process) read(f *followerFetch, sp *sessionPartition, fetched time.Time, maxBytes int, first bool) replica.FetchedPartition {
	d := replica.FetchedPartition{TopicIDPartition: partitionID{TopicID: sp.TopicID, Partition: sp.Partition}}
	partition := p.replicas.Partition(sp.TopicPartition)
	switch {
	case partition == nil && p.replicas.Offline(sp.TopicPartition):
		d.Code = kafka.KafkaStorageError
		return d
	case partition == nil:
		d.Code = kafka.UnknownTopicOrPartition
		return d
	case partition.TopicID() != sp.TopicID:
		d.Code = kafka.InconsistentTopicID
		return d
	}
	result, err := partition.Read(&replica.ReadRequest{
		Offset: sp.Offset, MaxBytes: min(int(sp.MaxBytes), max(maxBytes, 0)), AtLeastOne: first, CurrentLeaderEpoch: sp.LeaderEpoch,
		LastFetchedEpoch: sp.LastFetchedEpoch, Replica: f.follower, ReplicaEpoch: f.brokerEpoch, LogStart: sp.LogStartOffset, Fetched: fetched,
	})
	d.HighWatermark, d.LogStartOffset, d.Diverging = result.HighWatermark, result.LogStartOffset, result.Diverging
	if err != nil {
		d.Code = kafka.CodeOf(err)
		p.s.w.mix(uint64(d.Code))
		return d
	}
	d.Records, err = take(result.Records)
	if err != nil {
		d.Code = kafka.CodeOf(err)
	}
	return d
}

// take copies records, as the wire does.
func take(records replica.Records) ([]byte, error) {
	defer records.Release()
	if records.Len() == 0 {
		return nil, nil
	}
	b := make([]byte, records.Len())
	if _, err := records.ReadAt(b, 0); err != nil && err != io.EOF {
		return nil, err
	}
	return b, nil
}

// answerWaiting looks again for the fetches for which something may have come.
func (p *process) answerWaiting() {
	p.waiting = slices.DeleteFunc(p.waiting, func(w *waitingFetch) bool {
		return w.over || slices.ContainsFunc(w.session.partitions, p.changed) && p.look(w, time.Time{}, false)
	})
}

// changed reports whether a fetch for a partition may have something to tell.
func (p *process) changed(sp *sessionPartition) bool {
	partition := p.replicas.Partition(sp.TopicPartition)
	return partition == nil || partition.TopicID() != sp.TopicID || partition.LeaderEpoch() != sp.LeaderEpoch || partition.Log().EndOffset() > sp.Offset
}

// serveOffsets tells a follower where the log of a partition begins and ends.
func (p *process) serveOffsets(f replica.FetchPartition) (o listedOffsets) {
	partition := p.replicas.Partition(f.TopicPartition)
	if partition == nil || partition.TopicID() != f.TopicID {
		return listedOffsets{err: kafka.Errorf(kafka.UnknownTopicOrPartition, "")}
	}
	list := func(timestamp int64) int64 {
		found, err := partition.ListOffset(timestamp, replica.UpToLogEnd, f.LeaderEpoch)
		if err != nil {
			o.err = err
		}
		return found.Offset
	}
	o.start, o.end = list(replica.TimestampEarliest), list(replica.TimestampLatest)
	return o
}
