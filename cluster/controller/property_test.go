package controller

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// Whatever is asked in whatever order: what is decided applies, is decided the same way twice, leaves the image it was
// decided on as it was, and keeps what must hold of every partition and of every change of one.
func TestDecisionsKeepInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for id := range 3 {
			w.run(fmt.Sprintf("broker %d rack=r%d dirs=%d,%d", id+1, id%2, 10*id+11, 10*id+12))
		}
		w.run("settings offsets=3")
		for range rapid.IntRange(1, 40).Draw(t, "commands") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * time.Second)
			w.step(t, drawCommand(t, w))
			drawRumour(t, w)
			w.checkExpiry(t)
			w.checkRumours(t)
		}
	})
}

// A command that is made of anything is answered, and what is decided of it applies.
func TestAnyCommandIsAnswered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for id := range 3 {
			w.run(fmt.Sprintf("broker %d", id+1))
		}
		w.run("create a assign=0:1,2,3/1:2,3,1 | b assign=0:1")
		for range rapid.IntRange(1, 10).Draw(t, "commands") {
			w.step(t, drawNear(t, w))
		}
	})
}

// The same of nodes that come and go, with few ids and directories.
func TestNodesComeAndGo(t *testing.T) {
	lines := []string{
		"member ID raft=N dir=N host=h", "member ID raft=N dir=N host=h", "member ID raft=5 dir=N", "join dir=N", "join ID dir=N",
		"register ID incarnation=N dirs=N", "register ID incarnation=N dirs=N,5", "heartbeat ID", "fence", "unregister ID", "remove ID dir=N", "remove ID dir=N",
	}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		w.run("broker 1")
		w.run("create a assign=0:1")
		for range rapid.IntRange(1, 30).Draw(t, "commands") {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 5).Draw(t, "seconds")) * time.Second)
			line := rapid.SampledFrom(lines).Draw(t, "line")
			id, dir := rapid.IntRange(1, 3).Draw(t, "node"), rapid.IntRange(1, 4).Draw(t, "directory")
			verb, rest, _ := strings.Cut(strings.NewReplacer("ID", fmt.Sprint(id), "N", fmt.Sprint(dir)).Replace(line), " ")
			w.step(t, w.command(verb, []string{rest}, false))
		}
	})
}

// step decides and applies a command, and checks what holds of every decision.
func (w *world) step(t *rapid.T, cmd Command) {
	before := slices.Collect(w.img.Records())
	records, reply, err := Decide(&w.settings, w.img, w.leases, w.now, cmd)
	records2, reply2, err2 := Decide(&w.settings, w.img, w.leases, w.now, cmd)
	if !reflect.DeepEqual(records, records2) || !reflect.DeepEqual(reply, reply2) || fmt.Sprint(err) != fmt.Sprint(err2) {
		t.Fatalf("%+v is decided in two ways", cmd)
	}
	if _, isHeartbeat := cmd.(BrokerHeartbeat); isHeartbeat || err == nil {
		w.leases.Heard(w.img, cmd, w.now)
	}
	if err != nil {
		if kafka.CodeOf(err) == kafka.UnknownServerError {
			t.Fatalf("%+v: %v", cmd, err)
		}
		return
	}
	next, delta, err := metadata.Apply(w.img, w.img.Index+1, 1, metadata.AppendEntry(nil, w.img.Index, records))
	if err != nil {
		t.Fatalf("%+v: %v", cmd, err)
	}
	if !reflect.DeepEqual(before, slices.Collect(w.img.Records())) {
		t.Fatalf("%+v changed the image that it was decided on", cmd)
	}
	checkPartitions(t, next)
	checkChanges(t, cmd, delta)
	checkNodes(t, next)
	w.checkGivenID(t, cmd, reply)
	w.img = next
}

// checkExpiry holds what NextExpiry says against what FenceBrokers does.
func (w *world) checkExpiry(t *rapid.T) {
	fenced := func(at time.Time) int {
		_, reply, _ := Decide(&w.settings, w.img, w.leases, at, FenceBrokers{})
		return len(reply.(FenceBrokersReply).Fenced)
	}
	at, ok := NextExpiry(w.img, w.leases)
	switch {
	case !ok && fenced(w.now.Add(time.Hour)) > 0:
		t.Fatal("someone expires who never does")
	case ok && (fenced(at) == 0 || fenced(at.Add(-1)) > 0):
		t.Fatalf("at %v, which should be the next expiry, %d are fenced, and %d before", at.Sub(w.now), fenced(at), fenced(at.Add(-1)))
	}
}

