package peer

// fifo is a queue. Its zero value is empty.
type fifo[T any] struct {
	items []T // those before from are taken
	from  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.from }

// first is the oldest; there must be one.
func (q *fifo[T]) first() *T { return &q.items[q.from] }

func (q *fifo[T]) push(item T) {
	if q.from > 0 && len(q.items) == cap(q.items) {
		n := copy(q.items, q.items[q.from:])
		clear(q.items[n:])
		q.items, q.from = q.items[:n], 0
	}
	q.items = append(q.items, item)
}

func (q *fifo[T]) pop() T {
	var zero T
	item := q.items[q.from]
	q.items[q.from] = zero
	if q.from++; q.from == len(q.items) {
		q.items, q.from = q.items[:0], 0
	}
	return item
}
