package wire

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// Scripts wait until the port takes a connection, and then work at once. From that moment on everything works, without
// an error that goes away by itself; and it does so at every start.
func TestEverythingWorksAsSoonAsThePortAnswers(t *testing.T) {
	needOwn(t)
	listen, err := harness.FixedPort()
	if err != nil {
		t.Fatal(err)
	}
	s := prepare(t, filepath.Join(t.TempDir(), "data"), ownGroups...)
	s.options.Listen = listen
	for i := range 50 {
		ready := make(chan error)
		go func() { ready <- useAtOnce(t, listen, harness.TopicName(t)) }()
		s.restart(t)
		if err := <-ready; err != nil {
			t.Fatalf("start %d: %v", i, err)
		}
		if i%2 == 0 {
			s.Kill()
		} else {
			s.stop(t)
		}
	}
}

// useAtOnce dials until it is let in and then does what a client does first.
func useAtOnce(t *testing.T, address, topic string) error {
	var c *conn
	for deadline := time.Now().Add(replyWithin); ; {
		var err error
		if c, err = connect(address); err == nil {
			break
		} else if time.Now().After(deadline) {
			return err
		}
	}
	defer c.Close()
	created, err := at(7, createRequest(topic, 1)).RequestWith(t.Context(), c)
	if err != nil {
		return err
	}
	produced, err := produceRequest(topic, 0, textBatch("a").bytes()).RequestWith(t.Context(), c)
	if err != nil {
		return err
	}
	id, err := at(4, kmsg.NewPtrInitProducerIDRequest()).RequestWith(t.Context(), c)
	if err != nil {
		return err
	}
	metadata, err := at(9, kmsg.NewPtrMetadataRequest()).RequestWith(t.Context(), c)
	if err != nil {
		return err
	}
	wantCode(t, "CreateTopics", created.Topics[0].ErrorCode, nil)
	wantCode(t, "Produce", produced.Topics[0].Partitions[0].ErrorCode, nil)
	coordinator, err := at(3, findCoordinator(0, topic)).RequestWith(t.Context(), c)
	if err != nil {
		return err
	}
	join := at(3, kmsg.NewPtrJoinGroupRequest())
	join.Group, join.ProtocolType, join.SessionTimeoutMillis = topic, "consumer", sessionMillis
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	joined, err := join.RequestWith(t.Context(), c)
	if err != nil {
		return err
	}
	wantCode(t, "InitProducerId", id.ErrorCode, nil)
	wantCode(t, "FindCoordinator", coordinator.ErrorCode, nil)
	wantCode(t, "JoinGroup", joined.ErrorCode, nil)
	if metadata.ControllerID < 0 || len(metadata.Brokers) != 1 {
		t.Errorf("the controller is %d, there are %d brokers", metadata.ControllerID, len(metadata.Brokers))
	}
	return nil
}