func drawCommand(t *rapid.T, w *world) Command {
	name := rapid.SampledFrom([]string{"a", "b", "c", "x.y", kafka.ConsumerOffsetsTopic}).Draw(t, "name")
	id := rapid.IntRange(1, 4).Draw(t, "broker")
	line := rapid.SampledFrom([]string{
		"create NAME partitions=N rf=ID", "create NAME partitions=N rf=ID min.insync.replicas=2",
		"create NAME partitions=N rf=3 unclean.leader.election.enable=true", "create NAME assign=0:ID,3/1:3,1",
		"delete NAME", "grow NAME count=N",
		"heartbeat ID", "heartbeat ID", "heartbeat ID", "heartbeat ID fence=", "heartbeat ID shutdown=", "heartbeat ID offset=@ shutdown=",
		"heartbeat ID unreachable=N", "heartbeat ID unreachable=N", "heartbeat ID offline=ID1", "heartbeat ID offline=ID1,ID2",
		"register ID incarnation=N dirs=ID1,ID2", "register ID incarnation=N previous=N dirs=ID1", "register ID incarnation=N dirs=IDN",
		"incremental 2:NAME 0:min.insync.replicas=N", "alter 2:NAME retention.ms=N", "incremental 4: 0:min.insync.replicas=N",
		"producerids ID", "fence", "fence", "isr", "isr", "isr", "isr", "reassign", "reassign", "raise", "balance 1", "balance 10",
		"elect 0 NAME-0 NAME-1", "elect 1 NAME-0", "elect 0 all", "elect 1 all", "assign ID | NAME-0 dir=ID2 | NAME-1 dir=IDN",
		"member ID raft=N dir=N host=h", "member ID raft=ID1 dir=ID1 host=h", "initialize", "key k", "join dir=N", "unregister ID", "remove ID dir=ID1",
	}).Draw(t, "line")
	number := rapid.IntRange(1, 4).Draw(t, "number")
	line = strings.NewReplacer("NAME", name, "ID", fmt.Sprint(id), "N", fmt.Sprint(number)).Replace(line)
	switch verb, rest, _ := strings.Cut(line, " "); verb {
	case "register":
		c := w.register(parseWords(rest))
		if b, known := w.img.Brokers.ByID(c.Broker); known && c.PreviousEpoch >= 0 {
			c.PreviousEpoch = b.Epoch // with all that it had
		}
		return c
	case "isr":
		return drawISRChange(t, w)
	case "reassign":
		return drawReassignment(t, w)
	default:
		return w.command(verb, strings.Split(rest, " | "), false)
	}
}

// drawPartition chooses one that there is.
func drawPartition(t *rapid.T, w *world) (*metadata.Topic, int32) {
	topics := slices.Collect(w.img.Topics.All())
	if len(topics) == 0 {
		return nil, 0
	}
	topic := rapid.SampledFrom(topics).Draw(t, "topic")
	return topic, rapid.Int32Range(0, int32(len(topic.Partitions)-1)).Draw(t, "partition")
}

// drawISRChange is what the leader of a partition wants: some of its replicas, and mostly itself.
func drawISRChange(t *rapid.T, w *world) Command {
	topic, i := drawPartition(t, w)
	if topic == nil {
		return FenceBrokers{}
	}
	p := topic.Partition(i)
	var isr []string
	for _, id := range p.Replicas {
		if id == p.Leader || rapid.Bool().Draw(t, "in") {
			isr = append(isr, fmt.Sprint(id))
		}
	}
	line := fmt.Sprintf("%d | %s-%d isr=%s recovery=%d", p.Leader, topic.Name, i, strings.Join(isr, ","), rapid.IntRange(0, 1).Draw(t, "recovery"))
	return w.command("isr", strings.Split(line, " | "), false)
}

// drawReassignment moves a partition, as an operator would, or cancels that.
func drawReassignment(t *rapid.T, w *world) Command {
	topic, i := drawPartition(t, w)
	if topic == nil {
		return FenceBrokers{}
	}
	r := Reassignment{Topic: topic.Name, Partition: i}
	if rapid.IntRange(0, 3).Draw(t, "cancel") > 0 {
		for _, id := range rapid.SliceOfNDistinct(rapid.Int32Range(1, 4), 1, 3, rapid.ID).Draw(t, "target") {
			r.Replicas = append(r.Replicas, kafka.BrokerID(id))
		}
	}
	return AlterReassignments{Partitions: []Reassignment{r}, AllowFactorChange: true}
}

