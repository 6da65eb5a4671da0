package coordinator

import (
	"container/heap"
	"time"
)

// timers is a set of timers by key, the earliest first. Since its owner takes one at a time and has it handled before the
// next, a timer that is set anew or cancelled meanwhile never fires stale.
type timers struct {
	byKey map[any]*timer
	heap  timerHeap
	sets  uint64
}

type timer struct {
	key   any
	at    time.Time
	order uint64 // of being set, which decides between timers of one time
	index int
}

// set sets the timer of a key anew, or cancels it.
func (s *timers) set(t Timer) {
	s.sets++
	old := s.byKey[t.Key]
	switch {
	case t.At.IsZero() && old == nil:
	case t.At.IsZero():
		s.remove(old)
	case old != nil:
		old.at, old.order = t.At, s.sets
		heap.Fix(&s.heap, old.index)
	default:
		if s.byKey == nil {
			s.byKey = make(map[any]*timer)
		}
		added := &timer{key: t.Key, at: t.At, order: s.sets}
		s.byKey[t.Key] = added
		heap.Push(&s.heap, added)
	}
}

// next is the time of the earliest timer.
func (s *timers) next() (time.Time, bool) {
	if len(s.heap) == 0 {
		return time.Time{}, false
	}
	return s.heap[0].at, true
}

// due takes the earliest timer out if it is due, and was not set after the first sets of all.
func (s *timers) due(now time.Time, sets uint64) (key any, ok bool) {
	if len(s.heap) == 0 || s.heap[0].at.After(now) || s.heap[0].order > sets {
		return nil, false
	}
	t := s.heap[0]
	s.remove(t)
	return t.key, true
}

func (s *timers) remove(t *timer) {
	heap.Remove(&s.heap, t.index)
	delete(s.byKey, t.key)
}

// timerHeap implements heap.Interface.
type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }

func (h timerHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].order < h[j].order
}

func (h timerHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *timerHeap) Push(x any) {
	t := x.(*timer)
	t.index = len(*h)
	*h = append(*h, t)
}

func (h *timerHeap) Pop() any {
	last := len(*h) - 1
	t := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return t
}
