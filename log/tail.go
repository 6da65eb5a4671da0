package log

import "sync/atomic"

// boundary is a place in a segment between two batches.
type boundary struct {
	offset int64 // the first after the batch before; the batch behind begins there, or above if there is a gap
	pos    int64 // in bytes from the segment's start
}

// tail is the last boundaries of a growing segment. One appender, under the log lock, adds to it; any number of readers
// look things up without a lock: an entry may be overwritten while it is read, and then its number has fallen out of the
// window, which the reader checks afterwards.
type tail struct {
	count   atomic.Int64 // boundaries ever added
	entries [tailBoundaries]struct{ offset, pos atomic.Int64 }
}

// newTail begins with one boundary: an empty segment's start, or an opened one's end.
func newTail(offset, pos int64) *tail {
	t := &tail{}
	t.add(offset, pos)
	return t
}

func (t *tail) add(offset, pos int64) {
	n := t.count.Load()
	e := &t.entries[n%tailBoundaries]
	e.offset.Store(offset)
	e.pos.Store(pos)
	t.count.Store(n + 1)
}

// floor finds the last boundary for which beyond is false; beyond must be monotonic along the log. ok is false where
// that boundary is not in the window.
func (t *tail) floor(beyond func(boundary) bool) (b boundary, ok bool) {
	count := t.count.Load()
	// The slot of the oldest may be written by the next add, whose number is not visible yet: leave it out.
	lo, hi := max(count-tailBoundaries+1, 0), count-1
	lowest := count
	for lo <= hi {
		mid := (lo + hi) / 2
		lowest = min(lowest, mid)
		e := &t.entries[mid%tailBoundaries]
		at := boundary{e.offset.Load(), e.pos.Load()}
		if beyond(at) {
			hi = mid - 1
		} else {
			b, ok, lo = at, true, mid+1
		}
	}
	if lowest <= t.count.Load()-tailBoundaries {
		return boundary{}, false // what was read may have been overwritten meanwhile
	}
	return b, ok
}

// at finds the batch that holds offset, which must be below the end: the last boundary at or below it.
func (t *tail) at(offset int64) (boundary, bool) {
	return t.floor(func(b boundary) bool { return b.offset > offset })
}

// before finds the last boundary at or before a position.
func (t *tail) before(pos int64) (boundary, bool) {
	return t.floor(func(b boundary) bool { return b.pos > pos })
}
