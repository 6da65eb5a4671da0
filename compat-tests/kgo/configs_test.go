package kgo

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// alterTopic changes settings of a topic and returns the answer for it.
func alterTopic(t *testing.T, admin *kadm.Client, topic string, configs ...kadm.AlterConfig) kadm.AlterConfigsResponse {
	t.Helper()
	altered, err := admin.AlterTopicConfigs(harness.Context(t), configs, topic)
	if err != nil {
		t.Fatal(err)
	}
	response, err := altered.On(topic, nil)
	if err != nil {
		t.Fatal(err)
	}
	return response
}

func set(name, value string) kadm.AlterConfig {
	return kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value}
}

// configOf asks for one setting of a resource until it is as wanted: a change may reach a broker after the answer.
func configOf(t *testing.T, ask func() (kadm.ResourceConfigs, error), name, want string, source kmsg.ConfigSource) {
	t.Helper()
	var got kadm.Config
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		described, err := ask()
		if err != nil || len(described) != 1 || described[0].Err != nil {
			t.Fatal(err, described)
		}
		for _, c := range described[0].Configs {
			if c.Key == name {
				got = c
			}
		}
		if got.MaybeValue() == want && got.Source == source {
			return
		}
	}
	t.Errorf("%s is %q from %v, want %q from %v", name, got.MaybeValue(), got.Source, want, source)
}

// A changed setting is described, decides, and falls back when it is deleted.
func TestTopicConfigsAreAltered(t *testing.T) {
	broker := harness.Shared(t)
	broker.Require(t, kmsg.DescribeConfigs, kmsg.IncrementalAlterConfigs)
	admin, ctx := broker.Admin(t), harness.Context(t)
	topic := broker.Topic(t, 1, "retention.ms", "4711")
	ask := func() (kadm.ResourceConfigs, error) { return admin.DescribeTopicConfigs(ctx, topic) }

	if r := alterTopic(t, admin, topic, set("max.message.bytes", "1000"), kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "retention.ms"}); r.Err != nil {
		t.Fatal(r.Err, r.ErrMessage)
	}
	configOf(t, ask, "max.message.bytes", "1000", kmsg.ConfigSourceDynamicTopicConfig)
	configOf(t, ask, "retention.ms", "604800000", kmsg.ConfigSourceDefaultConfig)
	client := broker.Client(t, kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err := client.ProduceSync(ctx, kgo.StringRecord(strings.Repeat("x", 2000))).FirstErr(); !errors.Is(err, kerr.MessageTooLarge) {
		t.Errorf("2000 bytes after the limit was lowered to 1000: %v", err)
	}
	if r := alterTopic(t, admin, topic, kadm.AlterConfig{Op: kadm.DeleteConfig, Name: "max.message.bytes"}); r.Err != nil {
		t.Fatal(r.Err, r.ErrMessage)
	}
	configOf(t, ask, "max.message.bytes", "1048588", kmsg.ConfigSourceDefaultConfig)
	if err := client.ProduceSync(ctx, kgo.StringRecord(strings.Repeat("x", 2000))).FirstErr(); err != nil {
		t.Errorf("2000 bytes under the default limit: %v", err)
	}

	list := "compact"
	if r := alterTopic(t, admin, topic, kadm.AlterConfig{Op: kadm.AppendConfig, Name: "cleanup.policy", Value: &list}); r.Err != nil {
		t.Fatal(r.Err, r.ErrMessage)
	}
	configOf(t, ask, "cleanup.policy", "delete,compact", kmsg.ConfigSourceDynamicTopicConfig)
	list = "delete"
	if r := alterTopic(t, admin, topic, kadm.AlterConfig{Op: kadm.SubtractConfig, Name: "cleanup.policy", Value: &list}); r.Err != nil {
		t.Fatal(r.Err, r.ErrMessage)
	}
	configOf(t, ask, "cleanup.policy", "compact", kmsg.ConfigSourceDynamicTopicConfig)
}

func TestTopicConfigsErrors(t *testing.T) {
	broker := harness.Shared(t)
	broker.Require(t, kmsg.IncrementalAlterConfigs)
	admin := broker.Admin(t)
	topic := broker.Topic(t, 1)
	for _, c := range []struct {
		topic   string
		config  kadm.AlterConfig
		want    error
		message string
	}{
		{topic, set("retention.ms", "soon"), kerr.InvalidConfig, "Invalid value soon for configuration retention.ms: Not a number of type LONG"},
		{topic, set("cleanup.policy", "bogus"), kerr.InvalidConfig, "Invalid value bogus for configuration cleanup.policy: String must be one of: compact, delete"},
		{topic, set("no.such.config", "x"), kerr.InvalidConfig, "Unknown topic config name: no.such.config"},
		{harness.TopicName(t), set("retention.ms", "1"), kerr.UnknownTopicOrPartition, ""},
	} {
		r := alterTopic(t, admin, c.topic, c.config)
		if !errors.Is(r.Err, c.want) || !strings.Contains(r.ErrMessage, c.message) {
			t.Errorf("%s=%s: %v: %q; want %v: %q", c.config.Name, *c.config.Value, r.Err, r.ErrMessage, c.want, c.message)
		}
	}
	validated, err := admin.ValidateAlterTopicConfigs(harness.Context(t), []kadm.AlterConfig{set("retention.ms", "1")}, topic)
	if err != nil || validated[0].Err != nil {
		t.Fatal(err, validated)
	}
	configOf(t, func() (kadm.ResourceConfigs, error) { return admin.DescribeTopicConfigs(harness.Context(t), topic) },
		"retention.ms", "604800000", kmsg.ConfigSourceDefaultConfig)
}

