package controller

import (
	"fmt"
	"slices"
	"testing"

	"weir/internal/kafka"
)

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
