package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestParseResource(t *testing.T) {
	for line, want := range map[string]string{
		"topic orders":            `topic orders []`,
		"topic orders retention":  `topic orders [retention]`,
		"broker 1 a=b":            `broker 1 [a=b]`,
		"cluster a=b c=d":         `cluster [a=b c=d]`,
		"group billing":           `group billing []`,
		"broker-logger 1":         `broker-logger 1 []`,
		"client-metrics all":      `client-metrics all []`,
		"topic":                   "error",
		"broker":                  "error",
		"orders retention.ms=5":   "error",
		"user somebody":           "error",
		"":                        "error",
		"CLUSTER retention.ms=5 ": "error",
	} {
		r, rest, err := parseResource(strings.Fields(line))
		got := fmt.Sprintf("%v %v", r, rest)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", line, got, err, want)
		}
	}
}

func TestParseChanges(t *testing.T) {
	for arg, want := range map[string]string{
		"retention.ms=5":         "SET retention.ms=5",
		"retention.ms=":          "SET retention.ms=",
		"sasl.jaas.config=a=b;":  "SET sasl.jaas.config=a=b;",
		"cleanup.policy+=delete": "APPEND cleanup.policy=delete",
		"cleanup.policy-=delete": "SUBTRACT cleanup.policy=delete",
		"cleanup.policy=+":       "SET cleanup.policy=+",
		"retention.ms":           "error",
		"=5":                     "error",
		"+=5":                    "error",
		"":                       "error",
	} {
		changes, err := parseChanges([]string{arg})
		got := "error"
		if err == nil {
			got = fmt.Sprintf("%v %s=%s", changes[0].Op, changes[0].Name, *changes[0].Value)
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", arg, got, err, want)
		}
	}
}

// What is a topic's is nothing to a broker, which takes it all the same.
func TestMisplacedSettingsAreTold(t *testing.T) {
	for line, want := range map[string]string{
		"cluster retention.ms":         "retention.ms is a setting of topics and has no effect here; topics without one of their own go by the broker's log.retention.ms",
		"broker 1 cleanup.policy":      "cleanup.policy is a setting of topics and has no effect here; topics without one of their own go by the broker's log.cleanup.policy",
		"topic t retention.ms":         "",
		"cluster min.insync.replicas":  "", // both have it
		"cluster log.retention.ms":     "",
		"cluster something.of.plug-in": "",
	} {
		r, rest, err := parseResource(strings.Fields(line))
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := misplaced(r, rest[0]); got != want || ok != (want != "") {
			t.Errorf("%s: %q, %v; want %q", line, got, ok, want)
		}
	}
}

