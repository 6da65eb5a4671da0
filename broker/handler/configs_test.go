package handler

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/replica"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

const (
	topicResource  = kmsg.ConfigResourceTypeTopic
	brokerResource = kmsg.ConfigResourceTypeBroker
)

// describeConfigs asks for configs of one resource; without names for all.
func (c *client) describeConfigs(t kmsg.ConfigResourceType, name string, names ...string) kmsg.DescribeConfigsResponseResource {
	c.f.t.Helper()
	req := describeConfigsRequest(t, name, names...)
	req.IncludeSynonyms = true
	return c.call(4, req).(*kmsg.DescribeConfigsResponse).Resources[0]
}

func describeConfigsRequest(t kmsg.ConfigResourceType, name string, names ...string) *kmsg.DescribeConfigsRequest {
	req := kmsg.NewPtrDescribeConfigsRequest()
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = t, name, names
	req.Resources = append(req.Resources, resource)
	return req
}

// config is the value of one config and where it comes from.
func (c *client) config(t kmsg.ConfigResourceType, name, config string) (value string, source kmsg.ConfigSource) {
	c.f.t.Helper()
	row := c.describeConfigs(t, name, config)
	if row.ErrorCode != 0 || len(row.Configs) != 1 || row.Configs[0].Value == nil {
		c.f.t.Fatalf("%v %q has for %s: %+v", t, name, config, row)
	}
	return *row.Configs[0].Value, row.Configs[0].Source
}

// configChange is one operation on a config; set by default.
type configChange struct {
	name, value string
	op          kmsg.IncrementalAlterConfigOp
}

// incremental alters one resource and returns its row.
func (c *client) incremental(t kmsg.ConfigResourceType, name string, validateOnly bool, changes ...configChange) kmsg.IncrementalAlterConfigsResponseResource {
	c.f.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validateOnly
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = t, name
	for _, ch := range changes {
		config := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		config.Name, config.Op, config.Value = ch.name, ch.op, &ch.value
		resource.Configs = append(resource.Configs, config)
	}
	req.Resources = append(req.Resources, resource)
	return c.call(1, req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]
}

func (c *client) mustAlter(t kmsg.ConfigResourceType, name string, changes ...configChange) {
	c.f.t.Helper()
	if row := c.incremental(t, name, false, changes...); row.ErrorCode != 0 || row.ErrorMessage != nil || row.ResourceType != t || row.ResourceName != name {
		c.f.t.Fatalf("%+v", row)
	}
}

// Schema Registry, Connect and user interfaces take whatever is missing here for a broken broker.
func TestTopicConfigsAreDescribed(t *testing.T) {
	f := newFixture(t, "log.segment.bytes=2097152")
	f.createTopic("t", 1, "retention.ms", "5000")
	c := f.client()
	names := func(row kmsg.DescribeConfigsResponseResource) (names []string) {
		for _, config := range row.Configs {
			names = append(names, config.Name)
		}
		return names
	}
	all := names(c.describeConfigs(topicResource, "t"))
	if len(all) != 37 || !slices.IsSorted(all) {
		t.Errorf("%d configs: %v", len(all), all)
	}
	if empty := names(c.describeConfigs(topicResource, "t", []string{}...)); !slices.Equal(empty, all) {
		t.Errorf("an empty list of names: %v", empty)
	}
	if some := names(c.describeConfigs(topicResource, "t", "segment.bytes", "nope", "retention.ms", "retention.ms")); !slices.Equal(some, []string{"retention.ms", "segment.bytes"}) {
		t.Errorf("some names: %v", some)
	}
	for name, want := range map[string]struct {
		value  string
		source kmsg.ConfigSource
	}{
		"retention.ms":   {"5000", kmsg.ConfigSourceDynamicTopicConfig},
		"segment.bytes":  {"2097152", kmsg.ConfigSourceStaticBrokerConfig},
		"cleanup.policy": {"delete", kmsg.ConfigSourceDefaultConfig},
	} {
		if value, source := c.config(topicResource, "t", name); value != want.value || source != want.source {
			t.Errorf("%s is %s of %v", name, value, source)
		}
	}
}