// A start that cannot succeed says in one line what is wrong and where, and touches nothing. Exit code 2 is a mistake in
// what the operator wrote: trying again does not help.
func TestBadSettingsAreNamed(t *testing.T) {
	needOwn(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(file, []byte("# a comment\nnum.partitions=3\n\nlog.retention.ms=soon\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(dir, "data")
	for name, r := range map[string]struct {
		environment, args []string
		line              string
	}{
		"in the file":            {nil, []string{"--config", file}, file + ":4: log.retention.ms=soon: Not a number of type LONG (allowed: LONG)"},
		"in Kafka's environment": {[]string{"KAFKA_NUM_PARTITIONS=many"}, nil, "KAFKA_NUM_PARTITIONS: num.partitions=many: Not a number of type INT (allowed: INT [1,...])"},
		"in Weir's environment": {[]string{"WEIR_FSYNC_POLICY=sometimes"}, nil,
			"WEIR_FSYNC_POLICY: weir.fsync.policy=sometimes: String must be one of: background, ack, never (allowed: STRING [background, ack, never])"},
		"the cluster's id": {[]string{"CLUSTER_ID=a/b"}, nil, "CLUSTER_ID: cluster id=a/b: not a cluster id (allowed: 1 to 128 of A-Z a-z 0-9 . _ -)"},
		"in an override":   {nil, []string{"--override", "num.partitions=0"}, "--override: num.partitions=0: Value must be at least 1 (allowed: INT [1,...])"},
		"without a value":  {nil, []string{"--override", "num.partitions"}, `--override: "num.partitions" names no setting with its value (allowed: name=value)`},
		"a wildcard for clients": {nil, []string{"--override", "advertised.listeners=PLAINTEXT://0.0.0.0:9092"},
			"--override: advertised.listeners=PLAINTEXT://0.0.0.0:9092: advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."},
		"an unmatched listener": {nil, []string{"--override", "advertised.listeners=OUTSIDE://a.test:1"},
			"--override: advertised.listeners=OUTSIDE://a.test:1: there is no listener OUTSIDE in listeners (allowed: PLAINTEXT)"},
		"two that exclude each other": {nil, []string{"--override", "replica.lag.time.max.ms=100"},
			"--override: replica.lag.time.max.ms=100: replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms to prevent frequent changes in ISR"},
		"no address":               {nil, []string{"--listen", "nonsense"}, "--listen: listeners=PLAINTEXT://nonsense: Unable to parse PLAINTEXT://nonsense to a broker endpoint (allowed: NAME://host:port, ...)"},
		"a file that is not there": {nil, []string{"--config", filepath.Join(dir, "nosuch")}, "open " + filepath.Join(dir, "nosuch") + ": no such file or directory"},
		"a flag that is not there": {nil, []string{"--lisen", "x"}, "unknown flag: --lisen\nRun 'weir serve --help' for usage."},
	} {
		t.Run(name, func(t *testing.T) {
			got := serveFails(t, r.environment, syscall.SysProcAttr{}, append([]string{"--data-dir", data, "--listen", "127.0.0.1:0"}, r.args...)...)
			if want := "weir: " + r.line + "\n"; got.code != 2 || got.output != want {
				t.Errorf("exit %d, wanted 2 and %q:\n%s", got.code, want, got.output)
			}
			if _, err := os.Stat(data); err == nil {
				t.Error("the data directory was made")
			}
		})
	}
}

// A name that nobody knows is a typing error, or another version's: the broker starts, and says which.
func TestUnknownSettingsAreNamedAndIgnored(t *testing.T) {
	s := start(t, "--override", "num.partition=3")
	s.awaitLog(t, `"WARN"`, "num.partition", "--override")
}

// The commonest mistake of a first try is a second broker. It must say which two flags it takes, and must not touch the
// files of a broker before it knows that it may.
func TestAPortInUseIsNamed(t *testing.T) {
	s := start(t)
	data := filepath.Join(t.TempDir(), "data")
	got := serveFails(t, nil, syscall.SysProcAttr{}, "--listen", s.Address, "--data-dir", data)
	if got.code != 2 || !containsAll(got.output, []string{s.Address, "in use", "--listen", "--data-dir"}) {
		t.Errorf("exit %d:\n%s", got.code, got.output)
	}
	if _, err := os.Stat(data); err == nil {
		t.Error("the data directory was made")
	}
	dial(t, s.Address).wantAlive(t)
}

// Two brokers that write into one directory destroy it. The second is refused by name, and the first does not notice.
func TestADirectoryInUseIsNamed(t *testing.T) {
	s := start(t)
	c := dial(t, s.Address)
	topic := newTopic(t, s.Address, 1).name
	mustProduce(t, c, topic, 0, textBatch("a"))
	got := serveFails(t, nil, syscall.SysProcAttr{}, "--listen", "127.0.0.1:0", "--data-dir", s.options.DataDir)
	if got.code != 1 || !containsAll(got.output, []string{s.options.DataDir, "in use", ".lock"}) {
		t.Errorf("exit %d:\n%s", got.code, got.output)
	}
	if offset := mustProduce(t, c, topic, 0, textBatch("b")); offset != 1 {
		t.Errorf("the next record is at offset %d", offset)
	}
	s.Kill() // whose lock goes with it
	s.restart(t)
	if end := endOffset(t, dial(t, s.Address), topic); end != 2 {
		t.Errorf("the log ends at %d", end)
	}
}

// A directory that belongs to another node or cluster, as after mixing up volumes, is left as it is.
func TestADirectoryOfAnotherNodeOrClusterIsRefused(t *testing.T) {
	s := start(t)
	topic := newTopic(t, s.Address, 1).name
	mustProduce(t, dial(t, s.Address), topic, 0, textBatch("a"))
	cluster := identify(t, s.Address).cluster
	s.stop(t)
	properties := filepath.Join(s.options.DataDir, "meta.properties")
	before, err := os.ReadFile(properties)
	if err != nil {
		t.Fatal(err)
	}
	const other = "MkU3OEVBNTcwNTJENDM2Qk"
	for _, r := range []struct {
		environment, args, words []string
	}{
		{nil, []string{"--override", "node.id=7"}, []string{"node 1", "7"}},
		{[]string{"CLUSTER_ID=" + other}, nil, []string{cluster, other}},
	} {
		got := serveFails(t, r.environment, syscall.SysProcAttr{}, append([]string{"--listen", "127.0.0.1:0", "--data-dir", s.options.DataDir}, r.args...)...)
		if got.code != 2 || !containsAll(got.output, append(r.words, s.options.DataDir, "meta.properties")) {
			t.Errorf("exit %d, wanted the words %q:\n%s", got.code, r.words, got.output)
		}
	}
	if after, err := os.ReadFile(properties); err != nil || string(after) != string(before) {
		t.Errorf("meta.properties was %q and is %q, %v", before, after, err)
	}
	s.restart(t)
	if end := endOffset(t, dial(t, s.Address), topic); end != 1 {
		t.Errorf("the log ends at %d", end)
	}
}

// What the system does not allow is told with the path, and by the end of the process: a broker that stays without its
// data would look like one that works.
func TestADirectoryWithoutPermissionIsNamed(t *testing.T) {
	needOwn(t)
	if os.Geteuid() != 0 {
		t.Skip("not run: needs root, to start the broker as another user")
	}
	const nobody = 65534
	dir, err := os.MkdirTemp("", "weir-permission-") // not t.TempDir, which others may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	copyOf := filepath.Join(dir, "weir")
	copyFile(t, weir(t), copyOf)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	closed := filepath.Join(dir, "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, r := range map[string]struct{ path, word string }{
		"a directory that is closed":         {closed, "permission denied"},
		"one within it":                      {filepath.Join(closed, "data"), "permission denied"},
		"one where nothing may be made":      {filepath.Join(dir, "new"), "permission denied"},
		"a file where a directory should be": {file, "not a directory"},
		"a directory within a file":          {filepath.Join(file, "data"), "not a directory"},
	} {
		t.Run(name, func(t *testing.T) {
			attr := syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			got := runFails(t, copyOf, nil, attr, "serve", "--listen", "127.0.0.1:0", "--data-dir", r.path)
			if got.code != 1 || !containsAll(got.output, []string{r.path, r.word}) {
				t.Errorf("exit %d, wanted %q:\n%s", got.code, r.word, got.output)
			}
		})
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(out, in); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
