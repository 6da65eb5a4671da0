package wire

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// topicConfig returns one setting of a topic.
func topicConfig(t *testing.T, c *conn, topic, name string) kmsg.DescribeConfigsResponseResourceConfig {
	t.Helper()
	row := describeConfigs(t, c, kmsg.ConfigResourceTypeTopic, topic, name)
	if row.ErrorCode != 0 || len(row.Configs) != 1 {
		t.Fatalf("%s of topic %s: %s, %d settings", name, topic, codeName(row.ErrorCode), len(row.Configs))
	}
	return row.Configs[0]
}

// describeConfigs asks for settings of a resource; for all where none is named.
func describeConfigs(t *testing.T, c *conn, kind kmsg.ConfigResourceType, resource string, names ...string) kmsg.DescribeConfigsResponseResource {
	t.Helper()
	req := at(4, kmsg.NewPtrDescribeConfigsRequest())
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: resource, ConfigNames: names}}
	rows := ask(t, c, req).Resources
	if len(rows) != 1 || rows[0].ResourceType != kind || rows[0].ResourceName != resource {
		t.Fatalf("DescribeConfigs of %q: %+v", resource, rows)
	}
	return rows[0]
}

// byName returns the settings of an answer, each of which must be there once.
func byName(t *testing.T, row kmsg.DescribeConfigsResponseResource) map[string]kmsg.DescribeConfigsResponseResourceConfig {
	t.Helper()
	wantCode(t, "DescribeConfigs of "+row.ResourceName, row.ErrorCode, nil)
	configs := make(map[string]kmsg.DescribeConfigsResponseResourceConfig)
	for _, k := range row.Configs {
		configs[k.Name] = k
	}
	if len(configs) != len(row.Configs) {
		t.Errorf("%s has %d settings under %d names", row.ResourceName, len(row.Configs), len(configs))
	}
	return configs
}

// User interfaces, Connect and Schema Registry read settings of topics before they do anything, and stop where one of them
// is missing. A list of names without any means all of them, in every form; unknown names are left out.
func TestAllSettingsOfATopicAreDescribed(t *testing.T) {
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 1, "retention.ms", "4711", "segment.bytes", "2000000").name
	c := dial(t, address)
	for version := int16(1); version <= 4; version++ {
		ask := func(names []string) map[string]kmsg.DescribeConfigsResponseResourceConfig {
			req := at(version, kmsg.NewPtrDescribeConfigsRequest())
			req.IncludeSynonyms, req.IncludeDocumentation = true, true
			req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic, ConfigNames: names}}
			return byName(t, ask(t, c, req).Resources[0])
		}
		all, none := ask(nil), ask([]string{})
		if names, others := slices.Sorted(maps.Keys(all)), slices.Sorted(maps.Keys(none)); !slices.Equal(names, others) || len(names) < 30 {
			t.Errorf("version %d: no list of names gives %d settings, an empty one %d", version, len(names), len(others))
		}
		if some := ask([]string{"cleanup.policy", "nope"}); len(some) != 1 || text(some["cleanup.policy"].Value) != "delete" {
			t.Errorf("version %d: by name: %+v", version, some)
		}
		for name, want := range map[string]string{
			"cleanup.policy": "delete", "retention.ms": "4711", "retention.bytes": "-1", "max.message.bytes": "1048588",
			"segment.bytes": "2000000", "compression.type": "producer", "message.timestamp.type": "CreateTime", "delete.retention.ms": "86400000",
			"unclean.leader.election.enable": "false",
		} {
			k, ok := all[name]
			source := kmsg.ConfigSourceDefaultConfig
			if name == "retention.ms" || name == "segment.bytes" {
				source = kmsg.ConfigSourceDynamicTopicConfig
			}
			if !ok || text(k.Value) != want || k.Source != source || k.IsSensitive || k.ReadOnly {
				t.Errorf("version %d: %s is %s from %v", version, name, text(k.Value), k.Source)
			}
			if version >= 3 && (k.ConfigType == kmsg.ConfigTypeUnknown || text(k.Documentation) == "") {
				t.Errorf("version %d: %s has type %v and is documented as %.20q", version, name, k.ConfigType, text(k.Documentation))
			}
		}
		if k := all["min.insync.replicas"]; text(k.Value) != "1" {
			t.Errorf("version %d: min.insync.replicas is %s", version, text(k.Value))
		}
		// What would be the value otherwise, in the order in which that is decided.
		var chain []string
		for _, s := range all["segment.bytes"].ConfigSynonyms {
			chain = append(chain, fmt.Sprintf("%s=%s from %v", s.Name, text(s.Value), s.Source))
		}
		if want := []string{"segment.bytes=2000000 from DYNAMIC_TOPIC_CONFIG", "log.segment.bytes=1073741824 from DEFAULT_CONFIG"}; !slices.Equal(chain, want) {
			t.Errorf("version %d: the synonyms of segment.bytes are %q, want %q", version, chain, want)
		}
	}
	bare := at(4, kmsg.NewPtrDescribeConfigsRequest())
	bare.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}}
	for _, k := range ask(t, c, bare).Resources[0].Configs {
		if len(k.ConfigSynonyms) != 0 || k.Documentation != nil {
			t.Errorf("%s has %d synonyms and documentation that nobody asked for", k.Name, len(k.ConfigSynonyms))
		}
	}
}