// The older request replaces all settings of a topic at once.
func TestTopicConfigsAreReplaced(t *testing.T) {
	broker := harness.Shared(t)
	broker.Require(t, kmsg.DescribeConfigs, kmsg.AlterConfigs)
	admin, ctx := broker.Admin(t), harness.Context(t)
	topic := broker.Topic(t, 1, "retention.ms", "4711")
	replaced, err := admin.AlterTopicConfigsState(ctx, []kadm.AlterConfig{set("segment.bytes", "2000000")}, topic)
	if err != nil || replaced[0].Err != nil {
		t.Fatal(err, replaced)
	}
	ask := func() (kadm.ResourceConfigs, error) { return admin.DescribeTopicConfigs(ctx, topic) }
	configOf(t, ask, "segment.bytes", "2000000", kmsg.ConfigSourceDynamicTopicConfig)
	configOf(t, ask, "retention.ms", "604800000", kmsg.ConfigSourceDefaultConfig)
}

func brokerID(t *testing.T, admin *kadm.Client) int32 {
	t.Helper()
	brokers, err := admin.ListBrokers(harness.Context(t))
	if err != nil || len(brokers) == 0 {
		t.Fatal(brokers, err)
	}
	return brokers[0].NodeID
}

// A setting of one broker wins over the dynamic default of all, and that over the file's.
func TestBrokerConfigsAreAltered(t *testing.T) {
	broker := harness.Shared(t)
	broker.Require(t, kmsg.DescribeConfigs, kmsg.IncrementalAlterConfigs)
	admin, ctx := broker.Admin(t), harness.Context(t)
	id := brokerID(t, admin)
	const name = "log.segment.delete.delay.ms"
	ask := func() (kadm.ResourceConfigs, error) { return admin.DescribeBrokerConfigs(ctx, id) }
	alter := func(config kadm.AlterConfig, brokers ...int32) {
		t.Helper()
		altered, err := admin.AlterBrokerConfigs(ctx, []kadm.AlterConfig{config}, brokers...)
		if err != nil || altered[0].Err != nil {
			t.Fatal(err, altered)
		}
	}
	remove := kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name}
	t.Cleanup(func() { // the broker may be the user's
		client, err := kadm.NewOptClient(kgo.SeedBrokers(broker.Bootstrap))
		if err != nil {
			return
		}
		defer client.Close()
		_, _ = client.AlterBrokerConfigs(context.Background(), []kadm.AlterConfig{remove}, id)
		_, _ = client.AlterBrokerConfigs(context.Background(), []kadm.AlterConfig{remove})
	})
	configOf(t, ask, name, "60000", kmsg.ConfigSourceDefaultConfig)
	alter(set(name, "61000"))
	configOf(t, ask, name, "61000", kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	alter(set(name, "62000"), id)
	configOf(t, ask, name, "62000", kmsg.ConfigSourceDynamicBrokerConfig)
	alter(remove, id)
	configOf(t, ask, name, "61000", kmsg.ConfigSourceDynamicDefaultBrokerConfig)
	alter(remove)
	configOf(t, ask, name, "60000", kmsg.ConfigSourceDefaultConfig)

	altered, err := admin.AlterBrokerConfigs(ctx, []kadm.AlterConfig{set("broker.id", "7")}, id)
	if err != nil || !errors.Is(altered[0].Err, kerr.InvalidRequest) {
		t.Errorf("a setting that is read at the start only: %v, %+v", err, altered)
	}
}

func TestConfigResourcesAreListed(t *testing.T) {
	broker := harness.Shared(t)
	broker.Require(t, kmsg.ListConfigResources)
	admin, ctx := broker.Admin(t), harness.Context(t)
	topic := broker.Topic(t, 1)
	listed, err := admin.ListConfigResources(ctx, kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for _, r := range listed.Resources {
		found[r.Type.String()+" "+r.Name] = true
	}
	for _, want := range []string{"TOPIC " + topic, "BROKER " + strconv.Itoa(int(brokerID(t, admin)))} {
		if !found[want] {
			t.Errorf("%s is not among %d resources", want, len(listed.Resources))
		}
	}
}

func TestLogDirsShowThePartitions(t *testing.T) {
	broker := harness.Shared(t)
	broker.Require(t, kmsg.DescribeLogDirs)
	admin, ctx := broker.Admin(t), harness.Context(t)
	topic := broker.Topic(t, 3)
	produceAt(t, broker, topic, time.Now(), 0)
	asked := make(kadm.TopicsSet)
	asked.Add(topic, 0, 1, 2)
	described, err := admin.DescribeAllLogDirs(ctx, asked)
	if err != nil {
		t.Fatal(err)
	}
	partitions, bytes := 0, int64(0)
	described.Each(func(dir kadm.DescribedLogDir) {
		if dir.Err != nil || dir.TotalBytes <= 0 || dir.UsableBytes <= 0 || dir.UsableBytes > dir.TotalBytes || !strings.HasPrefix(dir.Dir, string(os.PathSeparator)) {
			t.Errorf("%s: %v, %d of %d bytes usable", dir.Dir, dir.Err, dir.UsableBytes, dir.TotalBytes)
		}
		for _, p := range dir.Topics[topic] {
			if p.IsFuture || p.OffsetLag != 0 {
				t.Errorf("%+v", p)
			}
			partitions++
			bytes += p.Size
		}
	})
	if partitions != 3 || bytes < 61 {
		t.Errorf("%d partitions of %d bytes, want 3 with one batch", partitions, bytes)
	}
}
