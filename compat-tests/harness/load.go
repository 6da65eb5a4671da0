package harness

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Load is a producer that writes to every partition of a topic, at a steady pace and with acks=all, while things fail.
// Each value is the number of its record in its partition, counted from 0, behind the load's name.
type Load struct {
	Name       string
	topic      string
	partitions int32
	stop       func() // returns when every record is acknowledged or has failed

	mu struct {
		sync.Mutex
		acks   [][]ack // by partition, in the order in which they came
		failed []string
	}
	began time.Time
}

// ack is a record that the cluster has acknowledged.
type ack struct {
	number, offset int64
	at             time.Duration // since the load began
}

const (
	loadInterval = time.Millisecond // between two records of a partition
	loadPadding  = 100              // bytes, so that records are not only framing
	loadInFlight = 5000             // records of a partition that are not acknowledged; then the producer waits
)

func newLoad(name, topic string, partitions int32) *Load {
	l := &Load{Name: name, topic: topic, partitions: partitions, began: time.Now()}
	l.mu.acks = make([][]ack, partitions)
	return l
}

func (l *Load) acknowledged(partition int32, offset, number int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.acks[partition] = append(l.mu.acks[partition], ack{number, offset, time.Since(l.began)})
}

func (l *Load) failedWith(err string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.failed = append(l.mu.failed, err)
}

// StartKgo starts a load with kgo, idempotent as it is by default.
func StartKgo(t *testing.T, c *Cluster, topic string, partitions int32) *Load {
	t.Helper()
	l := newLoad("kgo", topic, partitions)
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Bootstrap()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(100*time.Millisecond),
		kgo.MaxBufferedRecords(int(partitions)*loadInFlight), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var producing sync.WaitGroup
	for p := range partitions {
		producing.Go(func() { l.produce(ctx, client, p) })
	}
	l.stop = sync.OnceFunc(func() {
		cancel()
		producing.Wait()
		within, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := client.Flush(within); err != nil {
			l.failedWith("flush: " + err.Error())
		}
		client.Close()
	})
	t.Cleanup(l.stop)
	return l
}

// produce writes to one partition until ctx ends.
func (l *Load) produce(ctx context.Context, client *kgo.Client, partition int32) {
	tick := time.NewTicker(loadInterval)
	defer tick.Stop()
	padding := strings.Repeat(".", loadPadding)
	slots := make(chan struct{}, loadInFlight)
	for number := int64(0); ; number++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		r := &kgo.Record{Topic: l.topic, Partition: partition, Value: fmt.Appendf(nil, "%s %d %s", l.Name, number, padding)}
		client.Produce(context.Background(), r, func(r *kgo.Record, err error) {
			<-slots
			if err != nil {
				l.failedWith(err.Error())
				return
			}
			l.acknowledged(partition, r.Offset, number)
		})
	}
}

// StartLibrdkafka starts a load with librdkafka at its defaults, but idempotent, by its Python binding; script is the
// program that does it (cluster/load.py).
func StartLibrdkafka(t *testing.T, c *Cluster, python, script, topic string, partitions int32) *Load {
	t.Helper()
	l := newLoad("librdkafka", topic, partitions)
	cmd := exec.Command(python, script, strings.Join(c.Bootstrap(), ","), topic, fmt.Sprint(partitions), l.Name, fmt.Sprint(loadPadding))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.read(stdout)
		if err := cmd.Wait(); err != nil {
			l.failedWith(err.Error())
		}
	}()
	l.stop = sync.OnceFunc(func() {
		_ = stdin.Close() // it flushes and ends
		select {
		case <-done:
		case <-time.After(2 * time.Minute):
			_ = cmd.Process.Kill()
			<-done
		}
	})
	t.Cleanup(l.stop)
	return l
}

// read takes the lines of a program: "PARTITION OFFSET NUMBER" for an acknowledgement, all else is an error.
func (l *Load) read(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		var partition int32
		var offset, number int64
		if n, _ := fmt.Sscanf(lines.Text(), "%d %d %d", &partition, &offset, &number); n == 3 && partition < l.partitions {
			l.acknowledged(partition, offset, number)
		} else {
			l.failedWith(lines.Text())
		}
	}
}

// Acked is how many records are acknowledged so far.
func (l *Load) Acked() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, acks := range l.mu.acks {
		n += len(acks)
	}
	return n
}

// AwaitAcks returns when every partition has so many more acknowledgements than now.
func (l *Load) AwaitAcks(t *testing.T, more int) {
	t.Helper()
	count := func() []int {
		l.mu.Lock()
		defer l.mu.Unlock()
		var n []int
		for _, acks := range l.mu.acks {
			n = append(n, len(acks))
		}
		return n
	}
	before := count()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		now := count()
		if enough(before, now, more) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: acknowledged by partition: %v, a minute ago %v", l.Name, now, before)
		}
	}
}

