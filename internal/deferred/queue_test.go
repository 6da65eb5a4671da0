package deferred

import (
	"slices"
	"testing"
)

func TestCompleteUpToReturnsInOffsetOrder(t *testing.T) {
	var q Queue[string]
	q.Park(5, "a")
	q.Park(9, "c")
	q.Park(7, "b") // a retry of an older batch
	q.Park(9, "d")
	if got := q.CompleteUpTo(4); got != nil {
		t.Fatalf("nothing is due at 4, got %v", got)
	}
	if got := q.CompleteUpTo(8); !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("due at 8: %v", got)
	}
	if got := q.FailAll(); !slices.Equal(got, []string{"c", "d"}) {
		t.Fatalf("left: %v", got)
	}
	if q.Len() != 0 {
		t.Fatalf("%d items left", q.Len())
	}
}

func TestRemoveKeepsTheRestInOrder(t *testing.T) {
	var q Queue[int]
	for i := range 6 {
		q.Park(int64(i), i)
	}
	q.Remove(func(v int) bool { return v%2 == 1 })
	if got := q.CompleteUpTo(10); !slices.Equal(got, []int{0, 2, 4}) {
		t.Fatalf("left: %v", got)
	}
}