func TestExplainFailsWhereItCannotWrite(t *testing.T) {
	root := newRootCommand()
	root.SetOut(fullDisk{})
	var errs bytes.Buffer
	root.SetErr(&errs)
	if code := run(t.Context(), root, []string{"config", "explain", "retention.ms"}); code != exitFailed || !strings.Contains(errs.String(), syscall.ENOSPC.Error()) {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestConfigDescriptions(t *testing.T) {
	configs := []configDescription{
		newConfigDescription(kmsg.DescribeConfigsResponseResourceConfig{
			Name: "cleanup.policy", Value: new("compact"), Source: kmsg.ConfigSourceDynamicTopicConfig, ConfigType: kmsg.ConfigTypeList,
			Documentation: new("What becomes of\nold records."),
			ConfigSynonyms: []kmsg.DescribeConfigsResponseResourceConfigConfigSynonym{
				{Name: "cleanup.policy", Value: new("compact"), Source: kmsg.ConfigSourceDynamicTopicConfig},
				{Name: "log.cleanup.policy", Value: new("delete"), Source: kmsg.ConfigSourceDefaultConfig},
			},
		}),
		newConfigDescription(kmsg.DescribeConfigsResponseResourceConfig{
			Name: "secret", IsSensitive: true, ReadOnly: true, Source: kmsg.ConfigSourceStaticBrokerConfig, ConfigType: kmsg.ConfigTypePassword,
		}),
		newConfigDescription(kmsg.DescribeConfigsResponseResourceConfig{Name: "unset", Source: kmsg.ConfigSourceDefaultConfig, ConfigType: kmsg.ConfigTypeString}),
	}
	for _, c := range []struct {
		flags configDescribeFlags
		want  string
	}{
		{configDescribeFlags{}, `NAME            VALUE        SOURCE
cleanup.policy  compact      DYNAMIC_TOPIC_CONFIG
secret          (sensitive)  STATIC_BROKER_CONFIG
unset           -            DEFAULT_CONFIG
`},
		{configDescribeFlags{documentation: true, synonyms: true}, `NAME            VALUE        SOURCE                SYNONYMS                                                                               DOCUMENTATION
cleanup.policy  compact      DYNAMIC_TOPIC_CONFIG  DYNAMIC_TOPIC_CONFIG:cleanup.policy=compact, DEFAULT_CONFIG:log.cleanup.policy=delete  What becomes of old records.
secret          (sensitive)  STATIC_BROKER_CONFIG  -                                                                                      -
unset           -            DEFAULT_CONFIG        -                                                                                      -
`},
		{configDescribeFlags{output: outputJSON}, `{"name":"cleanup.policy","value":"compact","source":"DYNAMIC_TOPIC_CONFIG","type":"list","readOnly":false,"sensitive":false,"synonyms":[{"name":"cleanup.policy","value":"compact","source":"DYNAMIC_TOPIC_CONFIG"},{"name":"log.cleanup.policy","value":"delete","source":"DEFAULT_CONFIG"}],"documentation":"What becomes of\nold records."}
{"name":"secret","value":null,"source":"STATIC_BROKER_CONFIG","type":"password","readOnly":true,"sensitive":true}
{"name":"unset","value":null,"source":"DEFAULT_CONFIG","type":"string","readOnly":false,"sensitive":false}
`},
	} {
		var out bytes.Buffer
		if err := c.flags.write(&out, configs); err != nil || out.String() != c.want {
			t.Errorf("%+v: %v\n%s", c.flags, err, out.String())
		}
	}
}

func TestExplainNeedsNoBroker(t *testing.T) {
	code, stdout, stderr := weir(t, "", "config", "explain", "retention.ms", "min.insync.replicas", "-b", "127.0.0.1:1")
	if code != exitOK || stderr != "" {
		t.Fatalf("exit %d, %s", code, stderr)
	}
	for _, want := range []string{
		"retention.ms (of a topic)\n", "  Type:          long\n", "  Default:       604800000\n", "  Valid values:  [-1,...]\n",
		"  Default from:  log.retention.ms, log.retention.minutes, log.retention.hours\n", "  In Weir:       has its effect\n",
		"\n\nmin.insync.replicas (of a topic)\n", "\n\nmin.insync.replicas (of a broker)\n", "  Changes:       cluster-wide\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing in\n%s", want, stdout)
		}
	}
	code, stdout, _ = weir(t, "", "config", "explain", "num.network.threads", "listeners", "-o", "json")
	var explained configExplanation
	if err := json.Unmarshal([]byte(strings.SplitAfter(stdout, "\n")[0]), &explained); code != exitOK || err != nil {
		t.Fatalf("exit %d, %v: %s", code, err, stdout)
	}
	if *explained.Default != "3" || explained.Of != "broker" || !strings.Contains(explained.Support, "without effect") {
		t.Errorf("%+v", explained)
	}
	for name, want := range map[string]string{ // with a listener's prefix only one is acted on
		"transactional.id.expiration.ms": "without effect", "listener.name.a.num.partitions": "without effect", "listener.name.a.max.connections": "has its effect",
	} {
		if _, text, _ := weir(t, "", "config", "explain", name); !strings.Contains(text, want) {
			t.Errorf("%s: %s", name, text)
		}
	}
	if !strings.Contains(stdout, `"name":"listeners","of":"broker","type":"list","default":null`) {
		t.Errorf("%s", stdout)
	}
}

func TestExplainOfWhatIsNotThere(t *testing.T) {
	for name, want := range map[string]string{
		"message.format.version": "weir: message.format.version was removed in Kafka 4.0; Weir takes it for topics, and drops it\n",
		"fsync.policy":           "weir: there is no setting fsync.policy; did you mean weir.fsync.policy?\n",
		"nosuch":                 "weir: there is no setting nosuch\n",
	} {
		if code, stdout, stderr := weir(t, "", "config", "explain", name); code != exitFailed || stdout != "" || stderr != want {
			t.Errorf("%s: exit %d\n%s\n%s", name, code, stdout, stderr)
		}
	}
}