// drawNear draws a command whose fields are near to what there is in the world.
func drawNear(t *rapid.T, w *world) Command {
	ids := []kafka.UUID{{}, directory("1"), directory("2"), directory("9"), {0: 1}, {0: 2}, {0: 99}}
	d := drawer{
		ints:    rapid.OneOf(rapid.Int64Range(-1, 4), rapid.Int64Range(-1, w.img.Index+1)),
		strings: rapid.SampledFrom([]string{"", "a", "b", "c", "c1", "1", "min.insync.replicas", "unclean.leader.election.enable", "true", "__consumer_offsets", "\xff"}),
		uuids:   rapid.SampledFrom(ids),
	}
	return d.drawType(t, commandTypes).(Command)
}

func checkPartitions(t *rapid.T, img *metadata.Image) {
	for topic := range img.Topics.All() {
		for i := range topic.Partitions {
			p := &topic.Partitions[i]
			if bad := brokenRule(img, topic.Name, p); bad != "" {
				t.Fatalf("%s-%d %s: %s", topic.Name, i, describePartition(p), bad)
			}
		}
	}
}

// checkChanges checks epochs, and that a leader which is not to recover has all that was acknowledged: it was in
// the ISR or the ELR, or the leader before has just let it in.
func checkChanges(t *rapid.T, cmd Command, delta *metadata.Delta) {
	_, several := cmd.(FenceBrokers) // decides on one partition more than once
	if c, is := cmd.(AlterReassignments); is {
		several = len(c.Partitions) > 1
	}
	for _, c := range delta.TopicsChanged {
		for _, i := range c.Partitions {
			old, now := c.Old.Partition(i), c.New.Partition(i)
			if old == nil {
				continue
			}
			least := old.LeaderEpoch
			if old.Leader != now.Leader || !containsAll(now.Replicas, old.Replicas) {
				least++
			}
			wrong := now.PartitionEpoch <= old.PartitionEpoch || now.LeaderEpoch < least
			if !several {
				wrong = now.PartitionEpoch != old.PartitionEpoch+1 || now.LeaderEpoch != least
			}
			if wrong {
				t.Fatalf("%+v: %s-%d: %s became %s", cmd, c.New.Name, i, describePartition(old), describePartition(now))
			}
			if hopeless(now) && !hopeless(old) && !losesReplicas(cmd) {
				t.Fatalf("%+v: %s-%d: %s became %s, and there is no one to wait for", cmd, c.New.Name, i, describePartition(old), describePartition(now))
			}
			has := slices.Concat(old.ISR, old.ELR)
			completed := *now
			if completeReassignment(&completed); !completed.Equal(now) {
				t.Fatalf("%+v: %s-%d: %s became %s, and the reassignment is complete", cmd, c.New.Name, i, describePartition(old), describePartition(now))
			}
			if a, isISR := cmd.(AlterPartition); isISR {
				for _, p := range a.Partitions {
					has = append(has, members(p.ISR)...)
				}
			}
			if now.Leader != kafka.NoBroker && now.Leader != old.Leader && !slices.Contains(has, now.Leader) && now.RecoveryState != metadata.Recovering {
				t.Fatalf("%+v: %s-%d: %s became %s, whose leader need not have everything", cmd, c.New.Name, i, describePartition(old), describePartition(now))
			}
		}
	}
}

// hopeless is a partition that only an unclean election gives a leader.
func hopeless(p *metadata.PartitionRegistration) bool {
	return p.Leader == kafka.NoBroker && len(p.ISR)+len(p.ELR)+len(p.LastKnownELR) == 0
}

// losesReplicas reports whether a command may say that nothing is left of a replica.
func losesReplicas(cmd Command) bool {
	switch cmd.(type) {
	case AssignReplicasToDirs, RegisterBroker, RemoveMember:
		return true
	}
	return false
}

