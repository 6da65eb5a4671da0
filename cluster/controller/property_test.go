package controller

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// Whatever is asked in whatever order: what is decided applies, is decided the same way twice, leaves the image it was
// decided on as it was, and keeps what must hold of every partition.
func TestDecisionsKeepInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for id := range 3 {
			w.run(fmt.Sprintf("broker %d rack=r%d", id+1, id%2))
		}
		for range rapid.IntRange(1, 25).Draw(t, "commands") {
			cmd := drawCommand(t, w)
			before := slices.Collect(w.img.Records())
			records, reply, err := Decide(&w.settings, w.img, w.leases, w.now, cmd)
			records2, reply2, err2 := Decide(&w.settings, w.img, w.leases, w.now, cmd)
			if !reflect.DeepEqual(records, records2) || !reflect.DeepEqual(reply, reply2) || fmt.Sprint(err) != fmt.Sprint(err2) {
				t.Fatalf("%+v is decided in two ways", cmd)
			}
			if err != nil {
				continue
			}
			next, delta, err := metadata.Apply(w.img, w.img.Index+1, 1, metadata.AppendEntry(nil, w.img.Index, records))
			if err != nil {
				t.Fatalf("%+v: %v", cmd, err)
			}
			if !reflect.DeepEqual(before, slices.Collect(w.img.Records())) {
				t.Fatalf("%+v changed the image that it was decided on", cmd)
			}
			checkPartitions(t, next, delta)
			w.img = next
		}
	})
}

func drawCommand(t *rapid.T, w *world) Command {
	name := rapid.SampledFrom([]string{"a", "b", "c", "x.y"}).Draw(t, "name")
	id := rapid.IntRange(1, 4).Draw(t, "broker")
	line := rapid.SampledFrom([]string{
		"create %[1]s partitions=%[3]d rf=%[2]d", "create %[1]s partitions=%[3]d rf=%[2]d min.insync.replicas=2",
		"create %[1]s partitions=%[3]d rf=3 unclean.leader.election.enable=true", "create %[1]s assign=0:%[2]d,3/1:3,1",
		"delete %[1]s", "grow %[1]s count=%[3]d",
		"heartbeat %[2]d", "heartbeat %[2]d", "heartbeat %[2]d fence=", "heartbeat %[2]d fence=",
		"register %[2]d incarnation=%[3]d", "register %[2]d incarnation=%[3]d previous=%[3]d",
		"incremental 2:%[1]s 0:min.insync.replicas=%[3]d", "alter 2:%[1]s retention.ms=%[3]d", "incremental 4: 0:min.insync.replicas=%[3]d",
		"producerids %[2]d",
	}).Draw(t, "line")
	line = fmt.Sprintf(line+"%.0[1]s%.0[2]d%.0[3]d", name, id, rapid.IntRange(1, 4).Draw(t, "number"))
	verb, rest := cut(line)
	if verb == "register" {
		c := w.register(parseWords(rest))
		if b, known := w.img.Brokers.ByID(c.Broker); known && c.PreviousEpoch >= 0 {
			c.PreviousEpoch = b.Epoch // with all that it had
		}
		return c
	}
	return w.command(verb, []string{rest}, false)
}

func cut(line string) (verb, rest string) {
	i := slices.Index([]byte(line), ' ')
	return line[:i], line[i+1:]
}

func checkPartitions(t *rapid.T, img *metadata.Image, delta *metadata.Delta) {
	for topic := range img.Topics.All() {
		for i := range topic.Partitions {
			p := &topic.Partitions[i]
			if bad := brokenRule(img, topic.Name, p); bad != "" {
				t.Fatalf("%s-%d %s: %s", topic.Name, i, describePartition(p), bad)
			}
		}
	}
	for _, c := range delta.TopicsChanged {
		for _, i := range c.Partitions {
			old, now := c.Old.Partition(i), c.New.Partition(i)
			if old == nil {
				continue
			}
			wantEpoch := old.LeaderEpoch
			if old.Leader != now.Leader {
				wantEpoch++
			}
			if now.PartitionEpoch != old.PartitionEpoch+1 || now.LeaderEpoch != wantEpoch {
				t.Fatalf("%s-%d: %s became %s (R3)", c.New.Name, i, describePartition(old), describePartition(now))
			}
		}
	}
}

func brokenRule(img *metadata.Image, topic string, p *metadata.PartitionRegistration) string {
	subset := func(ids []kafka.BrokerID) bool {
		return !slices.ContainsFunc(ids, func(id kafka.BrokerID) bool { return !p.HasReplica(id) })
	}
	d := decision{settings: &Settings{MinInSyncReplicas: 1}, img: img}
	switch {
	case !subset(p.ISR) || !subset(p.ELR) || !subset(p.LastKnownELR):
		return "a member is no replica"
	case slices.ContainsFunc(p.ELR, p.InISR):
		return "someone is in the ISR and in the ELR"
	case p.Leader != kafka.NoBroker && !p.InISR(p.Leader):
		return "the leader is not in the ISR"
	case p.Leader != kafka.NoBroker && !mayLead(img, p, p.Leader):
		return "the leader is not active"
	case p.Leader == kafka.NoBroker && len(p.ISR)+len(p.ELR)+len(p.LastKnownELR) == 0:
		return "there is no one to wait for"
	case slices.ContainsFunc(p.ISR, func(id kafka.BrokerID) bool { return !mayLead(img, p, id) }):
		return "a fenced broker is in the ISR (KIP-841)"
	case len(p.ELR) > 0 && len(p.ISR) >= min(d.minISR(topic), len(p.Replicas)):
		return "there is an ELR beside a full ISR"
	}
	return ""
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
			checkPlacement(t, newPlacer(w.img, 12345678901234567890), c.racks, c.fenced, c.rf)
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
