package log

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"testing"

	"weir/internal/vfs"
)

// An index that is too large to stay in memory answers as one that is not: all entries that are looked for, around those that
// were flushed, in the window of the last look-up and outside of it.
func TestLargeIndex(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 3))
			fsys := vfs.NewMem()
			x := NewOffsetIndex(fsys, "/0.index", 0)
			var model []OffsetPosition
			shed, next := 0, OffsetPosition{}
			for range 400 {
				switch p := rng.IntN(20); {
				case p < 12:
					for range rng.IntN(700) {
						next.Offset += 1 + rng.Int64N(9)
						next.Position += 100 + rng.Int64N(5000)
						x.Append(next.Offset, next.Position)
						model = append(model, next)
					}
				case p < 16:
					must(t, x.Flush())
				case p == 16:
					must(t, x.Seal())
					checkLookup(t, rng, x, model)
					must(t, x.TruncateTo(next.Offset+1)) // grows again
				case p == 17 && len(model) > 0:
					cut := rng.IntN(len(model))
					must(t, x.TruncateTo(model[cut].Offset))
					model = model[:cut]
					next = OffsetPosition{}
					if cut > 0 {
						next = model[cut-1]
					}
				case p == 18:
					must(t, x.Flush())
					var err error
					x, err = LoadOffsetIndex(fsys, "/0.index", 0, next.Offset+1, next.Position+1)
					must(t, err)
				}
				if x.file.below > 0 && !x.file.sealed {
					shed++
				}
				for range 10 {
					checkLookup(t, rng, x, model)
				}
				if x.Len() != int64(len(model)) {
					t.Fatalf("%d entries, not %d", x.Len(), len(model))
				}
			}
			if shed == 0 {
				t.Error("the index never left memory")
			}
		})
	}
}

func checkLookup(t *testing.T, rng *rand.Rand, x *OffsetIndex, model []OffsetPosition) {
	t.Helper()
	want, offset, position := OffsetPosition{}, rng.Int64N(20), rng.Int64N(20)
	if n := len(model); n > 0 {
		near := model[rng.IntN(n)]
		offset, position = near.Offset+rng.Int64N(3)-1, near.Position+rng.Int64N(3)-1
	}
	if i := sort.Search(len(model), func(i int) bool { return model[i].Offset > offset }); i > 0 {
		want = model[i-1]
	}
	if got, err := x.Lookup(offset); err != nil || got != want {
		t.Fatalf("offset %d is at %+v (%v), not %+v", offset, got, err, want)
	}
	want = OffsetPosition{}
	if i := sort.Search(len(model), func(i int) bool { return model[i].Position > position }); i > 0 {
		want = model[i-1]
	}
	if got, err := x.LookupPosition(position); err != nil || got != want {
		t.Fatalf("position %d is at %+v (%v), not %+v", position, got, err, want)
	}
}