// A broker describes itself, by its id, with what is in force and where that is from; by no id what all brokers have in
// common.
func TestAllSettingsOfABrokerAreDescribed(t *testing.T) {
	address := harness.Shared(t).Bootstrap
	c := dial(t, address)
	id := fmt.Sprint(identify(t, address).node)
	all := byName(t, describeConfigs(t, c, kmsg.ConfigResourceTypeBroker, id))
	if len(all) < 100 {
		t.Errorf("there are %d settings", len(all))
	}
	for name, want := range map[string]string{
		"num.partitions": "1", "log.retention.hours": "168", "offsets.retention.minutes": "10080", "group.initial.rebalance.delay.ms": "0",
		"auto.create.topics.enable": "true", "message.max.bytes": "1048588", "log.cleanup.policy": "delete", "node.id": id,
	} {
		if k, ok := all[name]; !ok || text(k.Value) != want {
			t.Errorf("%s is %s, want %s", name, text(k.Value), want)
		}
	}
	for _, name := range []string{"log.dirs", "listeners", "advertised.listeners"} {
		if k, ok := all[name]; !ok || k.Value == nil || *k.Value == "" || !k.ReadOnly && name == "log.dirs" {
			t.Errorf("%s is %+v", name, k)
		}
	}
	// A setting of the start is one of the file, and what nobody set is the default; not everything is changed.
	for name, want := range map[string]kmsg.ConfigSource{"group.initial.rebalance.delay.ms": kmsg.ConfigSourceStaticBrokerConfig, "num.partitions": kmsg.ConfigSourceDefaultConfig} {
		if got := all[name].Source; got != want {
			t.Errorf("%s is from %v, want %v", name, got, want)
		}
	}
	for name, k := range all {
		if k.IsSensitive && k.Value != nil {
			t.Errorf("%s, which is secret, is %q", name, *k.Value)
		}
	}
	if some := byName(t, describeConfigs(t, c, kmsg.ConfigResourceTypeBroker, id, "num.partitions", "nope")); len(some) != 1 {
		t.Errorf("by name: %+v", some)
	}
	if common := byName(t, describeConfigs(t, c, kmsg.ConfigResourceTypeBroker, "")); len(common) > 10 {
		t.Errorf("what was set for all brokers at run time is %d settings", len(common))
	}
}

func TestDescribeConfigsRefuses(t *testing.T) {
	address := harness.Shared(t).Bootstrap
	c := dial(t, address)
	for _, r := range []struct {
		kind kmsg.ConfigResourceType
		name string
		want *kerr.Error
	}{
		{kmsg.ConfigResourceTypeTopic, harness.TopicName(t), kerr.UnknownTopicOrPartition},
		{kmsg.ConfigResourceTypeTopic, "a b", kerr.InvalidTopicException},
		{kmsg.ConfigResourceTypeTopic, "", kerr.InvalidTopicException},
		{kmsg.ConfigResourceTypeBroker, "4711", kerr.InvalidRequest},
		{kmsg.ConfigResourceTypeBroker, "one", kerr.InvalidRequest},
		{99, "x", kerr.InvalidRequest},
	} {
		row := describeConfigs(t, c, r.kind, r.name)
		wantCode(t, fmt.Sprintf("DescribeConfigs of %d %q", r.kind, r.name), row.ErrorCode, r.want)
		if len(row.Configs) != 0 {
			t.Errorf("%d settings of %q", len(row.Configs), r.name)
		}
	}
}

// alteration is an operation on one setting; a nil value is null.
type alteration struct {
	op    kmsg.IncrementalAlterConfigOp
	name  string
	value *string
}

func set(name, value string) alteration {
	return alteration{kmsg.IncrementalAlterConfigOpSet, name, &value}
}

// alterConfigs changes settings of a topic and returns what is said of it.
func alterConfigs(t *testing.T, c *conn, topic string, validateOnly bool, changes ...alteration) kmsg.IncrementalAlterConfigsResponseResource {
	t.Helper()
	req := at(1, kmsg.NewPtrIncrementalAlterConfigsRequest())
	req.ValidateOnly = validateOnly
	row := kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}
	for _, k := range changes {
		row.Configs = append(row.Configs, kmsg.IncrementalAlterConfigsRequestResourceConfig{Name: k.name, Op: k.op, Value: k.value})
	}
	req.Resources = append(req.Resources, row)
	rows := ask(t, c, req).Resources
	if len(rows) != 1 || rows[0].ResourceType != kmsg.ConfigResourceTypeTopic || rows[0].ResourceName != topic {
		t.Fatalf("IncrementalAlterConfigs: %+v", rows)
	}
	return rows[0]
}

