package cli

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

func TestConfigOfATopic(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, kmsg.DescribeConfigs, kmsg.IncrementalAlterConfigs)
	topic := broker.Topic(t, 1)
	value := func(name string) string {
		fields := strings.Fields(weir.must(t, "", "config", "describe", "topic", topic, name))
		return strings.Join(fields[3:], " ") // NAME VALUE SOURCE come first
	}
	for _, step := range []struct {
		args []string
		name string
		want string
	}{
		{[]string{"set", "topic", topic, "retention.ms=60000", "max.message.bytes=2000", "--dry-run"}, "retention.ms", "retention.ms 604800000 DEFAULT_CONFIG"},
		{[]string{"set", "topic", topic, "retention.ms=60000", "max.message.bytes=2000"}, "max.message.bytes", "max.message.bytes 2000 DYNAMIC_TOPIC_CONFIG"},
		{[]string{"set", "topic", topic, "cleanup.policy+=compact"}, "cleanup.policy", "cleanup.policy delete,compact DYNAMIC_TOPIC_CONFIG"},
		{[]string{"set", "topic", topic, "cleanup.policy-=delete"}, "cleanup.policy", "cleanup.policy compact DYNAMIC_TOPIC_CONFIG"},
		{[]string{"delete", "topic", topic, "cleanup.policy", "max.message.bytes"}, "cleanup.policy", "cleanup.policy delete DEFAULT_CONFIG"},
		{[]string{"delete", "topic", topic, "cleanup.policy"}, "cleanup.policy", "cleanup.policy delete DEFAULT_CONFIG"}, // again
		{[]string{"delete", "cluster", "log.retention.ms"}, "cleanup.policy", "cleanup.policy delete DEFAULT_CONFIG"},
	} {
		weir.must(t, "", append([]string{"config"}, step.args...)...)
		if got := value(step.name); got != step.want {
			t.Fatalf("after config %q: %s, want %s", step.args, got, step.want)
		}
	}
	if got := weir.must(t, "", "config", "describe", "topic", topic, "--changed"); !strings.Contains(got, "\nretention.ms ") || strings.Contains(got, "\ncleanup.policy ") {
		t.Errorf("describe --changed:\n%s", got)
	}
	if got := weir.must(t, "", "config", "describe", "topic", topic); strings.Count(got, "\n") < 30 {
		t.Errorf("describe does not print all settings:\n%s", got)
	}
	got := weir.must(t, "", "config", "describe", "topic", topic, "cleanup.policy", "--synonyms", "--documentation", "-o", "json")
	for _, want := range []string{`"source":"DEFAULT_CONFIG"`, `"type":"list"`, `"synonyms":[{"name":"log.cleanup.policy","value":"delete","source":"DEFAULT_CONFIG"}]`, `"documentation":"`} {
		if !strings.Contains(got, want) {
			t.Errorf("describe -o json lacks %s:\n%s", want, got)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, kmsg.DescribeConfigs, kmsg.IncrementalAlterConfigs)
	topic, unknown := broker.Topic(t, 1), harness.TopicName(t)
	weir.fails(t, "", "INVALID_CONFIG: Invalid value soon for configuration retention.ms: Not a number of type LONG", "config", "set", "topic", topic, "retention.ms=soon")
	weir.fails(t, "", "INVALID_CONFIG: Unknown topic config name: no.such.config", "config", "set", "topic", topic, "no.such.config=1")
	weir.fails(t, "", "has no setting no.such.config", "config", "delete", "topic", topic, "retention.ms", "no.such.config")
	weir.fails(t, "", "has no setting no.such.config", "config", "delete", "cluster", "no.such.config")
	weir.fails(t, "", "there is no such topic", "config", "delete", "topic", unknown, "retention.ms")
	weir.fails(t, "", "there is no such topic", "config", "set", "topic", unknown, "retention.ms=1")
	weir.fails(t, "", "there is no such topic", "config", "describe", "topic", unknown)
	weir.fails(t, "", fmt.Sprintf("topic %s has no setting no.such.config", topic), "config", "describe", "topic", topic, "no.such.config")
}

func TestConfigOfBrokers(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, kmsg.DescribeConfigs, kmsg.IncrementalAlterConfigs)
	brokers, err := broker.Admin(t).ListBrokers(harness.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	id := fmt.Sprint(brokers[0].NodeID)
	if got := weir.must(t, "", "config", "describe", "broker", id, "node.id"); !strings.Contains(squeeze(got), "\nnode.id "+id+" ") {
		t.Errorf("describe broker:\n%s", got)
	}
	weir.must(t, "", "config", "describe", "cluster")
	weir.must(t, "", "config", "set", "cluster", "log.retention.ms=86400000", "--dry-run")
	if got := weir.must(t, "", "config", "describe", "cluster"); strings.Contains(got, "86400000") {
		t.Errorf("--dry-run changed a setting:\n%s", got)
	}
	weir.fails(t, "", "INVALID_REQUEST: Cannot update these configs dynamically", "config", "set", "broker", id, "node.id=7")
}

func TestConfigList(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, kmsg.ListConfigResources)
	topic := broker.Topic(t, 1)
	for _, args := range [][]string{nil, {"--type", "topic"}} {
		if got := weir.must(t, "", append([]string{"config", "list"}, args...)...); !strings.Contains("\n"+got, "\ntopic "+topic+"\n") {
			t.Errorf("list %q lacks the topic:\n%s", args, got)
		}
	}
	if got := weir.must(t, "", "config", "list", "--type", "broker"); strings.Contains(got, "topic ") || !strings.Contains(got, "broker ") {
		t.Errorf("list --type broker:\n%s", got)
	}
}