func enough(before, now []int, more int) bool {
	for i := range now {
		if now[i] < before[i]+more {
			return false
		}
	}
	return true
}

// Outcome is what became of a load.
type Outcome struct {
	Acked, Failed           int
	Lost, Twice, OutOfOrder int
	// Gap is the longest time without any acknowledgement, from the first one to the end; PartitionGap that of the partition
	// that waited longest, which may be for a request that its client will not give up before its own timeout.
	Gap, PartitionGap time.Duration
}

func (o Outcome) String() string {
	return fmt.Sprintf("acknowledged %d, failed %d, lost %d, twice %d, out of order %d, longest gap %v, of a partition %v",
		o.Acked, o.Failed, o.Lost, o.Twice, o.OutOfOrder, o.Gap.Round(10*time.Millisecond), o.PartitionGap.Round(10*time.Millisecond))
}

// Finish stops the load, reads the whole topic, and compares. What goes wrong fails the case; the first few faults are
// told.
func (l *Load) Finish(t *testing.T, c *Cluster) Outcome {
	t.Helper()
	l.stop()
	o := l.compare(t, readNumbers(t, c.Bootstrap(), l.topic, l.Name, l.partitions))
	t.Logf("%s: %v", l.Name, o)
	if o.Failed > 0 {
		t.Errorf("%s: %d records failed, such as %.300q", l.Name, o.Failed, l.mu.failed[0])
	}
	if o.Lost+o.Twice+o.OutOfOrder > 0 {
		t.Errorf("%s: %v", l.Name, o)
	}
	return o
}

// compare holds what was read against what was acknowledged.
func (l *Load) compare(t *testing.T, read []map[int64]int64) (o Outcome) {
	t.Helper()
	o.Failed = len(l.mu.failed)
	var all []time.Duration
	for p, acks := range l.mu.acks {
		o.Acked += len(acks)
		for i, a := range acks {
			if number, there := read[p][a.offset]; !there || number != a.number {
				if o.Lost++; o.Lost <= 5 {
					t.Errorf("%s: record %d of partition %d was acknowledged at offset %d, after %v, and is not there", l.Name, a.number, p, a.offset, a.at)
				}
			}
			if i > 0 {
				o.PartitionGap = max(o.PartitionGap, a.at-acks[i-1].at)
			}
			all = append(all, a.at)
		}
		offsets := make([]int64, 0, len(read[p]))
		for offset := range read[p] {
			offsets = append(offsets, offset)
		}
		slices.Sort(offsets)
		seen := make(map[int64]int64)
		last := int64(-1)
		for _, offset := range offsets {
			number := read[p][offset]
			first, twice := seen[number]
			switch {
			case twice:
				if o.Twice++; o.Twice <= 5 {
					t.Errorf("%s: record %d of partition %d is there twice, at offsets %d and %d", l.Name, number, p, first, offset)
				}
			case number < last:
				o.OutOfOrder++
			}
			seen[number] = offset
			last = max(last, number)
		}
	}
	slices.Sort(all)
	for i := 1; i < len(all); i++ {
		o.Gap = max(o.Gap, all[i]-all[i-1])
	}
	return o
}

// readNumbers reads a topic up to its end as it is now, and returns the numbers of a load's records by offset.
func readNumbers(t *testing.T, bootstrap []string, topic, name string, partitions int32) []map[int64]int64 {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap...), kgo.ConsumeTopics(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.MetadataMinAge(100*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	left := make(map[int32]int64)
	for len(left) < int(partitions) {
		ends, err := kadm.NewClient(client).ListEndOffsets(ctx, topic)
		if ctx.Err() != nil {
			t.Fatalf("the ends of %s are not known: %v", topic, err)
		}
		if err == nil && ends.Error() == nil {
			ends.Each(func(o kadm.ListedOffset) { left[o.Partition] = o.Offset })
		} else {
			time.Sleep(100 * time.Millisecond)
		}
	}
	read := make([]map[int64]int64, partitions)
	for p := range read {
		read[p] = make(map[int64]int64)
		if left[int32(p)] == 0 {
			delete(left, int32(p))
		}
	}
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("the end of %s was not reached: partitions with their ends %v", topic, left)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			var who string
			var number int64
			if n, _ := fmt.Sscanf(string(r.Value[:min(len(r.Value), 40)]), "%s %d", &who, &number); n == 2 && who == name {
				read[r.Partition][r.Offset] = number
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return read
}