func TestDescribeConfigsShowsWhatIsAskedFor(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1, "max.message.bytes", "5000")
	c := f.client()
	for version := int16(1); version <= 4; version++ {
		for _, more := range []bool{false, true} {
			req := describeConfigsRequest(topicResource, "t", "max.message.bytes")
			req.IncludeSynonyms, req.IncludeDocumentation = more, more
			row := c.call(version, req).(*kmsg.DescribeConfigsResponse).Resources[0].Configs[0]
			synonyms := 0
			if more {
				synonyms = 2 // the topic's own, message.max.bytes
			}
			typ := kmsg.ConfigType(0)
			if version >= 3 {
				typ = kmsg.ConfigTypeInt
			}
			if *row.Value != "5000" || row.ReadOnly || row.IsSensitive || len(row.ConfigSynonyms) != synonyms || row.ConfigType != typ || (row.Documentation != nil) != (more && version >= 3) {
				t.Errorf("version %d, with more: %v: %+v", version, more, row)
			}
		}
	}
}

func TestBrokerConfigsAreDescribed(t *testing.T) {
	f := newFixture(t, "num.partitions=3", "ssl.keystore.password=secret")
	c := f.client()
	own := strconv.Itoa(int(self))
	c.mustAlter(brokerResource, "", configChange{name: "log.retention.ms", value: "1000"})
	c.mustAlter(brokerResource, own, configChange{name: "log.retention.ms", value: "2000"}, configChange{name: "plug.in", value: "secret"})
	if row := c.describeConfigs(brokerResource, own); len(row.Configs) < 300 {
		t.Errorf("only %d configs", len(row.Configs))
	}
	for name, want := range map[string]struct {
		value    string // "" for none
		source   kmsg.ConfigSource
		readOnly bool
	}{
		"num.partitions":        {"3", kmsg.ConfigSourceStaticBrokerConfig, true},
		"log.dirs":              {dataDir, kmsg.ConfigSourceStaticBrokerConfig, true},
		"log.retention.ms":      {"2000", kmsg.ConfigSourceDynamicBrokerConfig, false},
		"log.segment.bytes":     {"1073741824", kmsg.ConfigSourceDefaultConfig, false},
		"ssl.keystore.password": {"", kmsg.ConfigSourceStaticBrokerConfig, false},
		"plug.in":               {"", kmsg.ConfigSourceDynamicBrokerConfig, true},
	} {
		row := c.describeConfigs(brokerResource, own, name)
		if len(row.Configs) != 1 {
			t.Errorf("%s: %+v", name, row)
			continue
		}
		config := row.Configs[0]
		if (config.Value == nil) != (want.value == "") || config.Value != nil && *config.Value != want.value || config.Source != want.source || config.ReadOnly != want.readOnly ||
			config.IsSensitive != (want.value == "") {
			t.Errorf("%s: %+v", name, config)
		}
	}
	if row := c.describeConfigs(brokerResource, ""); len(row.Configs) != 2 || row.Configs[0].Name != "log.retention.ms" || *row.Configs[0].Value != "1000" ||
		row.Configs[1].Name != "min.insync.replicas" { // which every new cluster has (KIP-966)
		t.Errorf("of all brokers: %+v", row)
	}
	if value, source := c.config(brokerResource, "0"+own, "log.retention.ms"); value != "2000" || source != kmsg.ConfigSourceDynamicBrokerConfig {
		t.Errorf("by another spelling: %s of %v", value, source)
	}
}

func TestWhatCannotBeDescribed(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1)
	c := f.client()
	for _, want := range []struct {
		typ     kmsg.ConfigResourceType
		name    string
		code    kafka.Code
		message string
	}{
		{topicResource, "nope", kafka.UnknownTopicOrPartition, ""},
		{topicResource, "a b", kafka.InvalidTopic, "Topic name is invalid: 'a b' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"},
		{brokerResource, "9", kafka.InvalidRequest, "Unexpected broker id, expected 1 or empty string, but received 9"},
		{brokerResource, "x", kafka.InvalidRequest, "Broker id must be an integer, but it is: x"},
	} {
		row := c.describeConfigs(want.typ, want.name)
		if kafka.Code(row.ErrorCode) != want.code || *row.ErrorMessage != want.message || len(row.Configs) != 0 || row.ResourceName != want.name || row.ResourceType != want.typ {
			t.Errorf("%+v", row)
		}
	}
	for _, typ := range []kmsg.ConfigResourceType{0, 1, 3, 64, -1} { // no type at all fails the request as a whole
		req := describeConfigsRequest(topicResource, "t")
		req.Resources = append(req.Resources, describeConfigsRequest(typ, "x").Resources...)
		rows := c.call(4, req).(*kmsg.DescribeConfigsResponse).Resources
		for i, row := range rows {
			if len(rows) != 2 || kafka.Code(row.ErrorCode) != kafka.InvalidRequest || *row.ErrorMessage != invalidRequestText || row.ResourceName != req.Resources[i].ResourceName {
				t.Errorf("with type %d: %+v", typ, rows)
			}
		}
	}
}

