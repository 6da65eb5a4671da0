package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// adminKeys are the requests of `weir group`.
var adminKeys = append([]kmsg.Key{kmsg.ListGroups, kmsg.DescribeGroups, kmsg.DeleteGroups, kmsg.OffsetDelete}, groupKeys...)

// readGroup makes a group that has read a topic of two partitions with three and two records.
func (c cli) readGroup(t *testing.T, broker *harness.Broker) (topic, group string) {
	t.Helper()
	topic, group = broker.Topic(t, 2), c.groupName(t)
	c.must(t, "a\nb\nc\n", "produce", topic, "-p", "0")
	c.must(t, "d\ne\n", "produce", topic, "-p", "1")
	if got := c.must(t, "", "consume", topic, "-g", group, "-e"); len(got) != len("a\nb\nc\nd\ne\n") {
		t.Fatalf("consume: %q", got)
	}
	return topic, group
}

// committed asks for what a group has committed, as partition@offset.
func (c cli) committed(t *testing.T, group string) string {
	t.Helper()
	var described struct {
		Partitions []struct {
			Partition       int
			CommittedOffset *int64
		}
	}
	if err := json.Unmarshal([]byte(c.must(t, "", "group", "describe", group, "-o", "json")), &described); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, p := range described.Partitions {
		all = append(all, fmt.Sprintf("%d@%d", p.Partition, *p.CommittedOffset))
	}
	return strings.Join(all, " ")
}

// squeeze makes one blank of many: the widths of columns depend on names.
func squeeze(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.Join(strings.Fields(line), " ") + "\n")
	}
	return b.String()
}

func TestGroupListAndDescribe(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, adminKeys...)
	topic, group := weir.readGroup(t, broker)
	weir.must(t, "f\n", "produce", topic, "-p", "1")
	for _, args := range [][]string{{}, {"--state", "empty"}, {"--type", "classic", "--state", "Stable,Empty"}} {
		if got := weir.must(t, "", append([]string{"group", "list"}, args...)...); !strings.Contains("\n"+got, "\n"+group+"\n") {
			t.Errorf("list %q lacks the group:\n%s", args, got)
		}
	}
	if got := weir.must(t, "", "group", "list", "--state", "Stable"); strings.Contains(got, group) {
		t.Errorf("list --state Stable has a group without members:\n%s", got)
	}
	if got := squeeze(weir.must(t, "", "group", "list", "-l")); !strings.Contains(got, "\n"+group+" classic consumer Empty ") {
		t.Errorf("list -l:\n%s", got)
	}
	got := squeeze(weir.must(t, "", "group", "describe", group))
	for _, want := range []string{
		"Group: " + group + " Type: classic State: Empty Assignor: - Coordinator: ", " Members: 0 Lag: 1\n",
		"GROUP TOPIC PARTITION CURRENT-OFFSET LOG-END-OFFSET LAG CONSUMER-ID HOST CLIENT-ID\n",
		fmt.Sprintf("%s %s 0 3 3 0 - - -\n", group, topic), fmt.Sprintf("%s %s 1 2 3 1 - - -\n", group, topic),
	} {
		if !strings.Contains(got, want) {
			t.Errorf("describe lacks %q:\n%s", want, got)
		}
	}
	if got := weir.must(t, "", "group", "describe", "--all"); !strings.Contains(got, "Group: "+group+"\t") {
		t.Errorf("describe --all lacks the group:\n%s", got)
	}
	unknown := harness.TopicName(t)
	weir.fails(t, "", "GROUP_ID_NOT_FOUND: Group "+unknown+" not found.", "group", "describe", group, unknown)
}

