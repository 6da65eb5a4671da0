package kgo

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"weir/compat-tests/harness"
)

// place is where a record was acknowledged.
type place struct {
	partition int32
	offset    int64
}

// load produces numbered records without pause until it is told to stop.
type load struct {
	client *kgo.Client
	topic  string
	cancel context.CancelFunc
	done   chan struct{}

	mu struct {
		sync.Mutex
		sent  uint64
		acked map[uint64]place
		err   error
	}
}

func startLoad(ctx context.Context, client *kgo.Client, topic string) *load {
	l := &load{client: client, topic: topic, done: make(chan struct{})}
	l.mu.acked = make(map[uint64]place)
	ctx, l.cancel = context.WithCancel(ctx)
	go func() {
		defer close(l.done)
		random := rand.New(rand.NewPCG(3, 4))
		for n := uint64(0); ctx.Err() == nil; n++ {
			value := binary.BigEndian.AppendUint64(make([]byte, 0, 1024), n)
			value = value[:8+random.IntN(1000)]
			l.mu.Lock()
			l.mu.sent = n + 1
			l.mu.Unlock()
			// Not ctx: what has been handed over is sent to the end.
			client.Produce(context.WithoutCancel(ctx), &kgo.Record{Topic: topic, Value: value}, func(r *kgo.Record, err error) {
				l.mu.Lock()
				defer l.mu.Unlock()
				if err != nil {
					l.mu.err = err
				} else {
					l.mu.acked[n] = place{r.Partition, r.Offset}
				}
			})
		}
	}()
	return l
}

func (l *load) ackedCount() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.mu.acked)
}

// awaitProgress returns when so many more records have been acknowledged.
func (l *load) awaitProgress(t *testing.T, more int) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for goal := l.ackedCount() + more; l.ackedCount() < goal; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("no progress: %d records acknowledged, waiting for %d", l.ackedCount(), goal)
		}
	}
}

// stop ends the load and waits until everything is acknowledged.
func (l *load) stop(t *testing.T) {
	t.Helper()
	l.cancel()
	<-l.done
	if err := l.client.Flush(harness.Context(t)); err != nil {
		t.Fatalf("flush: %v", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.err != nil {
		t.Fatalf("a record failed for good: %v", l.mu.err)
	}
	if uint64(len(l.mu.acked)) != l.mu.sent {
		t.Fatalf("%d records were sent, %d acknowledged", l.mu.sent, len(l.mu.acked))
	}
}

// check reads everything back: each record where it was acknowledged, none twice, none that was not sent.
func (l *load) check(t *testing.T, broker *harness.Broker) {
	t.Helper()
	seen := make(map[uint64]place)
	twice, moved, strange := 0, 0, 0
	for _, r := range broker.ReadAll(t, l.topic) {
		n, at := binary.BigEndian.Uint64(r.Value), place{r.Partition, r.Offset}
		if _, ok := seen[n]; ok {
			twice++
		}
		seen[n] = at
		switch want, ok := l.mu.acked[n]; {
		case !ok:
			strange++
		case want != at:
			moved++
		}
	}
	missing := 0
	for n := range l.mu.acked {
		if _, ok := seen[n]; !ok {
			missing++
		}
	}
	if missing != 0 || twice != 0 || moved != 0 || strange != 0 {
		t.Errorf("of %d acknowledged records: missing %d, twice %d, elsewhere than acknowledged %d; never sent %d",
			len(l.mu.acked), missing, twice, moved, strange)
	}
	t.Logf("%d records acknowledged, %d read: missing %d, twice %d", len(l.mu.acked), len(seen), missing, twice)
}

// What is acknowledged survives kill -9 at any moment, and an idempotent producer that goes on afterwards writes
// nothing twice.
func TestIdempotentProducerAcrossKills(t *testing.T) {
	kills := 10
	if harness.Soak() {
		kills = 200
	}
	broker := harness.Start(t)
	topic := broker.Topic(t, 4)
	// A broker that is killed may close a connection before its first answer, which the client takes for a sign of SASL else.
	client := broker.Client(t, kgo.AlwaysRetryEOF(), kgo.MaxBufferedRecords(5000), kgo.ProducerLinger(time.Millisecond),
		kgo.ProducerBatchMaxBytes(64<<10), kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	l := startLoad(t.Context(), client, topic)
	random := rand.New(rand.NewPCG(5, 6))
	for range kills {
		l.awaitProgress(t, 500+random.IntN(2000))
		broker.Kill()
		broker.Restart(t)
	}
	l.awaitProgress(t, 500)
	l.stop(t)
	l.check(t, broker)
	// And once more from what is on disk, without a producer that could have mended anything.
	broker.Kill()
	broker.Restart(t)
	l.check(t, broker)
	broker.Stop(t)
	broker.Restart(t)
	l.check(t, broker)
}
