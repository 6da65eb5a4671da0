package harness

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Member is a client program that runs beside a case as a member of a consumer group. It prints a line for each record
// it reads, `PARTITION OFFSET VALUE` or as Kafka's console consumer does, at once and before it commits; other lines are
// kept for the case that fails.
type Member struct {
	cmd    *exec.Cmd
	exited chan struct{}

	mu struct {
		sync.Mutex
		values []string
		other  []string
	}
}

// StartMember starts a member; it is killed at the end of the case.
func StartMember(t *testing.T, program string, args ...string) *Member {
	t.Helper()
	m := &Member{cmd: exec.Command(program, args...), exited: make(chan struct{})}
	stdout, err := m.cmd.StdoutPipe()
	if err == nil {
		m.cmd.Stderr = m.cmd.Stdout // the same pipe
		err = m.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(m.exited)
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			m.line(lines.Text())
		}
		_ = m.cmd.Wait() // it is killed, which is no success
	}()
	t.Cleanup(func() {
		m.Kill()
		if t.Failed() {
			t.Logf("a member printed besides %d records:\n%.8000s", len(m.Values()), strings.Join(m.Said(), "\n"))
		}
	})
	return m
}

var consoleWords = strings.NewReplacer("Partition:", "", "Offset:", "")

func (m *Member) line(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var partition, offset int
	var value string
	if n, _ := fmt.Sscanf(consoleWords.Replace(text), "%d %d %s", &partition, &offset, &value); n == 3 {
		m.mu.values = append(m.mu.values, value)
	} else {
		m.mu.other = append(m.mu.other, text)
	}
}

// Kill ends the member with SIGKILL: it leaves no group and commits nothing more.
func (m *Member) Kill() {
	_ = m.cmd.Process.Kill() // it may have ended already
	<-m.exited
}

// Values returns what the member has read so far.
func (m *Member) Values() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mu.values)
}

// Said returns the lines that are no records, which the member has printed so far.
func (m *Member) Said() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.mu.other)
}

// count tells how many of the values the member has read.
func (m *Member) count(values []string) (n int) {
	read := m.Values()
	for _, v := range values {
		if slices.Contains(read, v) {
			n++
		}
	}
	return n
}

// RequireGroups skips a case where the broker serves no consumer groups.
func (b *Broker) RequireGroups(t *testing.T) {
	t.Helper()
	b.Require(t, kmsg.FindCoordinator, kmsg.JoinGroup)
}

// rounds produces a record to each partition of a topic at a time, each with a value of its own.
type rounds struct {
	client     *kgo.Client
	topic      string
	partitions int32
	produced   []string
}

func (r *rounds) next(ctx context.Context, t *testing.T) (values []string) {
	t.Helper()
	var records []*kgo.Record
	for partition := range r.partitions {
		value := fmt.Sprintf("%d-%d", partition, len(r.produced))
		values = append(values, value)
		records = append(records, &kgo.Record{Topic: r.topic, Partition: partition, Value: []byte(value)})
	}
	if err := r.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		t.Fatalf("producing: %v", err)
	}
	r.produced = append(r.produced, values...)
	return values
}

// await produces a round after the other until ok likes how one has been read.
func (r *rounds) await(ctx context.Context, t *testing.T, what string, ok func(round []string) bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for time.Now().Before(deadline) {
		round := r.next(ctx, t)
		for range 10 {
			time.Sleep(20 * time.Millisecond)
			if ok(round) {
				return
			}
		}
	}
	t.Fatalf("after a minute and %d records: not %s", len(r.produced), what)
}

// TakeOver runs two members of one group on a topic of six partitions: they come to share it, three partitions each;
// one is killed with SIGKILL, so that nobody tells the broker but its silence; the other takes over all six, and nothing
// that was produced meanwhile is lost. start starts a member whose session lasts 6 seconds and which begins at the
// earliest record.
func TakeOver(t *testing.T, broker *Broker, start func(topic, group string) *Member) {
	t.Helper()
	broker.RequireGroups(t)
	const partitions = 6
	topic := broker.Topic(t, partitions)
	group := "group-" + topic
	ctx := Context(t)
	r := rounds{client: broker.Client(t, kgo.RecordPartitioner(kgo.ManualPartitioner())), topic: topic, partitions: partitions}
	first, second := start(topic, group), start(topic, group)
	r.await(ctx, t, "shared three by three", func(round []string) bool {
		return first.count(round) == 3 && second.count(round) == 3
	})
	first.Kill()
	r.await(ctx, t, "taken over by the survivor", func(round []string) bool { return second.count(round) == partitions })
	// What the survivor read is new to it; what is left over was read by the one that died.
	seen := append(first.Values(), second.Values()...)
	slices.Sort(seen)
	var lost []string
	for _, value := range r.produced {
		if _, ok := slices.BinarySearch(seen, value); !ok {
			lost = append(lost, value)
		}
	}
	if len(lost) > 0 {
		t.Errorf("of %d records nobody read %d: %q", len(r.produced), len(lost), lost)
	}
	t.Logf("%d records produced, %d read", len(r.produced), len(seen))
}

