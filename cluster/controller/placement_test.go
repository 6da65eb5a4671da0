package controller

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/kafka"
)

// Whatever brokers there are in whatever racks: no rack is used twice before all are used once, and so on; who is fenced leads
// nothing and is used when nobody else of the rack is left; racks lead as often as each other, and within a rack its brokers.
func TestPlacementAnywhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		racks := map[string][]kafka.BrokerID{}
		rack, fenced := map[kafka.BrokerID]string{}, map[kafka.BrokerID]bool{}
		n := rapid.IntRange(1, 8).Draw(t, "brokers")
		for id := kafka.BrokerID(1); int(id) <= n; id++ {
			name := rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(t, "rack")
			rack[id], fenced[id] = name, id > 1 && rapid.Bool().Draw(t, "fenced")
			racks[name] = append(racks[name], id)
			w.run(fmt.Sprintf("broker %d rack=%s", id, name))
			if fenced[id] {
				w.run(fmt.Sprintf("heartbeat %d fence=", id))
			}
		}
		p := newPlacer(w.img, rapid.Uint64().Draw(t, "seed"), true)
		rf := rapid.IntRange(1, n).Draw(t, "factor")
		for i := range rapid.Int32Range(1, 20).Draw(t, "partitions") {
			checkReplicas(t, p.place(i, rf), rf, racks, rack, fenced)
		}
		checkLeads(t, p, racks, rack, fenced)
	})
}

func checkReplicas(t *rapid.T, replicas []kafka.BrokerID, rf int, racks map[string][]kafka.BrokerID, rack map[kafka.BrokerID]string, fenced map[kafka.BrokerID]bool) {
	if len(replicas) != rf || len(slices.Compact(sorted(replicas))) != rf || fenced[replicas[0]] {
		t.Fatalf("%v of %v, fenced %v", replicas, racks, fenced)
	}
	used := map[string]int{}
	for i, id := range replicas {
		for name, members := range racks {
			if used[name] < used[rack[id]] && used[name] < len(members) {
				t.Fatalf("%v: the %dth is in rack %q again, and not in %q of %v", replicas, i, rack[id], name, racks)
			}
		}
		used[rack[id]]++
		left := func(other kafka.BrokerID) bool { return !fenced[other] && !slices.Contains(replicas, other) }
		if fenced[id] && slices.ContainsFunc(racks[rack[id]], left) {
			t.Fatalf("%v has the fenced %d, and somebody else is left in %v", replicas, id, racks[rack[id]])
		}
	}
}

// checkLeads places so many partitions that every broker of up to eight is to lead equally often within its rack.
func checkLeads(t *rapid.T, p *placer, racks map[string][]kafka.BrokerID, rack map[kafka.BrokerID]string, fenced map[kafka.BrokerID]bool) {
	const rounds = 840 // a multiple of 1 to 8
	byRack, byBroker := map[string]int{}, map[kafka.BrokerID]int{}
	for i := range int32(rounds * len(p.leads)) {
		leader := p.place(i, 1)[0]
		byRack[rack[leader]]++
		byBroker[leader]++
	}
	for name, members := range racks {
		live := slices.DeleteFunc(slices.Clone(members), func(id kafka.BrokerID) bool { return fenced[id] })
		for _, id := range live {
			if byRack[name] != rounds || byBroker[id] != rounds/len(live) {
				t.Fatalf("rack %q leads %d of %d, and %d leads %d", name, byRack[name], rounds*len(p.leads), id, byBroker[id])
			}
		}
	}
}

func TestPlacement(t *testing.T) {
	for _, c := range []struct {
		racks  map[kafka.BrokerID]string
		fenced []kafka.BrokerID
		rf     int
	}{
		{map[kafka.BrokerID]string{1: "", 2: "", 3: ""}, nil, 1},
		{map[kafka.BrokerID]string{1: "", 2: "", 3: "", 4: "", 5: ""}, nil, 3},
		{map[kafka.BrokerID]string{1: "a", 2: "a", 3: "b", 4: "b", 5: "c", 6: "c"}, nil, 3},
		{map[kafka.BrokerID]string{1: "a", 2: "a", 3: "b", 4: "b"}, nil, 3},
		{map[kafka.BrokerID]string{1: "a", 2: "b", 3: "c"}, nil, 2},
		{map[kafka.BrokerID]string{1: "a", 2: "a", 3: "b", 4: "b"}, []kafka.BrokerID{3, 4}, 2},
		{map[kafka.BrokerID]string{1: "", 2: "", 3: ""}, []kafka.BrokerID{2}, 2},
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			w := newWorld()
			for id := range kafka.BrokerID(len(c.racks)) {
				w.run(fmt.Sprintf("broker %d rack=%s", id+1, c.racks[id+1]))
			}
			for _, id := range c.fenced {
				w.run(fmt.Sprintf("heartbeat %d fence=", id))
			}
			checkPlacement(t, newPlacer(w.img, 12345678901234567890, true), c.racks, c.fenced, c.rf)
		})
	}
}

// checkPlacement places 60 partitions, a multiple of each number of brokers above.
func checkPlacement(t *testing.T, p *placer, racks map[kafka.BrokerID]string, fenced []kafka.BrokerID, rf int) {
	const partitions = 60
	leads, second := map[kafka.BrokerID]int{}, map[[2]kafka.BrokerID]int{}
	names := map[string]bool{}
	for _, name := range racks {
		names[name] = true
	}
	for n := range int32(partitions) {
		replicas := p.place(n, rf)
		if len(replicas) != rf || len(slices.Compact(slices.Sorted(slices.Values(replicas)))) != rf {
			t.Fatalf("partition %d: %v", n, replicas)
		}
		if slices.Contains(fenced, replicas[0]) {
			t.Fatalf("partition %d is led by a fenced broker: %v", n, replicas)
		}
		used := map[string]bool{}
		for _, id := range replicas {
			used[racks[id]] = true
		}
		if len(used) != min(rf, len(names)) {
			t.Fatalf("partition %d is in %d of %d racks: %v", n, len(used), len(names), replicas)
		}
		leads[replicas[0]]++
		if rf > 1 {
			second[[2]kafka.BrokerID(replicas[:2])]++
		}
	}
	for id, n := range leads {
		if n != partitions/(len(racks)-len(fenced)) {
			t.Errorf("broker %d leads %d of %d partitions", id, n, partitions)
		}
	}
	if live := len(racks) - len(fenced); rf > 1 && live > 2 && len(names) < live {
		for pair, n := range second {
			if n > partitions/live*2/3 {
				t.Errorf("%d of the %d partitions that broker %d leads are followed by %d", n, leads[pair[0]], pair[0], pair[1])
			}
		}
	}
}
