package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Context bounds a case: a broker that does not answer is a failure that says where, not a suite that hangs.
func Context(t *testing.T) context.Context {
	t.Helper()
	limit := time.Minute
	if Soak() {
		limit = time.Hour
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

// Client returns a franz-go client of the broker, closed at the end of the case.
func (b *Broker) Client(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(b.Bootstrap),
		kgo.DisableClientMetrics(),
		kgo.MetadataMinAge(50 * time.Millisecond), // a topic that was just created is found soon
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Admin returns an admin client of the broker, closed at the end of the case.
func (b *Broker) Admin(t *testing.T) *kadm.Client {
	t.Helper()
	return kadm.NewClient(b.Client(t))
}

// Offers tells whether the broker lists a request among those it serves.
func (b *Broker) Offers(t *testing.T, key kmsg.Key) bool {
	t.Helper()
	response, err := kmsg.NewPtrApiVersionsRequest().RequestWith(Context(t), b.Client(t))
	if err != nil {
		t.Fatalf("asking for the versions of requests: %v", err)
	}
	return slices.ContainsFunc(response.ApiKeys, func(k kmsg.ApiVersionsResponseApiKey) bool { return k.ApiKey == key.Int16() })
}

// Require skips a case where the broker does not offer a request at all, by its key; a broker that offers it has to
// answer it.
func (b *Broker) Require(t *testing.T, keys ...kmsg.Key) {
	t.Helper()
	for _, key := range keys {
		if !b.Offers(t, key) {
			t.Skipf("the broker does not offer %s (%d)", key.Name(), key.Int16())
		}
	}
}

var topicCount atomic.Int64

// TopicName returns a name that no other case uses, nor an earlier run against the same broker.
func TopicName(t *testing.T) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '-':
			return r
		}
		return '-'
	}, t.Name())
	return fmt.Sprintf("%.180s-%x-%d", name, time.Now().UnixMilli(), topicCount.Add(1))
}

// Topic creates a topic for a case, with settings given as name, value, name, value. A topic on a broker of the user's
// is deleted at the end.
func (b *Broker) Topic(t *testing.T, partitions int32, settings ...string) string {
	t.Helper()
	configs := make(map[string]*string)
	for i := 0; i+1 < len(settings); i += 2 {
		configs[settings[i]] = &settings[i+1]
	}
	name := TopicName(t)
	if _, err := b.Admin(t).CreateTopic(Context(t), partitions, -1, configs, name); err != nil {
		t.Fatalf("creating topic %s: %v", name, err)
	}
	if External() != "" {
		t.Cleanup(func() {
			client, err := kadm.NewOptClient(kgo.SeedBrokers(b.Bootstrap))
			if err != nil {
				t.Error(err)
				return
			}
			defer client.Close()
			if _, err := client.DeleteTopic(context.Background(), name); err != nil {
				t.Errorf("deleting topic %s: %v", name, err)
			}
		})
	}
	return name
}

// ReadAll consumes a topic from the first record to where it ends now.
func (b *Broker) ReadAll(t *testing.T, topic string, opts ...kgo.Opt) []*kgo.Record {
	t.Helper()
	ctx := Context(t)
	admin := b.Admin(t)
	starts, err := admin.ListStartOffsets(ctx, topic)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		t.Fatalf("start offsets of %s: %v", topic, err)
	}
	ends, err := admin.ListEndOffsets(ctx, topic)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		t.Fatalf("end offsets of %s: %v", topic, err)
	}
	left := make(map[int32]int64) // partition → end offset, while there is something to read
	from := make(map[int32]kgo.Offset)
	ends.Each(func(end kadm.ListedOffset) {
		if start, _ := starts.Lookup(topic, end.Partition); start.Offset < end.Offset {
			left[end.Partition] = end.Offset
			from[end.Partition] = kgo.NewOffset().At(start.Offset)
		}
	})
	client := b.Client(t, append(opts, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))...)
	defer client.Close()
	var records []*kgo.Record
	for len(left) > 0 {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			t.Fatalf("reading %s: %v; %d records so far, partitions still to read: %v", topic, err, len(records), left)
		}
		fetches.EachError(func(_ string, partition int32, err error) { t.Fatalf("reading %s[%d]: %v", topic, partition, err) })
		fetches.EachRecord(func(r *kgo.Record) {
			records = append(records, r)
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return records
}
