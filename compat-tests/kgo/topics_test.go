package kgo

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

func TestTopicLifecycle(t *testing.T) {
	broker := harness.Shared(t)
	admin := broker.Admin(t)
	ctx := harness.Context(t)
	topic := broker.Topic(t, 3)

	before := awaitTopic(t, admin, topic, func(d kadm.TopicDetail) bool { return len(d.Partitions) == 3 })
	for _, p := range before.Partitions.Sorted() {
		if p.Leader < 0 || len(p.Replicas) == 0 || len(p.ISR) != len(p.Replicas) {
			t.Errorf("partition %d: leader %d, replicas %v, in sync %v", p.Partition, p.Leader, p.Replicas, p.ISR)
		}
	}
	if _, err := admin.CreateTopic(ctx, 1, -1, nil, topic); !errors.Is(err, kerr.TopicAlreadyExists) {
		t.Errorf("creating it again: %v", err)
	}
	if grown, err := admin.UpdatePartitions(ctx, 5, topic); err != nil || grown.Error() != nil {
		t.Fatalf("adding partitions: %v, %v", err, grown.Error())
	}
	awaitTopic(t, admin, topic, func(d kadm.TopicDetail) bool { return len(d.Partitions) == 5 })
	if shrunk, err := admin.UpdatePartitions(ctx, 2, topic); err != nil || !errors.Is(shrunk.Error(), kerr.InvalidPartitions) {
		t.Errorf("removing partitions: %v, %v", err, shrunk.Error())
	}
	produceAt(t, broker, topic, time.Now(), 0, 0)

	if _, err := admin.DeleteTopic(ctx, topic); err != nil {
		t.Fatal(err)
	}
	awaitTopic(t, admin, topic, func(d kadm.TopicDetail) bool { return errors.Is(d.Err, kerr.UnknownTopicOrPartition) })
	if _, err := admin.CreateTopic(ctx, 1, -1, nil, topic); err != nil {
		t.Fatalf("creating it anew: %v", err)
	}
	after := awaitTopic(t, admin, topic, func(d kadm.TopicDetail) bool { return len(d.Partitions) == 1 })
	if after.ID == before.ID {
		t.Error("the new topic has the old one's id")
	}
	if records := broker.ReadAll(t, topic); len(records) != 0 {
		t.Errorf("the new topic has %d records of the old one", len(records))
	}
}

func TestTopicConfigsAreDescribed(t *testing.T) {
	broker := harness.Shared(t)
	broker.Require(t, kmsg.DescribeConfigs)
	topic := broker.Topic(t, 1, "retention.ms", "12345")
	described, err := broker.Admin(t).DescribeTopicConfigs(harness.Context(t), topic)
	if err != nil || described[0].Err != nil {
		t.Fatal(err, described)
	}
	configs := make(map[string]kadm.Config)
	for _, c := range described[0].Configs {
		configs[c.Key] = c
	}
	for name, want := range map[string]struct {
		value  string
		source kmsg.ConfigSource
	}{
		"retention.ms":   {"12345", kmsg.ConfigSourceDynamicTopicConfig},
		"cleanup.policy": {"delete", kmsg.ConfigSourceDefaultConfig},
	} {
		if c := configs[name]; c.MaybeValue() != want.value || c.Source != want.source {
			t.Errorf("%s is %q from %v, want %q from %v", name, c.MaybeValue(), c.Source, want.value, want.source)
		}
	}
	if len(configs) < 30 {
		t.Errorf("only %d settings are described", len(configs))
	}
}

// awaitTopic waits until metadata shows what was decided: that may reach a broker after the answer.
func awaitTopic(t *testing.T, admin *kadm.Client, topic string, ok func(kadm.TopicDetail) bool) kadm.TopicDetail {
	t.Helper()
	ctx := harness.Context(t)
	for {
		topics, err := admin.ListTopicsWithInternal(ctx, topic)
		if err != nil {
			t.Fatalf("waiting for topic %s: %v", topic, err)
		}
		if ok(topics[topic]) {
			return topics[topic]
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestCreateTopicErrors(t *testing.T) {
	broker := harness.Shared(t)
	admin := broker.Admin(t)
	ctx := harness.Context(t)
	bogus := "bogus"
	for _, c := range []struct {
		name       string
		partitions int32
		replicas   int16
		configs    map[string]*string
		want       error
		message    string
	}{
		{"bad name", 1, -1, nil, kerr.InvalidTopicException, "Topic name is invalid: 'bad name' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
		{"", 1, -1, nil, kerr.InvalidTopicException, "Topic name is invalid: the empty string is not allowed"},
		{strings.Repeat("x", 250), 1, -1, nil, kerr.InvalidTopicException, "longer than the max allowed length 249"},
		{"p0", 0, -1, nil, kerr.InvalidPartitions, "Number of partitions was set to an invalid non-positive value."},
		{"r0", 1, 0, nil, kerr.InvalidReplicationFactor, "Replication factor must be larger than 0"},
		{"c0", 1, -1, map[string]*string{"cleanup.policy": &bogus}, kerr.InvalidConfig, "Invalid value bogus for configuration cleanup.policy"},
		{"c1", 1, -1, map[string]*string{"no.such.config": &bogus}, kerr.InvalidConfig, "Unknown topic config name: no.such.config"},
	} {
		responses, err := admin.CreateTopics(ctx, c.partitions, c.replicas, c.configs, c.name)
		if err != nil {
			t.Fatalf("%q: %v", c.name, err)
		}
		if r := responses[c.name]; !errors.Is(r.Err, c.want) || !strings.Contains(r.ErrMessage, c.message) {
			t.Errorf("%.20q: %v: %q; want %v: %q", c.name, r.Err, r.ErrMessage, c.want, c.message)
		}
	}
}

func TestTopicIsCreatedByProducing(t *testing.T) {
	broker := harness.Shared(t)
	topic := harness.TopicName(t)
	client := broker.Client(t, kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(topic))
	if err := client.ProduceSync(harness.Context(t), kgo.StringRecord("hello")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if records := broker.ReadAll(t, topic); len(records) != 1 || string(records[0].Value) != "hello" {
		t.Errorf("%d records came back", len(records))
	}
}

func TestUnknownTopics(t *testing.T) {
	broker := harness.Shared(t)
	ctx := harness.Context(t)
	admin := broker.Admin(t)
	name := harness.TopicName(t)
	if _, err := admin.DeleteTopic(ctx, name); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("deleting: %v", err)
	}
	client := broker.Client(t, kgo.DefaultProduceTopic(name), kgo.UnknownTopicRetries(1))
	if err := client.ProduceSync(ctx, kgo.StringRecord("x")).FirstErr(); !errors.Is(err, kerr.UnknownTopicOrPartition) {
		t.Errorf("producing without auto-creation: %v", err)
	}
}

// A compacted topic takes no record without a key.
func TestCompactedTopicNeedsKeys(t *testing.T) {
	broker := harness.Shared(t)
	topic := broker.Topic(t, 1, "cleanup.policy", "compact")
	client := broker.Client(t, kgo.DefaultProduceTopic(topic))
	ctx := harness.Context(t)
	if err := client.ProduceSync(ctx, kgo.KeyStringRecord("k", "v")).FirstErr(); err != nil {
		t.Errorf("with a key: %v", err)
	}
	if err := client.ProduceSync(ctx, kgo.StringRecord("v")).FirstErr(); !errors.Is(err, kerr.InvalidRecord) {
		t.Errorf("without a key: %v, want INVALID_RECORD", err)
	}
}