// A small request must not make an answer of any size, nor work without end: topics are described once for nothing, all
// else so many times, whether or not it is shown.
func TestDescriptionsAreNotRepeatedWithoutEnd(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"a", "b"} {
		f.createTopic(name, 1)
	}
	a, b, broker := describeConfigsRequest(topicResource, "a").Resources[0], describeConfigsRequest(topicResource, "b").Resources[0], describeConfigsRequest(brokerResource, "01", "node.id").Resources[0]
	req := kmsg.NewPtrDescribeConfigsRequest()
	for range 2 + maxRepeatedConfigs/37 { // the first does not count, the last is one too many
		req.Resources = append(req.Resources, a)
	}
	allowed := len(req.Resources)
	req.Resources = append(req.Resources, a, broker, b)
	rows := f.client().call(4, req).(*kmsg.DescribeConfigsResponse).Resources
	if len(rows) != len(req.Resources) {
		t.Fatalf("%d rows for %d resources", len(rows), len(req.Resources))
	}
	for i, row := range rows {
		if refused := i == allowed || i == allowed+1; refused != (kafka.Code(row.ErrorCode) == kafka.InvalidRequest) || refused != (len(row.Configs) == 0) {
			t.Errorf("row %d of %q: %v with %d configs", i, row.ResourceName, kafka.Code(row.ErrorCode), len(row.Configs))
		}
	}
	req.Resources = req.Resources[:0]
	for range 1000 {
		req.Resources = append(req.Resources, broker)
	}
	rows = f.client().call(4, req).(*kmsg.DescribeConfigsResponse).Resources
	if row := rows[999]; kafka.Code(row.ErrorCode) != kafka.InvalidRequest || len(rows[0].Configs) != 1 {
		t.Errorf("a broker's node.id for the thousandth time: %+v", row)
	}
}

