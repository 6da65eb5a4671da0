package cli

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// lines returns the lines from first up to last, each with itself as a key, so that they spread over partitions.
func lines(first, last int) (text string, all []string) {
	var b strings.Builder
	for i := first; i <= last; i++ {
		line := fmt.Sprintf("line-%d", i)
		fmt.Fprintf(&b, "%s:%s\n", line, line)
		all = append(all, line)
	}
	return b.String(), all
}

func (c cli) produceLines(t *testing.T, topic string, first, last int) []string {
	t.Helper()
	text, all := lines(first, last)
	c.must(t, text, "produce", topic, "-K", ":")
	return all
}

// hasAll reports whether each of the lines was printed.
func hasAll(printed map[string]int, want []string) bool {
	for _, line := range want {
		if printed[line] == 0 {
			return false
		}
	}
	return true
}

func TestGroupGoesOnWhereItStopped(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, groupKeys...)
	topic, group := broker.Topic(t, 1), weir.groupName(t)
	weir.must(t, "1\n2\n3\n4\n", "produce", topic)
	consume := func(args ...string) string {
		return weir.must(t, "", append([]string{"consume", topic, "--group", group}, args...)...)
	}
	for _, step := range []struct {
		args []string
		want string
	}{
		{[]string{"--offset", "-3", "-n", "2"}, "2\n3\n"}, // nothing is committed yet
		{[]string{"--offset", "start", "-e"}, "4\n"},
		{[]string{"-e"}, ""},
	} {
		if got := consume(step.args...); got != step.want {
			t.Errorf("consume %q: %q, want %q", step.args, got, step.want)
		}
	}
	weir.must(t, "5\n", "produce", topic)
	if got := consume("-e", "-o", "json"); !strings.Contains(got, `"offset":4,`) || !strings.Contains(got, `"value":"5"`) {
		t.Errorf("consume -o json: %s", got)
	}
	weir.must(t, "6\n", "produce", topic)
	weir.must(t, "", "topic", "delete-records", topic, "--before", "end")
	if got := consume("-e"); got != "" {
		t.Errorf("%q came of what was deleted", got)
	}
	weir.fails(t, "", "there is no such topic", "consume", harness.TopicName(t), "--group", group)
	weir.fails(t, "", "INVALID_SESSION_TIMEOUT", "consume", topic, "--group", group, "--session-timeout", "200ms")
}

// The same with the protocol in which the broker assigns partitions (KIP-848).
func TestGroupOfTheConsumerProtocol(t *testing.T) {
	broker, weir := newCLI(t)
	if !broker.Offers(t, kmsg.ConsumerGroupHeartbeat) { // and no other protocol is taken in its place
		weir.fails(t, "", "the broker does not know --group-protocol consumer", "consume", broker.Topic(t, 1), "--group", weir.groupName(t), "--group-protocol", "consumer")
	}
	broker.Require(t, kmsg.ConsumerGroupHeartbeat, kmsg.ConsumerGroupDescribe)
	topic, group := broker.Topic(t, 2), weir.groupName(t)
	want := weir.produceLines(t, topic, 1, 100)
	m := weir.join(t, topic, group, "--group-protocol", "consumer")
	await(t, "all is printed", func() bool { return hasAll(countLines(m.stdout.String()), want) })
	if got := squeeze(weir.must(t, "", "group", "describe", group)); !strings.Contains(got, " Type: consumer State: Stable Assignor: ") || !strings.Contains(got, " Members: 1 ") {
		t.Errorf("describe:\n%s", got)
	}
	weir.fails(t, "", "NON_EMPTY_GROUP: Assignments can only be reset", "group", "reset", group, "--topic", topic, "--to", "start")
	m.terminate(t, syscall.SIGTERM)
	if got := weir.must(t, "", "consume", topic, "--group", group, "--group-protocol", "consumer", "-e"); got != "" {
		t.Errorf("not all that was printed is committed: %q is left", got)
	}
	if got := weir.must(t, "", "group", "list", "--type", "consumer"); !strings.Contains("\n"+got, "\n"+group+"\n") {
		t.Errorf("list --type consumer lacks the group:\n%s", got)
	}
}

// Members that come and go in an orderly way hand over without a loss and without a repetition. The long session is never
// waited for: who leaves says so.
func TestMembersHandOver(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, groupKeys...)
	topic, group := broker.Topic(t, 4), weir.groupName(t)
	session := []string{"--session-timeout", "5m"}
	want := weir.produceLines(t, topic, 1, 100)

	first := weir.join(t, topic, group, session...)
	await(t, "the only member has all partitions and their records", func() bool {
		return first.holds() == 4 && hasAll(countLines(first.stdout.String()), want)
	})
	second := weir.join(t, topic, group, session...)
	await(t, "two members share the partitions", func() bool { return first.holds() == 2 && second.holds() == 2 })
	want = append(want, weir.produceLines(t, topic, 101, 200)...)
	printed := func() map[string]int { return countLines(first.stdout.String(), second.stdout.String()) }
	await(t, "both have printed all", func() bool { return hasAll(printed(), want) })
	if second.stdout.String() == "" {
		t.Error("the second member printed nothing")
	}

	first.terminate(t, syscall.SIGTERM)
	await(t, "the other member has all partitions", func() bool { return second.holds() == 4 })
	want = append(want, weir.produceLines(t, topic, 201, 300)...)
	await(t, "the other member has printed the rest", func() bool { return hasAll(printed(), want) })
	second.terminate(t, syscall.SIGINT)
	for line, n := range printed() {
		if n != 1 {
			t.Errorf("%s was printed %d times", line, n)
		}
	}
	if got := weir.must(t, "", "consume", topic, "--group", group, "-e"); got != "" {
		t.Errorf("not all that was printed is committed: %q is left", got)
	}
}