// awaitConfig waits until a setting of a topic is as wanted: a change may reach the broker after the answer.
func awaitConfig(t *testing.T, c *conn, topic, name, want string, source kmsg.ConfigSource) {
	t.Helper()
	for deadline := time.Now().Add(replyWithin); ; time.Sleep(10 * time.Millisecond) {
		got := topicConfig(t, c, topic, name)
		if text(got.Value) == want && got.Source == source {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %s from %v, want %s from %v", name, text(got.Value), got.Source, want, source)
		}
	}
}

// Settings are changed one by one: set, deleted, and where they are lists added to and taken from, beginning with what is
// in force. What is wrong changes nothing.
func TestIncrementalAlterConfigs(t *testing.T) {
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 1).name
	c := dial(t, address)
	const dynamic, byDefault = kmsg.ConfigSourceDynamicTopicConfig, kmsg.ConfigSourceDefaultConfig
	appended := func(name, value string) alteration {
		return alteration{kmsg.IncrementalAlterConfigOpAppend, name, &value}
	}
	subtracted := func(name, value string) alteration {
		return alteration{kmsg.IncrementalAlterConfigOpSubtract, name, &value}
	}
	deleted := func(name string) alteration { return alteration{kmsg.IncrementalAlterConfigOpDelete, name, nil} }
	retention, policy := "604800000", "delete"
	retentionSource, policySource := byDefault, byDefault
	for _, step := range []struct {
		what              string
		validate          bool
		changes           []alteration
		want              *kerr.Error
		retention, policy string // afterwards, where that is another; "" is the default
	}{
		{"set", false, []alteration{set("retention.ms", "1000")}, nil, "1000", "-"},
		{"append", false, []alteration{appended("cleanup.policy", "compact")}, nil, "-", "delete,compact"},
		{"append what is there", false, []alteration{appended("cleanup.policy", "compact")}, nil, "-", "-"},
		{"append two", false, []alteration{appended("cleanup.policy", "compact,delete")}, nil, "-", "-"},
		{"subtract", false, []alteration{subtracted("cleanup.policy", "delete")}, nil, "-", "compact"},
		{"subtract what is not there", false, []alteration{subtracted("cleanup.policy", "delete")}, nil, "-", "-"},
		{"append to what is no list", false, []alteration{appended("retention.ms", "1")}, kerr.InvalidConfig, "-", "-"},
		{"subtract from what is no list", false, []alteration{subtracted("retention.ms", "1")}, kerr.InvalidConfig, "-", "-"},
		{"a value that is none", false, []alteration{set("cleanup.policy", "bogus")}, kerr.InvalidConfig, "-", "-"},
		{"append a value that is none", false, []alteration{appended("cleanup.policy", "bogus")}, kerr.InvalidConfig, "-", "-"},
		{"a number that is none", false, []alteration{set("retention.ms", "soon")}, kerr.InvalidConfig, "-", "-"},
		{"a number that is out of range", false, []alteration{set("retention.ms", "-2")}, kerr.InvalidConfig, "-", "-"},
		{"null", false, []alteration{{kmsg.IncrementalAlterConfigOpSet, "retention.ms", nil}}, kerr.InvalidRequest, "-", "-"},
		{"a setting that is none", false, []alteration{set("nope", "x")}, kerr.InvalidConfig, "-", "-"},
		{"a good one beside a bad one", false, []alteration{set("retention.ms", "2000"), set("nope", "x")}, kerr.InvalidConfig, "-", "-"},
		{"the same twice", false, []alteration{set("retention.ms", "2000"), set("retention.ms", "3000")}, kerr.InvalidRequest, "-", "-"},
		{"only to be checked", true, []alteration{set("retention.ms", "77")}, nil, "-", "-"},
		{"only to be checked, and wrong", true, []alteration{set("retention.ms", "soon")}, kerr.InvalidConfig, "-", "-"},
		{"delete", false, []alteration{deleted("retention.ms"), deleted("cleanup.policy")}, nil, "", ""},
		{"delete what is not set", false, []alteration{deleted("retention.ms")}, nil, "-", "-"},
		{"the default as a value", false, []alteration{set("cleanup.policy", "delete")}, nil, "-", "delete"},
	} {
		row := alterConfigs(t, c, topic, step.validate, step.changes...)
		wantCode(t, step.what, row.ErrorCode, step.want)
		if (row.ErrorMessage == nil || *row.ErrorMessage == "") != (step.want == nil) {
			t.Errorf("%s: the message is %s", step.what, text(row.ErrorMessage))
		}
		switch step.retention {
		case "-":
		case "":
			retention, retentionSource = "604800000", byDefault
		default:
			retention, retentionSource = step.retention, dynamic
		}
		switch step.policy {
		case "-":
		case "":
			policy, policySource = "delete", byDefault
		default:
			policy, policySource = step.policy, dynamic
		}
		awaitConfig(t, c, topic, "retention.ms", retention, retentionSource)
		awaitConfig(t, c, topic, "cleanup.policy", policy, policySource)
	}
	unknown := alterConfigs(t, c, harness.TopicName(t), false, set("retention.ms", "1"))
	wantCode(t, "a topic that is not there", unknown.ErrorCode, kerr.UnknownTopicOrPartition)
}

