package replica

import "time"

// request builds the next request, nil if there is none to be sent now.
func (f *Fetcher) request(now time.Time) *FetchRequest {
	if f.inFlight || now.Before(f.retryAt) || f.held(now) {
		return nil
	}
	r := &FetchRequest{Fetcher: f.number, MinBytes: f.o.MinBytes, MaxBytes: f.o.ResponseMaxBytes, Full: !f.session}
	var fresh bool
	if r.Full {
		fresh = f.nameAll(r)
	} else {
		fresh = f.nameChanged(r)
	}
	if f.asked == 0 {
		f.session = false // a request that only ends it would be wasted
		return nil
	}
	r.MaxWaitMs = int32((f.waitFor(now, fresh) + time.Millisecond - 1).Milliseconds())
	f.inFlight, f.full = true, r.Full
	f.counts.requests.Inc()
	return r
}

// held reports whether the request waits for partitions that will be ready at any moment.
func (f *Fetcher) held(now time.Time) bool { return f.pending > 0 && now.Before(f.holdUntil) }

// waitFor is how long the leader may wait for records. It does not wait with partitions that are named for the first
// time: the metadata names them one by one, and the rest of them may come while this request is under way. Nor does it wait
// beyond the time when others are to be tried again.
func (f *Fetcher) waitFor(now time.Time, fresh bool) time.Duration {
	switch {
	case fresh:
		return 0
	case f.release.IsZero():
		return f.o.WaitMax
	}
	return min(f.o.WaitMax, max(0, f.release.Sub(now)))
}

// nameAll puts everything that is ready into the request.
func (f *Fetcher) nameAll(r *FetchRequest) (fresh bool) {
	for _, st := range f.changed {
		st.noted = false
	}
	f.clearChanged()
	f.forgotten, f.asked = nil, 0
	for e := f.order.Front(); e != nil; e = e.Next() {
		st := e.Value.(*followed)
		st.asked = false
		if st.state == fetching {
			fresh = f.name(r, st) || fresh
		}
	}
	return fresh
}

// nameChanged puts what the leader's session does not have as it is now into the request.
func (f *Fetcher) nameChanged(r *FetchRequest) (fresh bool) {
	for _, st := range f.changed {
		st.noted = false
		switch {
		case st.gone:
		case st.state != fetching:
			f.forget(st)
		default:
			fresh = f.name(r, st) || fresh
		}
	}
	f.clearChanged()
	for _, id := range f.forgotten {
		if st := f.partitions[id]; st == nil || !st.asked { // else it is followed anew, and named
			r.Forgotten = append(r.Forgotten, id)
		}
	}
	f.forgotten = nil
	return fresh
}

func (f *Fetcher) name(r *FetchRequest, st *followed) (fresh bool) {
	want := st.p.fetchPartition(st.epoch, f.o.MaxBytes)
	if st.asked && want == st.sent {
		return false
	}
	if !st.asked {
		st.asked = true
		f.asked++
	}
	st.sent = want
	r.Partitions = append(r.Partitions, want)
	fresh, st.fresh = st.fresh, false
	return fresh
}

func (f *Fetcher) clearChanged() {
	clear(f.changed)
	f.changed = f.changed[:0]
}

// wakeAt is when something may be done that cannot be done now.
func (f *Fetcher) wakeAt(now time.Time) time.Time {
	if f.inFlight {
		return time.Time{} // the answer comes first
	}
	var at time.Time
	sooner := func(t time.Time) {
		if t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	sooner(f.release)
	if len(f.partitions) > 0 {
		sooner(f.retryAt)
	}
	if f.pending > 0 {
		sooner(f.holdUntil)
	}
	return at
}
