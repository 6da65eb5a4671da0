package metadata

import (
	"cmp"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Against a map, over several edits, of which each leaves the trees of the ones before as they were.
func TestTreeIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type version struct {
			tree tree[int, int]
			want map[int]int
		}
		now := version{tree[int, int]{cmp: cmp.Compare[int]}, map[int]int{}}
		var versions []version
		for range rapid.IntRange(1, 6).Draw(t, "edits") {
			e := new(edit)
			next := version{now.tree, maps.Clone(now.want)}
			step := rapid.SampledFrom([]int{1, 1, 3, 7}).Draw(t, "step")
			from, n := rapid.IntRange(0, 500).Draw(t, "from"), rapid.IntRange(0, 400).Draw(t, "n")
			remove := rapid.Bool().Draw(t, "remove")
			for k := from; k < from+n*step; k += step {
				if !remove {
					next.tree.set(e, k, k*10+len(versions))
					next.want[k] = k*10 + len(versions)
					continue
				}
				_, there := next.want[k]
				if next.tree.remove(e, k) != there {
					t.Fatalf("remove %d: there %v", k, there)
				}
				delete(next.want, k)
			}
			versions = append(versions, next)
			now = next
		}
		for _, v := range versions {
			checkTree(t, &v.tree, v.want)
		}
	})
}

func checkTree(t *rapid.T, tr *tree[int, int], want map[int]int) {
	keys := slices.Sorted(maps.Keys(want))
	got := []int{}
	for k, v := range tr.all() {
		if v != want[k] {
			t.Fatalf("%d is %d, want %d", k, v, want[k])
		}
		got = append(got, k)
	}
	if !slices.Equal(got, keys) || tr.n != len(keys) {
		t.Fatalf("keys %v, count %d, want %v", got, tr.n, keys)
	}
	for k := -1; k < 1000; k += 37 {
		v, ok := tr.get(k)
		if w, there := want[k]; ok != there || v != w {
			t.Fatalf("get %d: %d %v, want %d %v", k, v, ok, w, there)
		}
		i, _ := slices.BinarySearch(keys, k)
		rest := []int{}
		for at := range tr.from(k) {
			rest = append(rest, at)
		}
		if !slices.Equal(rest, keys[i:]) {
			t.Fatalf("from %d: %v, want %v", k, rest, keys[i:])
		}
	}
}
