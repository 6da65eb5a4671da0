package kcat

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"weir/compat-tests/harness"
)

func TestCreateTopicByProducing(t *testing.T) {
	broker, kcat := newKcat(t)
	topic := harness.TopicName(t)
	kcat.must(t, "hello\n", "-P", "-t", topic)
	if got := kcat.must(t, "", "-C", "-t", topic, "-o", "beginning", "-e", "-q"); got != "hello\n" {
		t.Errorf("%q came back", got)
	}
	if _, err := broker.Admin(t).DeleteTopic(harness.Context(t), topic); err != nil {
		t.Error(err)
	}
}

func TestCrossRead(t *testing.T) {
	broker, kcat := newKcat(t)
	harness.CrossRead(t, broker, func(topic, codec string, values []string) {
		kcat.must(t, strings.Join(values, "\n")+"\n", "-P", "-t", topic, "-z", codec)
	}, func(topic string, _ int) []string {
		return strings.Fields(kcat.must(t, "", "-C", "-t", topic, "-o", "beginning", "-e", "-q"))
	})
}

// The largest record that fits comes back; the next byte is refused by the broker. A batch of one record has 72 bytes
// around a value of this size.
func TestLimit(t *testing.T) {
	const limit, around = 10_000, 72
	broker, kcat := newKcat(t)
	topic := broker.Topic(t, 1, "max.message.bytes", fmt.Sprint(limit))
	produce := func(size int) harness.Result {
		return harness.Run(t, strings.Repeat("x", size)+"\n", kcat.program, "-b", kcat.bootstrap, "-P", "-t", topic, "-X", "compression.codec=none")
	}
	if r := produce(limit - around); r.Code != 0 {
		t.Errorf("a batch at the limit: exit %d, %s", r.Code, r.Stderr)
	}
	if r := produce(limit - around + 1); r.Code == 0 || !strings.Contains(r.Stderr, "Message size too large") {
		t.Errorf("a batch above the limit: exit %d, %s", r.Code, r.Stderr)
	}
	if got := kcat.must(t, "", "-C", "-t", topic, "-o", "beginning", "-e", "-q"); got != strings.Repeat("x", limit-around)+"\n" {
		t.Errorf("%d bytes came back, want %d", len(got), limit-around)
	}
}

func groupArgs(bootstrap, topic, group string, args ...string) []string {
	return append(append([]string{"-b", bootstrap, "-G", group, "-q", "-u", "-f", `%p %o %s\n`,
		"-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000", "-X", "heartbeat.interval.ms=300"}, args...), topic)
}

func TestGroupTakesOver(t *testing.T) {
	t.Parallel()
	broker, kcat := newKcat(t)
	harness.TakeOver(t, broker, func(topic, group string) *harness.Member {
		return harness.StartMember(t, kcat.program, groupArgs(kcat.bootstrap, topic, group)...)
	})
}

// Three members come one after the other and one is killed: each of that is one rebalance for the others, or two, and no
// error. A broker that forgets members while others join, or counts its generations up by itself, never settles.
func TestGroupSettlesInFewRebalances(t *testing.T) {
	t.Parallel()
	broker, kcat := newKcat(t)
	broker.RequireGroups(t)
	topic := broker.Topic(t, 6)
	group := "group-" + topic
	kcat.must(t, "a\n", "-P", "-t", topic)                                                                           // so the topic is there
	args := slices.DeleteFunc(groupArgs(kcat.bootstrap, topic, group), func(arg string) bool { return arg == "-q" }) // it tells of rebalances
	shares := func(want ...int) {
		t.Helper()
		broker.AwaitGroup(t, group, fmt.Sprint("shared as ", want), func(g kadm.DescribedGroup) bool {
			var got []int
			for _, m := range g.Members {
				n := 0
				if assigned, ok := m.Assigned.AsConsumer(); ok {
					for _, topic := range assigned.Topics {
						n += len(topic.Partitions)
					}
				}
				got = append(got, n)
			}
			return g.State == "Stable" && slices.Equal(got, want)
		})
	}
	first := harness.StartMember(t, kcat.program, args...)
	shares(6)
	second := harness.StartMember(t, kcat.program, args...)
	shares(3, 3)
	third := harness.StartMember(t, kcat.program, args...)
	shares(2, 2, 2)
	third.Kill()
	shares(3, 3)
	for rebalances, member := range map[int]*harness.Member{4: first, 3: second} {
		assigned := 0
		for _, line := range member.Said() {
			if strings.Contains(line, "assigned:") && strings.Contains(line, "rebalanced") {
				assigned++
			}
			if strings.Contains(line, "ERROR") {
				t.Error(line)
			}
		}
		if assigned < rebalances || assigned > rebalances+1 {
			t.Errorf("a member was assigned partitions %d times, want %d:\n%s", assigned, rebalances, strings.Join(member.Said(), "\n"))
		}
	}
}

func TestGroupResumes(t *testing.T) {
	_, kcat := newKcat(t)
	harness.Resume(t, func(broker *harness.Broker, topic, group string, records int) (values []string) {
		out := harness.MustRun(t, "", kcat.program, groupArgs(broker.Bootstrap, topic, group, "-c", fmt.Sprint(records))...)
		for line := range strings.Lines(out) {
			values = append(values, strings.Fields(line)[2])
		}
		return values
	})
}

// kcat has no verbs for groups; what it leaves is a group like any other.
func TestGroupIsLeftEmpty(t *testing.T) {
	broker, kcat := newKcat(t)
	broker.RequireGroups(t)
	topic := broker.Topic(t, 1)
	group := "group-" + topic
	kcat.must(t, "a\nb\n", "-P", "-t", topic)
	harness.MustRun(t, "", kcat.program, groupArgs(kcat.bootstrap, topic, group, "-e")...)
	broker.AwaitGroup(t, group, "empty", func(g kadm.DescribedGroup) bool { return g.State == "Empty" && g.ProtocolType == "consumer" })
	if _, err := broker.Admin(t).DeleteGroup(harness.Context(t), group); err != nil {
		t.Error(err)
	}
}
