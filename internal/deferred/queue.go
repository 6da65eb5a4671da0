// Package deferred parks what waits for an offset: replies to acks=all, coordinator replies, controller replies. One
// primitive serves every wait for a commit; it stands where Kafka has a purgatory.
//
// A Queue is plain data under its owner's lock. Taking what is due and completing it are two steps, so that the owner
// completes after unlocking: no callback runs under a lock.
package deferred

// Queue holds items by the end offset (exclusive) that must be reached before each is due. The zero value is empty.
type Queue[T any] struct {
	items []item[T] // sorted by end offset, ties in the order of arrival
}

type item[T any] struct {
	endOffset int64
	value     T
}

// Len returns how many items wait.
func (q *Queue[T]) Len() int { return len(q.items) }

// Park adds a value that is due when endOffset is reached. Offsets mostly arrive in order; a retry of an older batch,
// which waits for the offset it had first, is put in its place.
func (q *Queue[T]) Park(endOffset int64, value T) {
	i := len(q.items)
	for i > 0 && q.items[i-1].endOffset > endOffset {
		i--
	}
	q.items = append(q.items, item[T]{})
	copy(q.items[i+1:], q.items[i:])
	q.items[i] = item[T]{endOffset, value}
}

// CompleteUpTo removes and returns, in order, what is due once endOffset is reached.
func (q *Queue[T]) CompleteUpTo(endOffset int64) []T {
	n := 0
	for n < len(q.items) && q.items[n].endOffset <= endOffset {
		n++
	}
	return q.take(n)
}

// FailAll removes and returns everything, in order: the owner lost what the items wait for.
func (q *Queue[T]) FailAll() []T { return q.take(len(q.items)) }

// Remove drops the items for which drop says so, such as those that timed out.
func (q *Queue[T]) Remove(drop func(T) bool) {
	kept := q.items[:0]
	for _, it := range q.items {
		if !drop(it.value) {
			kept = append(kept, it)
		}
	}
	clear(q.items[len(kept):])
	q.items = kept
}

func (q *Queue[T]) take(n int) []T {
	if n == 0 {
		return nil
	}
	due := make([]T, n)
	for i, it := range q.items[:n] {
		due[i] = it.value
	}
	rest := copy(q.items, q.items[n:])
	clear(q.items[rest:])
	q.items = q.items[:rest]
	return due
}
