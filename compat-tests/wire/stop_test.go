package wire

import (
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A stop that waits for waiting consumers is ended by SIGKILL after ten seconds, in a container, and the next start has to
// recover. So waiting fetches are let go, what was acknowledged is there afterwards, and the next start finds all in order.
func TestStopWithWaitingConsumersAndBusyProducers(t *testing.T) {
	s := start(t)
	topic := newTopic(t, s.Address, 2).name
	const waiting, producing = 100, 4
	for range waiting {
		c := dial(t, s.Address)
		req := fetchRequest(topic, 1, 0)
		req.MaxWaitMillis = longWait
		c.send(t, c.frame(req))
	}
	var acked atomic.Int64
	var wg sync.WaitGroup
	for range producing {
		c := dial(t, s.Address)
		wg.Go(func() {
			for {
				resp, err := produceRequest(topic, 0, textBatch("a").bytes()).RequestWith(t.Context(), c)
				if err != nil {
					return // the broker stopped
				}
				if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
					t.Errorf("Produce: %s", codeName(code))
					return
				}
				acked.Add(1)
			}
		})
	}
	for acked.Load() < 200 {
		time.Sleep(time.Millisecond)
	}
	started := time.Now()
	s.stop(t) // with exit code 0
	if took := time.Since(started); took > longWait*time.Millisecond/20 {
		t.Errorf("the stop took %v: it waited for the fetches", took)
	}
	wg.Wait()
	if _, err := os.Stat(filepath.Join(s.options.DataDir, ".kafka_cleanshutdown")); err != nil {
		t.Errorf("the stop left no mark of a good end: %v", err)
	}
	s.restart(t)
	if end := endOffset(t, dial(t, s.Address), topic); end < acked.Load() || end > acked.Load()+producing {
		t.Errorf("the log ends at %d after %d acknowledgements", end, acked.Load())
	}
}

// A broker that is stopping for long, because a client does not read, ends at once at the second signal.
func TestTheSecondSignalEndsAtOnce(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			s := start(t)
			topic := newTopic(t, s.Address, 1).name
			c := dial(t, s.Address)
			for range 30 {
				mustProduce(t, c, topic, 0, newBatch(record{1, nil, make([]byte, 1<<20-1000)}))
			}
			stuck := dial(t, s.Address)
			req := fetchRequest(topic, 0, 0)
			req.Topics[0].Partitions[0].PartitionMaxBytes = 50 << 20
			stuck.send(t, stuck.frame(req))
			if _, err := stuck.in.Peek(1); err != nil { // it is being answered
				t.Fatal(err)
			}
			if err := syscall.Kill(s.PID(), signal); err != nil {
				t.Fatal(err)
			}
			s.awaitLog(t, "stopping")
			if s.ended() {
				t.Fatal("the stop did not wait for the client")
			}
			if err := syscall.Kill(s.PID(), signal); err != nil {
				t.Fatal(err)
			}
			s.awaitEnd(t)
			// What was acknowledged is there even so.
			s.restart(t)
			if end := endOffset(t, dial(t, s.Address), topic); end != 30 {
				t.Errorf("the log ends at %d", end)
			}
		})
	}
}

// While it stops a broker takes no new connections, and answers what it was asked before.
func TestWhatWasAskedBeforeTheStopIsAnswered(t *testing.T) {
	s := start(t)
	topic := newTopic(t, s.Address, 1).name
	c := dial(t, s.Address)
	const n = 50
	var frames []byte
	req := produceRequest(topic, 0, textBatch("a").bytes())
	for range n {
		frames = append(frames, c.frame(req)...)
	}
	c.send(t, frames)
	if _, err := c.receive(req, 1, replyWithin); err != nil {
		t.Fatal(err)
	}
	s.stop(t)
	acked := int64(1)
	for i := int32(2); i <= n; i++ {
		resp, err := c.receive(req, i, replyWithin)
		if err != nil {
			break
		}
		p := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if p.ErrorCode != 0 || p.BaseOffset != acked {
			t.Errorf("reply %d: %s, offset %d", i, codeName(p.ErrorCode), p.BaseOffset)
		}
		acked++
	}
	if _, err := connect(s.Address); err == nil {
		t.Error("a stopped broker takes connections")
	}
	s.restart(t)
	if end := endOffset(t, dial(t, s.Address), topic); end < acked {
		t.Errorf("the log ends at %d after %d acknowledgements", end, acked)
	}
}
