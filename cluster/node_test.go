package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/cryptotest"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// begin starts a node with its goroutines.
func begin(t testing.TB, o Options, subscribers ...func(*metadata.Delta, *metadata.Image)) *Node {
	t.Helper()
	n := New(o)
	for _, f := range subscribers {
		n.Subscribe(f)
	}
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func submit[R controller.Reply](t testing.TB, n *Node, cmd controller.Command) R {
	t.Helper()
	reply, err := n.Submit(context.Background(), cmd)
	if err != nil {
		t.Fatal(err)
	}
	return reply.(R)
}

func TestStartRegistersAndUnfences(t *testing.T) {
	n := begin(t, options(newDisk(), 1))
	img := n.Image()
	b, ok := img.Brokers.ByID(1)
	if !ok || b.Fenced || b.Incarnation != (kafka.UUID{1}) || img.ClusterID != "c1" {
		t.Fatalf("%+v", b)
	}
	if got := img.Configs.BrokerDefault()["min.insync.replicas"]; got != "1" {
		t.Errorf("min.insync.replicas of a new cluster is %q", got)
	}
	before := n.QuorumStatus()
	if before.Leader == 0 || before.Term == 0 || before.HighWatermark != img.Index+1 || len(before.Voters) != 1 || before.Voters[0].LogEndOffset != before.HighWatermark {
		t.Errorf("quorum %+v at index %d", before, img.Index)
	}
	ids := submit[controller.AllocateProducerIDsReply](t, n, controller.AllocateProducerIDs{Broker: 1, Epoch: b.Epoch})
	if got := n.QuorumStatus().HighWatermark; got != before.HighWatermark+1 {
		t.Errorf("the high watermark is %d after one more entry, and was %d", got, before.HighWatermark)
	}
	if ids.Start != 0 || ids.Count != 1000 {
		t.Errorf("%+v", ids)
	}
}

// Who has an answer finds what it says: on this broker's image, and with every subscriber, in their order.
func TestSubmitWaitsForPublication(t *testing.T) {
	var mu sync.Mutex
	var calls []string
	var n *Node
	note := func(name string) func(*metadata.Delta, *metadata.Image) {
		return func(d *metadata.Delta, img *metadata.Image) {
			mu.Lock()
			defer mu.Unlock()
			if len(d.TopicsCreated) > 0 {
				_, visible := n.Image().Topics.ByName(d.TopicsCreated[0].Name)
				calls = append(calls, fmt.Sprintf("%s %s visible=%v", name, describe(d), visible))
			}
		}
	}
	n = New(options(newDisk(), 1))
	n.Subscribe(note("first"))
	n.Subscribe(note("second"))
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	for i := range 20 {
		name := fmt.Sprintf("t%d", i)
		submit[controller.CreateTopicsReply](t, n, create(name, 3))
		mu.Lock()
		got := slices.Clone(calls)
		calls = nil
		mu.Unlock()
		if want := []string{"first +" + name + "/3 visible=false", "second +" + name + "/3 visible=false"}; !slices.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
		if topic, ok := n.Image().Topics.ByName(name); !ok || topic.Partitions[2].Leader != 1 {
			t.Fatalf("%s is not there: %+v", name, topic)
		}
	}
}

// Fifty clients create one topic at once (K031): one does, the others are told that it exists.
func TestOneOfManyCreates(t *testing.T) {
	n := begin(t, options(newDisk(), 1))
	codes := make(chan kafka.Code, 50)
	var clients sync.WaitGroup
	for range cap(codes) {
		clients.Go(func() {
			reply, err := n.Submit(context.Background(), create("t", 1))
			if err != nil {
				t.Error(err)
				return
			}
			if _, visible := n.Image().Topics.ByName("t"); !visible {
				t.Error("answered before the topic is there")
			}
			codes <- reply.(controller.CreateTopicsReply).Topics[0].Code
		})
	}
	clients.Wait()
	close(codes)
	count := map[kafka.Code]int{}
	for c := range codes {
		count[c]++
	}
	if count[kafka.None] != 1 || count[kafka.TopicAlreadyExists] != 49 {
		t.Fatal(count)
	}
}

// A restart: another incarnation, another epoch, the same topics, led again; subscribers hear nothing of the past.
func TestRestart(t *testing.T) {
	disk := newDisk()
	var epoch kafka.BrokerEpoch
	for incarnation := range byte(4) {
		o := options(disk, incarnation+1)
		if incarnation > 0 {
			o.Registration.PreviousEpoch = epoch
		}
		d := drive(t, o)
		img := d.node.Image()
		b, _ := img.Brokers.ByID(1)
		if b.Epoch <= epoch || b.Fenced {
			t.Fatalf("epoch %d after %d, fenced %v", b.Epoch, epoch, b.Fenced)
		}
		epoch = b.Epoch
		if incarnation > 0 {
			if first := d.trace[0]; !strings.HasPrefix(first, "publish ") || !strings.Contains(first, "+kept/2") || strings.Contains(first, "gone") {
				t.Fatalf("the first publication is %q", first)
			}
			topic, _ := img.Topics.ByName("kept")
			if p := topic.Partitions[1]; p.Leader != 1 || !p.InISR(1) || p.RecoveryState != metadata.Recovered || int(p.LeaderEpoch) != 2*int(incarnation) {
				t.Fatalf("incarnation %d: %+v", incarnation, p)
			}
		} else {
			d.submit(create("kept", 2), create("gone", 1))
			name := "gone"
			d.submit(controller.DeleteTopics{Topics: []controller.TopicRef{{Name: &name}}})
		}
		d.close()
	}
}

// Commands that come together go into one entry, decided one on the other.
func TestQueueBecomesOneEntry(t *testing.T) {
	d := drive(t, options(newDisk(), 1))
	before := d.node.Image().Index
	var cmds []controller.Command
	for i := range 100 {
		cmds = append(cmds, create(fmt.Sprintf("t%d", i%50), 1))
	}
	answers := d.submit(cmds...)
	for i, a := range answers {
		want := kafka.None
		if i >= 50 {
			want = kafka.TopicAlreadyExists
		}
		if got := a.reply.(controller.CreateTopicsReply).Topics[0].Code; got != want {
			t.Fatalf("command %d: %v", i, got)
		}
	}
	if img := d.node.Image(); img.Index != before+1 || img.Topics.Len() != 50 {
		t.Fatalf("%d topics at index %d, was %d", img.Topics.Len(), img.Index, before)
	}
}

// session is what a broker may see of a few days.
func session(t *testing.T, disk *vfs.Mem, seed uint64) []string {
	var trace []string
	rng := rand.New(rand.NewPCG(seed, 1))
	for incarnation := range byte(3) {
		d := drive(t, options(disk, incarnation+1))
		for i := range 15 {
			d.clock.Advance(1e9)
			name := fmt.Sprintf("t%d", rng.IntN(8))
			switch rng.IntN(4) {
			case 0:
				d.submit(controller.DeleteTopics{Topics: []controller.TopicRef{{Name: &name}}})
			case 1:
				d.submit(create(name, 2), controller.CreatePartitions{Topics: []controller.MorePartitions{{Name: name, Count: int32(i)}}})
			default:
				value := fmt.Sprint(rng.IntN(5) + 1)
				d.submit(create(name, 1), controller.IncrementalAlterConfigs{Resources: []controller.ConfigChange{{
					Resource: metadata.ConfigResource{Type: metadata.TopicResource, Name: name},
					Ops:      []controller.ConfigOp{{Name: "retention.ms", Op: controller.OpSet, Value: &value}},
				}}})
			}
		}
		d.close()
		trace = append(trace, d.trace...)
	}
	return trace
}

// The same commands at the same times give the same run: what is published, what is answered, and the disk, byte for byte.
func TestSameRunTwice(t *testing.T) {
	run := func() (trace []string, disk map[string]string) {
		cryptotest.SetGlobalRandom(t, 7) // the Raft id
		fsys := newDisk()
		trace = session(t, fsys, 1)
		entries, err := fsys.ReadDir("/data/__cluster_metadata-0")
		if err != nil {
			t.Fatal(err)
		}
		disk = map[string]string{}
		for _, e := range entries {
			disk[e.Name()] = read(t, fsys, "/data/__cluster_metadata-0/"+e.Name())
		}
		return trace, disk
	}
	trace1, disk1 := run()
	trace2, disk2 := run()
	if len(trace1) < 100 || !slices.Equal(trace1, trace2) {
		t.Fatalf("two runs of %d and %d lines", len(trace1), len(trace2))
	}
	for name := range disk1 {
		if disk1[name] != disk2[name] {
			t.Errorf("%s differs", name)
		}
	}
	if len(disk1) != len(disk2) || len(disk1) < 4 {
		t.Errorf("%d and %d files", len(disk1), len(disk2))
	}
}

func read(t *testing.T, fsys vfs.FS, path string) string {
	t.Helper()
	f, err := fsys.OpenFile(path, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	size, _ := f.Size()
	b := make([]byte, size)
	if _, err := f.ReadAt(b, 0); err != nil && size > 0 {
		t.Fatal(err)
	}
	return string(b)
}

// What was answered is there after a power cut, whatever it took; the broker leads what it led.
func TestAcknowledgedSurvivesPowerCut(t *testing.T) {
	disk := newDisk()
	d := drive(t, options(disk, 1))
	acknowledged := map[string]int{}
	for i := range 40 {
		name := fmt.Sprintf("t%d", i%15)
		if _, there := acknowledged[name]; there && i%3 == 0 {
			d.submit(controller.DeleteTopics{Topics: []controller.TopicRef{{Name: &name}}})
			delete(acknowledged, name)
		} else if !there {
			d.submit(create(name, int32(i%4+1)))
			acknowledged[name] = i%4 + 1
		}
		for l, loss := range []vfs.Loss{vfs.LoseAll(), vfs.LoseNone(), vfs.LoseSome(rand.New(rand.NewPCG(uint64(i), 3)))} {
			after := drive(t, options(disk.Crash(loss), 2))
			img := after.node.Image()
			if img.Topics.Len() != len(acknowledged) {
				t.Fatalf("step %d, loss %d: %d topics, acknowledged were %v", i, l, img.Topics.Len(), acknowledged)
			}
			for name, partitions := range acknowledged {
				topic, ok := img.Topics.ByName(name)
				if !ok || len(topic.Partitions) != partitions {
					t.Fatalf("step %d, loss %d: %s: %+v", i, l, name, topic)
				}
				// Nobody says that the logs are whole, so the broker recovers what it was the last to have.
				if p := topic.Partitions[0]; p.Leader != 1 || p.RecoveryState != metadata.Recovering {
					t.Fatalf("step %d, loss %d: %s: %+v", i, l, name, p)
				}
			}
			after.close()
		}
	}
	d.close()
}

func TestForeignLogIsRefused(t *testing.T) {
	disk := newDisk()
	d := drive(t, options(disk, 1))
	d.close()
	o := options(disk, 2)
	o.ClusterID = "c2"
	err := New(o).Start(t.Context())
	var refused *quorum.RefusedError
	if !errors.As(err, &refused) {
		t.Fatal(err)
	}
}

func TestSubmitEndsWithItsContextAndWithTheNode(t *testing.T) {
	hold := make(chan struct{})
	held := make(chan struct{}, 100)
	n := New(options(newDisk(), 1))
	n.Subscribe(func(d *metadata.Delta, _ *metadata.Image) {
		if len(d.TopicsCreated) > 0 {
			held <- struct{}{}
			<-hold
		}
	})
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() {
		_, err := n.Submit(ctx, create("a", 1))
		first <- err
	}()
	<-held // published to the subscriber, which does not return
	cancel()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(hold)
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := n.Submit(t.Context(), create("b", 1)); kafka.CodeOf(err) != kafka.NotController {
		t.Fatalf("after Close: %v", err)
	}
	if _, ok := n.Image().Topics.ByName("a"); !ok {
		t.Error("what was decided before Close was not published")
	}
}

// A disk that fails ends the node: whoever waits is told, and so is the owner.
func TestFailedDisk(t *testing.T) {
	disk := vfs.NewFaulty(newDisk())
	failed := make(chan error, 1)
	o := options(disk, 1)
	o.Failed = func(err error) { failed <- err }
	n := New(o)
	if err := n.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	disk.Inject(vfs.Fault{Op: vfs.OpSync, Err: errors.New("the disk is gone")})
	if _, err := n.Submit(t.Context(), create("a", 1)); err == nil {
		t.Fatal("answered without a disk")
	}
	if err := <-failed; !strings.Contains(err.Error(), "the disk is gone") {
		t.Fatal(err)
	}
	if _, err := n.Submit(t.Context(), create("b", 1)); kafka.CodeOf(err) != kafka.NotController {
		t.Fatal(err)
	}
	_ = n.Close() // the log is offline: that it cannot be closed cleanly is no news
}

func TestJoinAndShutdown(t *testing.T) {
	n := begin(t, options(newDisk(), 1))
	if err := n.Shutdown(t.Context()); err != nil || n.State() != ShuttingDown {
		t.Fatalf("alone: %v, state %d", err, n.State())
	}
	n = begin(t, options(newDisk(), 1))
	other := metadata.QuorumMember{RaftID: 77, Node: 2, Directory: kafka.UUID{2, 15: 200}, Host: "h2", Port: 9000}
	if err := n.Join(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if m, ok := n.Image().Quorum.ByRaftID(77); !ok || m != other {
		t.Errorf("%+v", m)
	}
	if err := n.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := New(options(newDisk(), 1)).Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
