package wire

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// moveTo asks a broker to put partition 0 of a topic into a data directory.
func moveTo(t *testing.T, c *conn, topic, dir string) int16 {
	t.Helper()
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir = dir
	d.Topics = []kmsg.AlterReplicaLogDirsRequestDirTopic{{Topic: topic, Partitions: []int32{0}}}
	req.Dirs = append(req.Dirs, d)
	resp := ask(t, c, at(2, req))
	if len(resp.Topics) != 1 || resp.Topics[0].Topic != topic || len(resp.Topics[0].Partitions) != 1 {
		t.Fatalf("the answer is about %+v", resp.Topics)
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}

// whereIs finds partition 0 of a topic in DescribeLogDirs: the directory it is in, and, if it is moving, its copy with its directory.
func whereIs(t *testing.T, c *conn, topic string) (dir string, copied kmsg.DescribeLogDirsResponseDirTopicPartition, copyDir string) {
	t.Helper()
	for _, d := range ask(t, c, at(4, kmsg.NewPtrDescribeLogDirsRequest())).Dirs {
		for _, tp := range d.Topics {
			for _, p := range tp.Partitions {
				switch {
				case tp.Topic != topic || p.Partition != 0:
				case p.IsFuture:
					copied, copyDir = p, d.Dir
				default:
					dir = d.Dir
				}
			}
		}
	}
	return dir, copied, copyDir
}

// setMoveRate changes replica.alter.log.dirs.io.max.bytes.per.second of all brokers.
func setMoveRate(t *testing.T, c *conn, rate string) {
	t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType = kmsg.ConfigResourceTypeBroker
	config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	config.Name, config.Value = "replica.alter.log.dirs.io.max.bytes.per.second", &rate
	r.Configs = append(r.Configs, config)
	req.Resources = append(req.Resources, r)
	for _, r := range ask(t, c, at(1, req)).Resources {
		wantCode(t, "changing the rate", r.ErrorCode, nil)
	}
}

// awaitIn waits until the replica is in a directory and moves no more.
func awaitIn(t *testing.T, c *conn, topic, dir string, meanwhile func()) {
	t.Helper()
	for deadline := time.Now().Add(3 * replyWithin); ; time.Sleep(5 * time.Millisecond) {
		is, _, copyDir := whereIs(t, c, topic)
		if is == dir && copyDir == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the replica is in %s, its copy in %s", is, copyDir)
		}
		meanwhile()
	}
}

// A replica moves to another directory while it is written to, is seen on its way, goes on after kill -9, and arrives whole
// (KIP-113).
func TestAReplicaMovesBetweenDirectories(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	s := startIn(t, a+","+b)
	c := dial(t, s.Address)
	topic := newTopic(t, s.Address, 1, "segment.bytes", "1048576").name
	acked := int64(0)
	more := func() {
		mustProduce(t, c, topic, 0, bigBatch(int32(acked)))
		acked++
	}
	for range 4 << 20 / bigBatchSize {
		more()
	}
	from, _, _ := whereIs(t, c, topic)
	to := map[string]string{a: b, b: a}[from]
	setMoveRate(t, c, "1")
	wantCode(t, "moving", moveTo(t, c, topic, to), nil)
	more()
	if is, copied, copyDir := whereIs(t, c, topic); is != from || copyDir != to || copied.OffsetLag <= 0 {
		t.Errorf("it is in %s, and on its way to %s it lacks %d records", is, copyDir, copied.OffsetLag)
	}
	s.Kill()
	s.restart(t)
	c = dial(t, s.Address)
	if is, _, copyDir := whereIs(t, c, topic); is != from || copyDir != to {
		t.Errorf("after a crash it is in %s, and on its way to %s", is, copyDir)
	}
	setMoveRate(t, c, "9223372036854775807")
	awaitIn(t, c, topic, to, more)
	more()
	checkBig(t, s, topic, acked)
	s.Kill()
	s.restart(t)
	c = dial(t, s.Address)
	if is, _, copyDir := whereIs(t, c, topic); is != to || copyDir != "" {
		t.Errorf("after another crash it is in %s, and on its way to %s", is, copyDir)
	}
	if end := endOffset(t, c, topic); end != acked+1 { // checkBig wrote one
		t.Errorf("it ends at %d, and %d were acknowledged", end, acked+1)
	}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), topic) {
			t.Errorf("the old directory still has %s", e.Name())
		}
	}
}

func TestMovesThatAreRefused(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	s := startIn(t, a+","+b)
	c := dial(t, s.Address)
	topic := newTopic(t, s.Address, 1).name
	wantCode(t, "moving to no data directory", moveTo(t, c, topic, "/nowhere"), kerr.LogDirNotFound)
	is, _, _ := whereIs(t, c, topic)
	wantCode(t, "moving to where it is", moveTo(t, c, topic, is), nil)
	// What is not there yet is made where it was asked for; by itself, one would go where the fewest are.
	for _, dir := range []string{b, b, b} {
		name := topic + "-later-" + filepath.Base(t.TempDir())
		wantCode(t, "moving what is not there", moveTo(t, c, name, dir), kerr.ReplicaNotAvailable)
		for _, r := range ask(t, c, at(5, createRequest(name, 1))).Topics {
			wantCode(t, "creating", r.ErrorCode, nil)
		}
		awaitLeaders(t, c, name, 1)
		if is, _, _ := whereIs(t, c, name); is != dir {
			t.Errorf("%s is in %s", name, is)
		}
	}
}
