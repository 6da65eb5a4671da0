// Package kafkajs runs the broker under kafkajs, the client of most JavaScript programs; suite.js holds the cases. kafkajs
// reads as a member of a group only.
package kafkajs

import (
	"fmt"
	"strings"
	"testing"

	"weir/compat-tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

func TestSuite(t *testing.T) {
	node := harness.Node(t, "kafkajs")
	broker := harness.Shared(t)
	broker.RequireGroups(t)
	harness.RunCases(t, node, "suite.js", broker.Bootstrap)
}

func TestCrossRead(t *testing.T) {
	node := harness.Node(t, "kafkajs")
	broker := harness.Shared(t)
	broker.RequireGroups(t)
	harness.CrossRead(t, broker, func(topic, codec string, values []string) {
		harness.MustRun(t, strings.Join(values, "\n"), node, "suite.js", broker.Bootstrap, "produce", topic, codec)
	}, func(topic string, records int) []string {
		return strings.Fields(harness.MustRun(t, "", node, "suite.js", broker.Bootstrap, "consume", topic, fmt.Sprint(records)))
	})
}

func TestGroupTakesOver(t *testing.T) {
	node := harness.Node(t, "kafkajs")
	broker := harness.Shared(t)
	harness.TakeOver(t, broker, func(topic, group string) *harness.Member {
		return harness.StartMember(t, node, "suite.js", broker.Bootstrap, "member", topic, group)
	})
}

func TestGroupResumes(t *testing.T) {
	node := harness.Node(t, "kafkajs")
	harness.Resume(t, func(broker *harness.Broker, topic, group string, records int) []string {
		return strings.Fields(harness.MustRun(t, "", node, "suite.js", broker.Bootstrap, "read", topic, group, fmt.Sprint(records)))
	})
}
