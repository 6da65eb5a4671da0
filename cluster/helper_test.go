package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

var start = time.Unix(1_700_000_000, 0)

func newDisk() *vfs.Mem {
	m := vfs.NewMem()
	if err := errors.Join(m.MkdirAll("/data", 0o755), m.SyncDir("/")); err != nil {
		panic(err)
	}
	return m
}

func options(fsys vfs.FS, incarnation byte) Options {
	return Options{
		FS: fsys, Clock: clock.NewManual(start), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
		MetadataDir: "/data", DirectoryID: kafka.UUID{1, 15: 200}, ClusterID: "c1", Self: 1, SessionTimeout: 9 * time.Second,
		Registration: Registration{
			Incarnation: kafka.UUID{incarnation}, Listeners: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "localhost", Port: 9092}},
			Directories: []kafka.DirectoryID{{1, 15: 200}}, PreviousEpoch: -1,
		},
		Settings: controller.Settings{NumPartitions: 1, DefaultReplicationFactor: 1, MinInSyncReplicas: 1, DeleteTopicEnable: true},
	}
}

func newTopic(name string, partitions int32) controller.NewTopic {
	id := kafka.UUID{15: 201}
	copy(id[:14], name)
	return controller.NewTopic{Name: name, ID: id, NumPartitions: partitions, ReplicationFactor: -1}
}

func create(name string, partitions int32) controller.CreateTopics {
	return controller.CreateTopics{Topics: []controller.NewTopic{newTopic(name, partitions)}}
}

// driver steps a node in the test's own goroutine.
type driver struct {
	t     testing.TB
	node  *Node
	clock *clock.Manual
	trace []string
}

// drive opens a node without its goroutines and runs it until its broker does.
func drive(t testing.TB, o Options) *driver {
	t.Helper()
	d := &driver{t: t, node: New(o), clock: o.Clock.(*clock.Manual)}
	d.node.Subscribe(func(delta *metadata.Delta, img *metadata.Image) {
		d.trace = append(d.trace, fmt.Sprintf("publish %d.%d %s", img.Index, img.Term, describe(delta)))
	})
	if err := d.node.Open(); err != nil {
		t.Fatal(err)
	}
	d.run()
	if d.node.State() != Running {
		t.Fatalf("the broker is in state %d", d.node.State())
	}
	return d
}

// run steps until nothing is left to do.
func (d *driver) run() {
	d.t.Helper()
	if err := d.node.Step(d.clock.Now()); err != nil {
		d.t.Fatal(err)
	}
}

// submit hands commands in together and returns their answers.
func (d *driver) submit(cmds ...controller.Command) []result {
	d.t.Helper()
	results := make([]result, len(cmds))
	given := 0
	for i, cmd := range cmds {
		d.node.SubmitAsync(cmd, func(reply controller.Reply, err error) {
			text, _ := json.Marshal(reply) // follows pointers
			d.trace = append(d.trace, fmt.Sprintf("answer %d: %T %s %v", i, reply, text, err))
			results[i] = result{reply, err}
			given++
		})
	}
	d.run()
	if given != len(cmds) {
		d.t.Fatalf("%d of %d commands were answered", given, len(cmds))
	}
	return results
}

// result is a command's answer.
type result struct {
	reply controller.Reply
	err   error
}

func (d *driver) close() {
	d.t.Helper()
	if err := d.node.quorum.Close(); err != nil {
		d.t.Fatal(err)
	}
}

func describe(d *metadata.Delta) string {
	var out []string
	for _, t := range d.TopicsDeleted {
		out = append(out, "-"+t.Name)
	}
	for _, t := range d.TopicsCreated {
		out = append(out, fmt.Sprintf("+%s/%d", t.Name, len(t.Partitions)))
	}
	for _, c := range d.TopicsChanged {
		out = append(out, fmt.Sprintf("~%s%v", c.New.Name, c.Partitions))
	}
	for _, b := range d.Brokers {
		out = append(out, fmt.Sprintf("broker%d", b.ID))
	}
	for _, c := range d.Configs {
		out = append(out, fmt.Sprintf("config%d:%s", c.Type, c.Name))
	}
	if d.ProducerIDs {
		out = append(out, "ids")
	}
	return strings.Join(out, " ")
}
