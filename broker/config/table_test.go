package config

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestDefaultsAreValid(t *testing.T) {
	for _, d := range slices.Concat(TopicDefs(), BrokerDefs()) {
		if d.Null {
			if d.Default != "" {
				t.Errorf("%s has a default and has none", d.Name)
			}
			continue
		}
		v, err := d.parse(d.Default)
		if err != nil {
			t.Error(err)
		} else if v.text() != d.Default {
			t.Errorf("the default of %s is written %q and shown %q", d.Name, d.Default, v.text())
		}
	}
}

func TestEveryConfigIsDocumented(t *testing.T) {
	for _, d := range slices.Concat(TopicDefs(), BrokerDefs()) {
		if len(d.Doc) < 10 || !strings.HasSuffix(d.Doc, ".") {
			t.Errorf("%s: documentation %q", d.Name, d.Doc)
		}
	}
}

func TestTopicSynonymsAreBrokerConfigsWithTheSameDefault(t *testing.T) {
	defaults := load(t).TopicConfig(nil, nil, nil)
	equal(t, defaults, (*Server)(nil).TopicConfig(nil, nil, nil))
	for _, d := range TopicDefs() {
		for i, name := range d.Synonyms {
			broker, ok := brokerIndex[name]
			if !ok {
				t.Errorf("%s: no broker config %s", d.Name, name)
				continue
			}
			last := i == len(d.Synonyms)-1
			if broker.Null != !last {
				t.Errorf("%s: the default must come from the last synonym, and %s has null=%v", d.Name, name, broker.Null)
			}
			if v, isNull := broker.defaultValue(); last && !isNull {
				v.typ, v.num = d.Type, inMillis(name, v.num)
				if v.text() != d.Default {
					t.Errorf("%s has default %s and %s gives %s", d.Name, d.Default, name, v.text())
				}
			}
			if (broker.Valid == nil) != (d.Valid == nil) && broker.Valid != nil {
				t.Errorf("%s takes any value and %s does not", d.Name, name)
			}
		}
	}
}

// recorded is one line of the recordings of a running Kafka 4.4.0.
type recorded struct {
	Name      string
	Value     *string
	Type      string
	Source    string
	Sensitive bool
	ReadOnly  bool
}

func readRecorded(t *testing.T, path string) []recorded {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var rows []recorded
	if err := json.Unmarshal(data, &rows); err != nil {
		t.Fatal(err)
	}
	return rows
}

var sourceNames = map[Source]string{
	SourceTopic: "DYNAMIC_TOPIC_CONFIG", SourceDynamicBroker: "DYNAMIC_BROKER_CONFIG", SourceDynamicDefaultBroker: "DYNAMIC_DEFAULT_BROKER_CONFIG",
	SourceStaticBroker: "STATIC_BROKER_CONFIG", SourceDefault: "DEFAULT_CONFIG",
}

func toRecorded(e Entry) recorded {
	return recorded{e.Name, e.Value, e.Type.String(), sourceNames[e.Source], e.Sensitive, e.ReadOnly}
}

// A topic without overrides, on a fresh Kafka 4.4.0: that wrote min.insync.replicas=1 as its first dynamic config.
func TestDescribeTopicMatchesKafka(t *testing.T) {
	want := readRecorded(t, "testdata/kafka_topic_configs.json")
	var got []recorded
	for _, e := range load(t).DescribeTopic(nil, map[string]string{"min.insync.replicas": "1"}, nil) {
		got = append(got, toRecorded(e))
	}
	slices.SortFunc(want, func(a, b recorded) int { return strings.Compare(a.Name, b.Name) })
	if len(got) != 37 || len(want) != 37 {
		t.Fatalf("%d configs, Kafka has %d", len(got), len(want))
	}
	for i := range want {
		equal(t, got[i], want[i])
	}
}

// The same broker's own configs, but for those that were set for it, and those where Weir has its own default.
func TestDescribeBrokerMatchesKafka(t *testing.T) {
	own := map[string]bool{
		"log.dir":                     true, // /tmp/kafka-logs, which Kafka reports even where it is not in use
		"listener.name":               true,
		"advertised.listeners":        true,
		"broker.id.generation.enable": true,
	}
	got := make(map[string]recorded)
	for _, e := range load(t).DescribeBroker(map[string]string{"min.insync.replicas": "1"}, nil) {
		got[e.Name] = toRecorded(e)
	}
	compared := 0
	for _, want := range readRecorded(t, "testdata/kafka_broker_configs.json") {
		if own[want.Name] || want.Source == "STATIC_BROKER_CONFIG" {
			delete(got, want.Name)
			continue
		}
		have, ok := got[want.Name]
		if !ok {
			t.Errorf("%s is not reported", want.Name)
			continue
		}
		if want.Name == "listener.security.protocol.map" { // listeners are opened at start and stay
			want.ReadOnly = true
		}
		equal(t, have, want)
		delete(got, want.Name)
		compared++
	}
	if compared < 320 {
		t.Errorf("only %d configs compared", compared)
	}
	for name := range got {
		if !strings.HasPrefix(name, "weir.") {
			t.Errorf("%s is reported and Kafka does not", name)
		}
	}
}