func TestConfigsChangeOneByOne(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1)
	c := f.client()
	const (
		set      = kmsg.IncrementalAlterConfigOpSet
		remove   = kmsg.IncrementalAlterConfigOpDelete
		extend   = kmsg.IncrementalAlterConfigOpAppend
		subtract = kmsg.IncrementalAlterConfigOpSubtract
	)
	for _, step := range []struct {
		configChange
		code   kafka.Code
		value  string // afterwards
		source kmsg.ConfigSource
	}{
		{configChange{"retention.ms", "1000", set}, kafka.None, "1000", kmsg.ConfigSourceDynamicTopicConfig},
		{configChange{"cleanup.policy", "compact", extend}, kafka.None, "delete,compact", kmsg.ConfigSourceDynamicTopicConfig}, // begins with the default
		{configChange{"cleanup.policy", "compact", extend}, kafka.None, "delete,compact", kmsg.ConfigSourceDynamicTopicConfig},
		{configChange{"cleanup.policy", "delete", subtract}, kafka.None, "compact", kmsg.ConfigSourceDynamicTopicConfig},
		{configChange{"retention.ms", "1", extend}, kafka.InvalidConfig, "1000", kmsg.ConfigSourceDynamicTopicConfig},
		{configChange{"retention.ms", "soon", set}, kafka.InvalidConfig, "1000", kmsg.ConfigSourceDynamicTopicConfig},
		{configChange{"retention.ms", "5", 9}, kafka.InvalidRequest, "1000", kmsg.ConfigSourceDynamicTopicConfig},
		{configChange{"cleanup.policy", "bogus", set}, kafka.InvalidConfig, "compact", kmsg.ConfigSourceDynamicTopicConfig},
		{configChange{"retention.ms", "", remove}, kafka.None, "604800000", kmsg.ConfigSourceDefaultConfig},
		{configChange{"cleanup.policy", "", remove}, kafka.None, "delete", kmsg.ConfigSourceDefaultConfig},
	} {
		row := c.incremental(topicResource, "t", false, step.configChange)
		if kafka.Code(row.ErrorCode) != step.code || (row.ErrorMessage == nil) != (step.code == kafka.None) {
			t.Errorf("%+v: %+v", step.configChange, row)
		}
		if value, source := c.config(topicResource, "t", step.name); value != step.value || source != step.source {
			t.Errorf("after %+v: %s of %v", step.configChange, value, source)
		}
	}
	for _, changes := range [][]configChange{{{name: "nope", value: "1"}}, {{name: "retention.ms", value: "1"}, {name: "nope", value: "1"}}} {
		if row := c.incremental(topicResource, "t", false, changes...); kafka.Code(row.ErrorCode) != kafka.InvalidConfig || *row.ErrorMessage != "Unknown topic config name: nope" {
			t.Errorf("%+v: %+v", changes, row)
		}
	}
	if row := c.incremental(topicResource, "t", false, configChange{name: "retention.ms", value: "1"}, configChange{name: "retention.ms", value: "2"}); kafka.Code(row.ErrorCode) != kafka.InvalidRequest {
		t.Errorf("a name twice: %+v", row)
	}
	if row := c.incremental(topicResource, "t", true, configChange{name: "retention.ms", value: "77"}); row.ErrorCode != 0 {
		t.Errorf("only validated: %+v", row)
	}
	if value, _ := c.config(topicResource, "t", "retention.ms"); value != "604800000" {
		t.Errorf("what was refused or only validated has changed retention.ms to %s", value)
	}
}

func TestAlterConfigsReplacesThemAll(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1, "retention.ms", "5000")
	c := f.client()
	alter := func(validateOnly bool, resource string, values map[string]string) kmsg.AlterConfigsResponseResource {
		req := kmsg.NewPtrAlterConfigsRequest()
		req.ValidateOnly = validateOnly
		r := kmsg.NewAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = topicResource, resource
		for name, value := range values {
			r.Configs = append(r.Configs, kmsg.AlterConfigsRequestResourceConfig{Name: name, Value: &value})
		}
		req.Resources = append(req.Resources, r)
		return c.call(2, req).(*kmsg.AlterConfigsResponse).Resources[0]
	}
	if row := alter(true, "t", map[string]string{"max.message.bytes": "3"}); row.ErrorCode != 0 {
		t.Errorf("only validated: %+v", row)
	}
	if row := alter(false, "t", map[string]string{"max.message.bytes": "x"}); kafka.Code(row.ErrorCode) != kafka.InvalidConfig || row.ErrorMessage == nil {
		t.Errorf("a wrong value: %+v", row)
	}
	if value, _ := c.config(topicResource, "t", "retention.ms"); value != "5000" {
		t.Errorf("retention.ms is %s already", value)
	}
	if row := alter(false, "t", map[string]string{"max.message.bytes": "2000000"}); row.ErrorCode != 0 || row.ErrorMessage != nil || row.ResourceName != "t" || row.ResourceType != topicResource {
		t.Errorf("%+v", row)
	}
	if value, source := c.config(topicResource, "t", "retention.ms"); value != "604800000" || source != kmsg.ConfigSourceDefaultConfig {
		t.Errorf("retention.ms is %s of %v", value, source)
	}
	if value, _ := c.config(topicResource, "t", "max.message.bytes"); value != "2000000" {
		t.Errorf("max.message.bytes is %s", value)
	}
	if row := alter(false, "nope", nil); kafka.Code(row.ErrorCode) != kafka.UnknownTopicOrPartition {
		t.Errorf("no such topic: %+v", row)
	}
}

// A broker speaks for itself: another one may have other settings, or may not even be there.
func TestOneBrokerIsAlteredByItself(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, clientListener)
	c := f.client()
	if row := c.incremental(brokerResource, "2", false, configChange{name: "log.cleaner.threads", value: "2"}); kafka.Code(row.ErrorCode) != kafka.InvalidRequest ||
		*row.ErrorMessage != "Unexpected broker id, expected 1, but received 2" {
		t.Errorf("%+v", row)
	}
	if row := c.incremental(brokerResource, "1", false, configChange{name: "num.partitions", value: "2"}); kafka.Code(row.ErrorCode) != kafka.InvalidRequest ||
		*row.ErrorMessage != "Cannot update these configs dynamically: [num.partitions]" {
		t.Errorf("%+v", row)
	}
}