// Resume has a group read and commit part of a topic, ends the broker with kill -9, and has the group read on: from the
// record after the last one committed. read joins the group, reads so many records, commits them, leaves and returns
// their values. On a broker of the user's nothing is killed.
func Resume(t *testing.T, read func(broker *Broker, topic, group string, records int) []string) {
	t.Helper()
	var broker *Broker
	if External() != "" {
		broker = Shared(t)
	} else {
		broker = Start(t)
	}
	broker.RequireGroups(t)
	topic := broker.Topic(t, 1)
	group := "group-" + topic
	client := broker.Client(t, kgo.DefaultProduceTopic(topic))
	var want []string
	var records []*kgo.Record
	for i := range 100 {
		want = append(want, fmt.Sprint("value-", i))
		records = append(records, kgo.StringRecord(want[i]))
	}
	if err := client.ProduceSync(Context(t), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if got := read(broker, topic, group, 60); !slices.Equal(got, want[:60]) {
		t.Fatalf("the group reads %q, want the first 60", got)
	}
	if External() == "" {
		broker.Kill()
		broker.Restart(t)
	}
	committed, err := broker.Admin(t).FetchOffsets(Context(t), group)
	if at, _ := committed.Lookup(topic, 0); err != nil || at.At != 60 {
		t.Errorf("committed is %d, want 60; %v", at.At, err)
	}
	if got := read(broker, topic, group, 40); !slices.Equal(got, want[60:]) {
		t.Errorf("the group goes on with %q, want the last 40", got)
	}
}

// CrossRead has franz-go read what another client wrote, and that client what franz-go wrote, with every codec: the
// values that produce writes to the topic must come back from the broker, and consume must return what is there.
func CrossRead(t *testing.T, broker *Broker, produce func(topic, codec string, values []string), consume func(topic string, records int) []string) {
	t.Helper()
	var values []string
	for i := range 100 {
		values = append(values, fmt.Sprintf("cross-%d-%s", i, strings.Repeat("abc", i)))
	}
	for _, codec := range Codecs {
		t.Run(codec.Name, func(t *testing.T) {
			topic := broker.Topic(t, 1)
			produce(topic, codec.Name, values)
			var got []string
			for _, r := range broker.ReadAll(t, topic) {
				got = append(got, string(r.Value))
			}
			if !slices.Equal(got, values) {
				t.Errorf("franz-go reads %.200q, want %.200q", got, values)
			}
			topic = broker.Topic(t, 1)
			client := broker.Client(t, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(codec.Codec))
			for _, value := range values {
				client.Produce(t.Context(), kgo.StringRecord(value), nil)
			}
			if err := client.Flush(Context(t)); err != nil {
				t.Fatal(err)
			}
			if got := consume(topic, len(values)); !slices.Equal(got, values) {
				t.Errorf("it reads %.200q from franz-go, want %.200q", got, values)
			}
		})
	}
}

// Codecs are those of the protocol.
var Codecs = []struct {
	Name  string
	Codec kgo.CompressionCodec
}{
	{"none", kgo.NoCompression()},
	{"gzip", kgo.GzipCompression()},
	{"snappy", kgo.SnappyCompression()},
	{"lz4", kgo.Lz4Compression()},
	{"zstd", kgo.ZstdCompression()},
}

// AwaitGroup waits until a group is as ok wants it.
func (b *Broker) AwaitGroup(t *testing.T, group, what string, ok func(kadm.DescribedGroup) bool) kadm.DescribedGroup {
	t.Helper()
	admin, ctx := b.Admin(t), Context(t)
	var last kadm.DescribedGroup
	for ctx.Err() == nil {
		described, err := admin.DescribeGroups(ctx, group)
		if err != nil {
			t.Fatalf("describing group %s: %v", group, err)
		}
		if last = described[group]; ok(last) {
			return last
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatalf("group %s is not %s: %+v", group, what, last)
	return last
}
