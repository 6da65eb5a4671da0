package group

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestStatsTellOfEveryGroup(t *testing.T) {
	h := newOffsetHarness(t)
	h.commit("readers", "orders", 1, 42)
	h.commit("readers", "orders", 0, 41)
	h.commit("readers", "bills", 0, 7)
	h.commit("others", "orders", 0, 1)
	got := h.call(Stats{}).([]GroupStats)
	slices.SortFunc(got, func(a, b GroupStats) int { return strings.Compare(a.ID, b.ID) })
	want := []GroupStats{
		{ID: "others", State: "Empty", Offsets: []OffsetStats{{"orders", 0, 1}}},
		{ID: "readers", State: "Empty", Offsets: []OffsetStats{{"bills", 0, 7}, {"orders", 0, 41}, {"orders", 1, 42}}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	h.commit("others", "orders", 0, 2)
	if got[0].Offsets[0].Offset != 1 {
		t.Error("the snapshot went on with the shard")
	}
}