// A text that repeats what the client sent may be longer than an old version's string.
func TestLongTextsFitTheirAnswers(t *testing.T) {
	f := newFixture(t)
	f.createTopic("t", 1)
	c, long := f.client(), strings.Repeat("x", math.MaxInt16)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = topicResource, "t"
	resource.Configs = []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: "retention.ms", Value: &long}}
	req.Resources = append(req.Resources, resource)
	if row := c.call(0, req).(*kmsg.IncrementalAlterConfigsResponse).Resources[0]; kafka.Code(row.ErrorCode) != kafka.InvalidConfig || !strings.HasPrefix(*row.ErrorMessage, "Invalid value xxx") {
		t.Errorf("%v", kafka.Code(row.ErrorCode))
	}
	if row := c.call(1, describeConfigsRequest(brokerResource, long)).(*kmsg.DescribeConfigsResponse).Resources[0]; kafka.Code(row.ErrorCode) != kafka.InvalidRequest {
		t.Errorf("%v", kafka.Code(row.ErrorCode))
	}
}

func TestConfigResourcesAreListed(t *testing.T) {
	f := newFixture(t)
	f.addBroker(2, clientListener)
	for _, name := range []string{"b", "a"} {
		f.createTopic(name, 1)
	}
	c := f.client()
	list := func(version int16, types ...int8) (code kafka.Code, found []string) {
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.ResourceTypes = types
		resp := c.call(version, req).(*kmsg.ListConfigResourcesResponse)
		for _, r := range resp.ConfigResources {
			found = append(found, strconv.Itoa(int(r.Type))+":"+r.Name)
		}
		return kafka.Code(resp.ErrorCode), found
	}
	for _, want := range []struct {
		version int16
		types   []int8
		code    kafka.Code
		found   []string
	}{
		{0, nil, kafka.None, nil},
		{1, nil, kafka.None, []string{"2:a", "2:b", "4:1", "4:2"}},
		{1, []int8{2}, kafka.None, []string{"2:a", "2:b"}},
		{1, []int8{4, 16, 32}, kafka.None, []string{"4:1", "4:2"}},
		{1, []int8{2, 99}, kafka.UnsupportedVersion, nil},
		{1, []int8{0}, kafka.UnsupportedVersion, nil},
	} {
		if code, found := list(want.version, want.types...); code != want.code || !slices.Equal(found, want.found) {
			t.Errorf("version %d, types %d: %v %v", want.version, want.types, code, found)
		}
	}
}

func TestMinInsyncReplicasActsAtOnce(t *testing.T) {
	f := newFixture(t)
	_, err := f.node.Submit(t.Context(), controller.RegisterBroker{ClusterID: f.store.ClusterID(), Broker: 2, Incarnation: kafka.NewUUID(),
		Listeners: []metadata.Endpoint{clientListener}, Directories: []kafka.DirectoryID{kafka.NewUUID()}, PreviousEpoch: -1}) // and stays fenced
	if err != nil {
		t.Fatal(err)
	}
	f.createTopicOn("t", [][]kafka.BrokerID{{self, 2}})
	c := f.client()
	produces := func(want kafka.Code) {
		t.Helper()
		if row := c.produce("t", replica.AcksAll, records(t, 1, 1)); kafka.Code(row.ErrorCode) != want {
			t.Errorf("%v, want %v", kafka.Code(row.ErrorCode), want)
		}
	}
	produces(kafka.None)
	c.mustAlter(topicResource, "t", configChange{name: "min.insync.replicas", value: "2"})
	produces(kafka.NotEnoughReplicas)
	c.mustAlter(topicResource, "t", configChange{name: "min.insync.replicas", op: kmsg.IncrementalAlterConfigOpDelete})
	produces(kafka.None)
	c.mustAlter(brokerResource, "", configChange{name: "min.insync.replicas", value: "2"})
	produces(kafka.NotEnoughReplicas)
}
