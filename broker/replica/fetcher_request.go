package replica

import "time"

// expressNumbers is what the numbers of express requests begin at: they have sessions and connections of their own.
const expressNumbers = 1 << 16

// expressWait is how long an express request waits at the leader. The next one that is for all is held up by as much at
// most.
const expressWait = 20 * time.Millisecond

// request builds the next request for all partitions, nil if there is none to be sent now.
func (f *Fetcher) request(now time.Time) *FetchRequest {
	if f.inFlight || f.expressInFlight || now.Before(f.retryAt) || f.held(now) {
		return nil
	}
	for _, st := range f.express {
		st.express = false // it is in changed, too
	}
	f.express, f.expressFailed = nil, false
	for e := f.order.Front(); e != nil && !f.o.Throttle.unlimited(); e = e.Next() {
		f.throttle(now, e.Value.(*followed))
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
	if !fresh {
		r.MaxWaitMs = int32(f.o.WaitMax.Milliseconds())
	} // else others may be on their way: the metadata names them one by one
	f.inFlight, f.full = true, r.Full
	f.counts.requests.Inc()
	return r
}

// held reports whether requests wait for partitions that will be ready at any moment.
func (f *Fetcher) held(now time.Time) bool { return f.pending > 0 && now.Before(f.holdUntil) }

// expressRequest builds a request for what the one under way does not name.
func (f *Fetcher) expressRequest(now time.Time) *FetchRequest {
	if !f.inFlight || f.expressInFlight || f.expressFailed || len(f.express) == 0 || f.held(now) {
		return nil
	}
	r := &FetchRequest{Fetcher: expressNumbers + f.number, MinBytes: f.o.MinBytes, MaxBytes: f.o.ResponseMaxBytes, Full: true}
	fresh := false
	for _, st := range f.express {
		f.throttle(now, st)
		if st.gone || st.state != fetching {
			continue
		}
		st.sent = st.p.fetchPartition(st.epoch, f.o.MaxBytes)
		r.Partitions = append(r.Partitions, st.sent)
		st.named = true
		fresh = fresh || st.fresh
		st.fresh = false
	}
	if len(r.Partitions) == 0 {
		return nil
	}
	if !fresh {
		r.MaxWaitMs = int32(min(f.o.WaitMax, expressWait).Milliseconds())
	}
	f.expressInFlight = true
	f.counts.requests.Inc()
	return r
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
	var at time.Time
	sooner := func(t time.Time) {
		if t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	sooner(f.release)
	if f.pending > 0 {
		sooner(f.holdUntil)
	}
	if !f.inFlight && len(f.partitions) > 0 {
		sooner(f.retryAt)
	}
	return at
}
