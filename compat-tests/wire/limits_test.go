package wire

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// Above the limit new connections are closed, and those that are there go on. When some have left there is room again.
func TestConnectionsAboveTheLimit(t *testing.T) {
	const limit = 20
	s := start(t, "--override", fmt.Sprintf("max.connections=%d", limit))
	var conns []*conn
	for range limit {
		c := dial(t, s.Address)
		c.wantAlive(t)
		conns = append(conns, c)
	}
	for range 3 {
		dial(t, s.Address).wantClosed(t)
	}
	for _, c := range conns {
		c.wantAlive(t)
	}
	s.awaitLog(t, `"WARN"`, "limit", "connection")
	for _, c := range conns[:5] {
		c.Close()
	}
	awaitRoom(t, s.Address)
}

// awaitRoom dials until a connection is answered.
func awaitRoom(t *testing.T, address string) {
	t.Helper()
	for deadline := time.Now().Add(replyWithin); ; time.Sleep(10 * time.Millisecond) {
		c := dial(t, address)
		_, err := c.Request(t.Context(), kmsg.NewPtrApiVersionsRequest())
		c.Close()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no connection is let in: %v", err)
		}
	}
}

// Where a process may have few files, connections leave some to logs: without them a directory would count as failed. Nor
// does the broker spin; connections that it has go on, and when some are closed it takes new ones.
func TestConnectionsLeaveFileDescriptors(t *testing.T) {
	const descriptors = 100
	s := prepare(t, filepath.Join(t.TempDir(), "data"))
	script := filepath.Join(t.TempDir(), "weir-with-few-files")
	text := fmt.Sprintf("#!/bin/sh\nulimit -n %d\nexec '%s' \"$@\"\n", descriptors, weir(t))
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	s.options.Binary = script
	s.restart(t)
	topic := newTopic(t, s.Address, 1).name
	old := dial(t, s.Address)
	mustProduce(t, old, topic, 0, textBatch("a"))
	var conns []*conn
	for range 2 * descriptors {
		conns = append(conns, dial(t, s.Address))
	}
	s.awaitLog(t, `"WARN"`, "limit", "connection")
	before := cpuTime(t, s.PID())
	time.Sleep(300 * time.Millisecond)
	if used := cpuTime(t, s.PID()) - before; used > 150*time.Millisecond {
		t.Errorf("with too many connections the broker used %v of processor time in 300ms", used)
	}
	mustProduce(t, old, topic, 0, textBatch("b"))
	second := topic + "-2" // which needs files
	ask(t, old, at(7, createRequest(second, 1)))
	awaitLeaders(t, old, second, 1)
	mustProduce(t, old, second, 0, textBatch("a"))
	for _, c := range conns {
		c.Close()
	}
	awaitRoom(t, s.Address)
	mustProduce(t, old, topic, 0, textBatch("c"))
	if strings.Contains(s.log(t), "too many open files") {
		t.Error("the log tells of too many open files")
	}
	s.Kill()
	s.restart(t)
	c := dial(t, s.Address)
	awaitLeaders(t, c, second, 1)
	mustProduce(t, c, second, 0, textBatch("b"))
	if end := endOffset(t, c, topic); end != 3 {
		t.Errorf("the log ends at %d", end)
	}
}

// cpuTime is how long a process has computed.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	used, err := harness.CPU(pid)
	if err != nil {
		t.Fatal(err)
	}
	return used
}

// A client that sends a byte now and then, or never reads, holds a connection and memory for ever unless there is a limit.
// Those who wait for records, or are silent between requests, are none of these.
func TestSlowClientsAreCutOff(t *testing.T) {
	s := start(t, "--override", "weir.limit.frame.read.ms=1000", "--override", "weir.limit.write.ms=1000")
	topic := newTopic(t, s.Address, 2).name
	c := dial(t, s.Address)
	for range 30 {
		mustProduce(t, c, topic, 0, newBatch(record{1, nil, make([]byte, 1<<20-1000)}))
	}
	waiting, idle := dial(t, s.Address), dial(t, s.Address)
	idle.wantAlive(t)
	wait := fetchRequest(topic, 1, 0)
	wait.MaxWaitMillis = longWait
	waiting.send(t, waiting.frame(wait))

	slow := map[string]*conn{"a byte now and then": dial(t, s.Address), "a frame that stops": dial(t, s.Address), "a TLS hello that stops": dial(t, s.Address)}
	slow["a frame that stops"].send(t, rawRequest(3, 1, false, 0, 0, 0, 1, 0, 50)[:20])
	slow["a TLS hello that stops"].send(t, []byte{0x16, 0x03, 0x01})
	go func() {
		frame := rawRequest(3, 1, false, make([]byte, 1000)...)
		for _, b := range frame {
			if _, err := slow["a byte now and then"].Write([]byte{b}); err != nil {
				return
			}
			time.Sleep(50 * time.Millisecond)
		}
	}()
	unread := dial(t, s.Address)
	big := fetchRequest(topic, 0, 0)
	big.Topics[0].Partitions[0].PartitionMaxBytes = 50 << 20
	unread.send(t, unread.frame(big))

	for name, c := range slow {
		if err := c.closed(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.awaitLog(t, unread.LocalAddr().String(), "read")
	if _, err := unread.reply(replyWithin); err == nil {
		t.Error("who does not read got a whole reply")
	} else if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("who does not read: %v", err)
	}
	idle.wantAlive(t)
	mustProduce(t, c, topic, 1, textBatch("a"))
	resp, err := waiting.receive(wait, waiting.sent, replyWithin)
	if err != nil {
		t.Fatalf("who waits for records: %v", err)
	}
	if p := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || len(p.RecordBatches) == 0 {
		t.Errorf("who waits for records: %s, %d bytes", codeName(p.ErrorCode), len(p.RecordBatches))
	}
}

// A connection is idle when nothing is in flight on it: one whose request is being answered is not, however long that
// takes.
func TestIdleConnectionsAreClosed(t *testing.T) {
	s := start(t, "--override", "connections.max.idle.ms=1500")
	topic := newTopic(t, s.Address, 1).name
	idle, waiting := dial(t, s.Address), dial(t, s.Address)
	idle.wantAlive(t)
	req := fetchRequest(topic, 0, 0)
	req.MaxWaitMillis = 4000
	waiting.send(t, waiting.frame(req))
	idle.wantClosed(t)
	if _, err := waiting.receive(req, waiting.sent, replyWithin); err != nil {
		t.Errorf("a connection with a request in flight: %v", err)
	}
}