func TestGroupReset(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, adminKeys...)
	topic, group := weir.readGroup(t, broker)
	plan := weir.must(t, "", "group", "reset", group, "--all-topics", "--to", "start", "--dry-run")
	if want := fmt.Sprintf("GROUP TOPIC PARTITION NEW-OFFSET OLD-OFFSET\n%[1]s %[2]s 0 0 3\n%[1]s %[2]s 1 0 2\n", group, topic); squeeze(plan) != want {
		t.Errorf("plan:\n%swant:\n%s", plan, want)
	}
	file := fmt.Sprintf("%[1]s,0,2\n%[1]s,1,0\n", topic)
	for _, step := range []struct {
		stdin string
		args  []string
		want  string
	}{
		{"", []string{"--all-topics", "--to", "start", "--dry-run"}, "0@3 1@2"},
		{"", []string{"--topic", topic + ":0", "--to", "start"}, "0@0 1@2"},
		{"", []string{"--topic", topic, "--to", "latest"}, "0@3 1@2"},
		{"", []string{"--all-topics", "--shift-by", "-2"}, "0@1 1@0"},
		{"", []string{"--all-topics", "--shift-by", "2"}, "0@3 1@2"},
		{"", []string{"--all-topics", "--to", "1"}, "0@1 1@1"},
		{"", []string{"--all-topics", "--to", "-1"}, "0@2 1@1"},
		{"", []string{"--all-topics", "--to", "@2001-01-01"}, "0@0 1@0"},
		{"", []string{"--all-topics", "--to", "3"}, "0@3 1@2"}, // partition 1 holds no third record
		{"", []string{"--all-topics", "--to", "@-1h"}, "0@0 1@0"},
		{file, []string{"--from-file", "-", "--topic", topic + ":0"}, "0@2 1@0"},
	} {
		weir.must(t, step.stdin, append([]string{"group", "reset", group}, step.args...)...)
		if got := weir.committed(t, group); got != step.want {
			t.Fatalf("after reset %q: %s, want %s", step.args, got, step.want)
		}
	}
	other := weir.groupName(t)
	weir.must(t, "", "group", "reset", other, "--to-group", group)
	if got := weir.committed(t, other); got != "0@2 1@0" {
		t.Errorf("a new group has %s", got)
	}
	if got := weir.must(t, "", "consume", topic, "-g", other, "-e"); got != "c\nd\ne\n" && got != "d\ne\nc\n" {
		t.Errorf("a group that was reset reads %q", got)
	}
	weir.fails(t, "", "has committed nothing for it", "group", "reset", harness.TopicName(t), "--topic", topic, "--shift-by", "1")
	weir.fails(t, "", "there is no such topic", "group", "reset", group, "--topic", harness.TopicName(t), "--to", "start")
	weir.fails(t, "", "has no partition 7", "group", "reset", group, "--topic", topic+":7", "--to", "start")
}

func TestGroupDelete(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, adminKeys...)
	topic, group := weir.readGroup(t, broker)
	if got, want := weir.must(t, "", "group", "delete-offsets", group, "--topic", topic+":0"), fmt.Sprintf("Deleted the offset of %s[0] in group %s.\n", topic, group); got != want {
		t.Errorf("delete-offsets: %q, want %q", got, want)
	}
	if got := weir.committed(t, group); got != "1@2" {
		t.Errorf("after delete-offsets: %s", got)
	}
	if got, want := weir.must(t, "", "group", "delete", group), "Deleted group "+group+".\n"; got != want {
		t.Errorf("delete: %q, want %q", got, want)
	}
	weir.fails(t, "", "GROUP_ID_NOT_FOUND", "group", "delete", group)
	weir.fails(t, "", "GROUP_ID_NOT_FOUND", "group", "describe", group)
	weir.fails(t, "", "has committed nothing for topic "+topic, "group", "delete-offsets", group, "--topic", topic)
}

// A group that has members is described with them, and is neither reset nor deleted.
func TestGroupWithMembers(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, adminKeys...)
	topic, group := weir.readGroup(t, broker)
	m := weir.join(t, topic, group, "--session-timeout", "5m")
	await(t, "the member has its partitions", func() bool { return m.holds() == 2 })

	got := squeeze(weir.must(t, "", "group", "describe", group))
	for _, want := range []string{" State: Stable Assignor: cooperative-sticky ", " Members: 1 Lag: 0\n", topic + " 1 2 2 0 weir-", " weir\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("describe lacks %q:\n%s", want, got)
		}
	}
	if got := squeeze(weir.must(t, "", "group", "describe", group, "--members")); !strings.Contains(got, " weir 2 "+topic+":0,1\n") {
		t.Errorf("describe --members:\n%s", got)
	}
	weir.fails(t, "", fmt.Sprintf("Assignments can only be reset if the group '%s' is inactive, but the current state is Stable.", group),
		"group", "reset", group, "--topic", topic, "--to", "start")
	weir.fails(t, "", "NON_EMPTY_GROUP: The group is not empty.", "group", "delete", group)
	weir.fails(t, "", "GROUP_SUBSCRIBED_TO_TOPIC", "group", "delete-offsets", group, "--topic", topic)

	m.terminate(t, syscall.SIGTERM)
	if got := squeeze(weir.must(t, "", "group", "describe", group)); !strings.Contains(got, " State: Empty ") || !strings.Contains(got, " Members: 0 ") {
		t.Errorf("the member has not left:\n%s", got)
	}
}