func brokenRule(img *metadata.Image, topic string, p *metadata.PartitionRegistration) string {
	subset := func(ids []kafka.BrokerID) bool { return containsAll(p.Replicas, ids) }
	d := decision{settings: &Settings{MinInSyncReplicas: 1}, img: img}
	switch {
	case !subset(p.ISR) || !subset(p.ELR) || !subset(p.LastKnownELR) || !subset(p.Adding) || !subset(p.Removing):
		return "a member is no replica"
	case len(p.Replicas) == len(p.Removing) || len(p.Replicas) == len(p.Adding):
		return "nobody shall be a replica, or nobody was one"
	case slices.ContainsFunc(p.ELR, p.InISR):
		return "someone is in the ISR and in the ELR"
	case p.Leader != kafka.NoBroker && !p.InISR(p.Leader):
		return "the leader is not in the ISR"
	case p.Leader != kafka.NoBroker && !mayLead(img, p, p.Leader):
		return "the leader may not lead"
	case p.Leader == kafka.NoBroker && slices.ContainsFunc(p.ISR, func(id kafka.BrokerID) bool { return mayLead(img, p, id) }):
		return "someone may lead and does not"
	case slices.ContainsFunc(p.ISR, func(id kafka.BrokerID) bool { b, known := img.Brokers.ByID(id); return !known || !b.Active() }):
		return "a broker that is not active is in the ISR (KIP-841)"
	case len(p.ELR) > 0 && len(p.ISR) >= min(d.minISR(topic), len(p.Replicas)):
		return "there is an ELR beside a full ISR"
	case p.RecoveryState == metadata.Recovering && len(p.ISR) > 1:
		return "the ISR grows while the leader recovers (KIP-704)"
	case p.Directories != nil && len(p.Directories) != len(p.Replicas):
		return "directories and replicas differ in number"
	}
	return ""
}

// drawRumour has gossip say something of a broker, of what it was or of what it is.
func drawRumour(t *rapid.T, w *world) {
	what := rapid.SampledFrom([]string{"", "", "gone=", "gone=", "alive=", "gone= of=2", "gone= of=3"}).Draw(t, "rumour")
	if what != "" {
		w.run(fmt.Sprintf("rumour %d %s", rapid.IntRange(1, 4).Draw(t, "of"), what))
	}
}

// checkRumours checks that gossip shortens sessions, to two heartbeats at least, and lengthens none.
func (w *world) checkRumours(t *rapid.T) {
	without := w.leases
	without.rumours = nil
	for b := range w.img.Brokers.All() {
		with, otherwise := w.leases.deadline(b), without.deadline(b)
		contact, heard := w.leases.LastContact[b.ID]
		if !heard {
			contact = w.leases.Began
		}
		if with.After(otherwise) || with.Before(otherwise) && with.Before(contact.Add(2*w.leases.HeartbeatInterval)) {
			t.Fatalf("gossip ends the session of broker %d %v after it was heard of, which ended after %v", b.ID, with.Sub(contact), otherwise.Sub(contact))
		}
	}
}

// checkNodes checks that nothing that was removed takes part.
func checkNodes(t *rapid.T, img *metadata.Image) {
	for n := range img.Nodes.All() {
		if !n.Removed {
			continue
		}
		for b := range img.Brokers.All() {
			if slices.Contains(b.Directories, n.Directory) {
				t.Fatalf("broker %d has a directory of node %d that was removed", b.ID, n.ID)
			}
		}
		for m := range img.Quorum.All() {
			if m.Directory == n.Directory {
				t.Fatalf("member %s has a directory of node %d that was removed", describeMember(m), n.ID)
			}
		}
	}
	for _, m := range Superseded(img) {
		if b, registered := img.Brokers.ByID(m.Node); !registered || slices.Contains(b.Directories, m.Directory) {
			t.Fatalf("%s is superseded, and its broker has its directory", describeMember(m))
		}
	}
}

// checkGivenID checks that an id which the controller gives was never anybody's, and notes whose there are.
func (w *world) checkGivenID(t *rapid.T, cmd Command, reply Reply) {
	if w.used == nil {
		w.used = map[kafka.BrokerID]bool{}
	}
	for b := range w.img.Brokers.All() {
		w.used[b.ID] = true
	}
	for m := range w.img.Quorum.All() {
		w.used[m.Node] = true
	}
	for n := range w.img.Nodes.All() {
		w.used[n.ID] = true
	}
	c, joins := cmd.(JoinNode)
	if !joins {
		return
	}
	d := decision{img: w.img}
	given := reply.(JoinNodeReply).Node
	if known, has := d.nodeOf(c.Directory); has != w.used[given] && c.Node == kafka.NoBroker || has && known != given {
		t.Fatalf("%+v gets the id %d; the ids %v were used, and the directory was known is %v", c, given, w.used, has)
	}
}