// The older request replaces all settings of a topic: what it leaves out is at its default again.
func TestAlterConfigsReplaces(t *testing.T) {
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 1, "retention.ms", "5000").name
	c := dial(t, address)
	replace := func(version int16, validateOnly bool, pairs ...string) int16 {
		t.Helper()
		req := at(version, kmsg.NewPtrAlterConfigsRequest())
		req.ValidateOnly = validateOnly
		row := kmsg.AlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: topic}
		for i := 0; i+1 < len(pairs); i += 2 {
			row.Configs = append(row.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: pairs[i], Value: &pairs[i+1]})
		}
		req.Resources = append(req.Resources, row)
		return ask(t, c, req).Resources[0].ErrorCode
	}
	const dynamic, byDefault = kmsg.ConfigSourceDynamicTopicConfig, kmsg.ConfigSourceDefaultConfig
	wantCode(t, "only to be checked", replace(2, true, "max.message.bytes", "2000000"), nil)
	wantCode(t, "a setting that is none", replace(2, false, "nope", "x"), kerr.InvalidConfig)
	wantCode(t, "a value that is none", replace(2, false, "max.message.bytes", "much"), kerr.InvalidConfig)
	awaitConfig(t, c, topic, "retention.ms", "5000", dynamic)
	awaitConfig(t, c, topic, "max.message.bytes", "1048588", byDefault)
	for version := range int16(3) {
		size := fmt.Sprint(2_000_000 + int(version))
		wantCode(t, "replace", replace(version, false, "max.message.bytes", size), nil)
		awaitConfig(t, c, topic, "max.message.bytes", size, dynamic)
		awaitConfig(t, c, topic, "retention.ms", "604800000", byDefault)
	}
	wantCode(t, "replace by nothing", replace(2, false), nil)
	awaitConfig(t, c, topic, "max.message.bytes", "1048588", byDefault)
}

// What was changed at run time is in force, also after whatever ends the broker: a value that the next start chokes on would
// be the end of it.
func TestChangedSettingsStay(t *testing.T) {
	t.Parallel()
	s := start(t)
	topic := newTopic(t, s.Address, 1).name
	c := dial(t, s.Address)
	wantCode(t, "set", alterConfigs(t, c, topic, false, set("max.message.bytes", "100"), set("retention.ms", "3600000")).ErrorCode, nil)
	id := fmt.Sprint(identify(t, s.Address).node)
	req := at(1, kmsg.NewPtrIncrementalAlterConfigsRequest())
	for _, broker := range []string{"", id} {
		value := "70000"
		if broker == id {
			value = "80000"
		}
		req.Resources = append(req.Resources, kmsg.IncrementalAlterConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: broker,
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "log.segment.delete.delay.ms", Value: &value}}})
	}
	for _, row := range ask(t, c, req).Resources {
		wantCode(t, "set for broker "+row.ResourceName, row.ErrorCode, nil)
	}
	for _, how := range []string{"", "kill", "stop"} {
		if how != "" {
			s.end(t, how)
			s.restart(t)
			c = dial(t, s.Address)
		}
		awaitConfig(t, c, topic, "retention.ms", "3600000", kmsg.ConfigSourceDynamicTopicConfig)
		awaitConfig(t, c, topic, "max.message.bytes", "100", kmsg.ConfigSourceDynamicTopicConfig)
		wantCode(t, "a batch above the limit", produce(t, c, topic, 0, textBatch(strings.Repeat("x", 90)).bytes()).ErrorCode, kerr.MessageTooLarge)
		k := byName(t, describeConfigs(t, c, kmsg.ConfigResourceTypeBroker, id, "log.segment.delete.delay.ms"))["log.segment.delete.delay.ms"]
		if text(k.Value) != "80000" || k.Source != kmsg.ConfigSourceDynamicBrokerConfig || len(k.ConfigSynonyms) < 3 || text(k.ConfigSynonyms[1].Value) != "70000" {
			t.Errorf("after %q the broker's setting is %+v", how, k)
		}
	}
}