// When a member is killed the other one takes its partitions over and nothing is lost.
func TestMemberIsKilled(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, groupKeys...)
	topic, group := broker.Topic(t, 4), weir.groupName(t)
	session := []string{"--session-timeout", "6s"} // as short as Kafka's group.min.session.timeout.ms allows
	victim, survivor := weir.join(t, topic, group, session...), weir.join(t, topic, group, session...)
	await(t, "two members share the partitions", func() bool { return victim.holds() == 2 && survivor.holds() == 2 })
	printed := func() map[string]int { return countLines(victim.stdout.String(), survivor.stdout.String()) }
	want := weir.produceLines(t, topic, 1, 500)
	await(t, "the victim has printed something", func() bool { return victim.stdout.String() != "" })
	victim.kill()
	want = append(want, weir.produceLines(t, topic, 501, 1000)...)
	await(t, "every record was printed", func() bool { return hasAll(printed(), want) })
	if !hasAll(countLines(survivor.stdout.String()), want[500:]) {
		t.Error("a record that came after the kill was not printed by the survivor")
	}
	survivor.terminate(t, syscall.SIGTERM)
	if got := weir.must(t, "", "consume", topic, "--group", group, "-e"); got != "" {
		t.Errorf("not all that was printed is committed: %q is left", got)
	}
}

// The end of a pipe is no reason to keep partitions from others until the session ends.
func TestMemberLeavesWhenNobodyReads(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, groupKeys...)
	topic, group := broker.Topic(t, 1), weir.groupName(t)
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	m := &member{exited: make(chan struct{})}
	m.cmd = exec.Command(weir.binary, "consume", topic, "--group", group, "--verbose", "--session-timeout", "5m", "-b", weir.bootstrap)
	m.cmd.Stdout, m.cmd.Stderr = writer, &m.stderr
	m.start(t)
	writer.Close()
	await(t, "the member has its partition", func() bool { return m.holds() == 1 })
	reader.Close()
	weir.must(t, "x\n", "produce", topic)
	await(t, "the member ended", m.ended)
	if code := m.cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(m.stderr.String(), "broken pipe") {
		t.Errorf("exit %d: %s", code, m.stderr.String())
	}
	if got := weir.must(t, "", "consume", topic, "--group", group, "-e"); got != "x\n" {
		t.Errorf("%q is left, want what could not be printed", got)
	}
}

// Who interrupts a member that waits for another one need not wait with it.
func TestMemberLeavesDuringARebalance(t *testing.T) {
	broker, weir := newCLI(t)
	broker.Require(t, groupKeys...)
	topic, group := broker.Topic(t, 2), weir.groupName(t)
	first := weir.join(t, topic, group, "--session-timeout", "5m")
	await(t, "the first member has all partitions", func() bool { return first.holds() == 2 })
	if err := first.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	second := weir.join(t, topic, group, "--session-timeout", "5m")
	await(t, "the second member waits for the first one", func() bool {
		got := squeeze(weir.must(t, "", "group", "describe", group))
		return strings.Contains(got, " State: PreparingRebalance ") && strings.Contains(got, " Members: 2 ")
	})
	second.terminate(t, syscall.SIGINT)
	await(t, "the first member is alone", func() bool {
		return strings.Contains(squeeze(weir.must(t, "", "group", "describe", group)), " Members: 1 ")
	})
}

// A member lives through a crash of the broker, and the group goes on where its last commit was.
func TestMemberOutlivesTheBroker(t *testing.T) {
	broker := harness.Start(t)
	broker.Require(t, groupKeys...)
	binary, err := harness.Binary()
	if err != nil {
		t.Fatal(err)
	}
	weir := cli{binary, broker.Bootstrap}
	topic, group := broker.Topic(t, 2), weir.groupName(t)
	want := weir.produceLines(t, topic, 1, 100)
	m := weir.join(t, topic, group, "--session-timeout", "6s")
	printed := func() map[string]int { return countLines(m.stdout.String()) }
	await(t, "the member has printed all", func() bool { return hasAll(printed(), want) })
	broker.Kill()
	broker.Restart(t)
	want = append(want, weir.produceLines(t, topic, 101, 200)...)
	await(t, "the member has printed what came after the crash", func() bool { return hasAll(printed(), want) })
	m.terminate(t, syscall.SIGTERM)
	if got := weir.must(t, "", "consume", topic, "--group", group, "-e"); got != "" {
		t.Errorf("not all that was printed is committed: %q is left", got)
	}
}
