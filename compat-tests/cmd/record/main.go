// Command record starts an Apache Kafka from Maven on free ports, sends it the scripts of package golden, and keeps what it
// answers as the files that the golden test compares the broker with. It needs Java and Maven, and is run from compat-tests
// after a script has changed:
//
//	go run ./cmd/record [-bootstrap HOST:PORT] [SCRIPT...]
//
// -bootstrap names a Kafka that runs already: version 4.4, one node with id 1, group.initial.rebalance.delay.ms=0. Which
// release is started: pom.xml beside this file. Read the difference before you commit it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"weir/compat-tests/golden"
	"weir/compat-tests/harness"
)

func main() {
	bootstrap := flag.String("bootstrap", "", "host:port of a Kafka that runs already")
	flag.Parse()
	if err := record(*bootstrap, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func record(address string, names []string) (err error) {
	if address == "" {
		var stop func() error
		if address, stop, err = startKafka(); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	if err := awaitAnswer(address); err != nil {
		return err
	}
	for i, script := range golden.Scripts() {
		if len(names) > 0 && !slices.Contains(names, script.Name) {
			continue
		}
		exchanges, err := script.Run(address, fmt.Sprintf("%06x%02x", time.Now().UnixMilli()&0xffffff, i))
		if err != nil {
			return fmt.Errorf("%s, after %d exchanges: %w", script.Name, len(exchanges), err)
		}
		var text strings.Builder
		for _, e := range exchanges {
			text.WriteString(e.Text())
		}
		if err := os.WriteFile(filepath.Join("golden", script.File()), []byte(text.String()), 0o644); err != nil {
			return err
		}
		fmt.Printf("%s: %d exchanges\n", script.Name, len(exchanges))
	}
	return nil
}

// awaitAnswer waits until a Kafka that is starting answers.
func awaitAnswer(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		_, err := golden.Offers(ctx, address)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// settings of a Kafka of one node; the listeners' ports and the data's folder are to be filled in.
const settings = `process.roles=broker,controller
node.id=1
listeners=PLAINTEXT://127.0.0.1:%[1]d,CONTROLLER://127.0.0.1:%[2]d
advertised.listeners=PLAINTEXT://127.0.0.1:%[1]d
controller.listener.names=CONTROLLER
controller.quorum.bootstrap.servers=127.0.0.1:%[2]d
log.dirs=%[3]s
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
`

// startKafka starts a Kafka on an empty folder. stop ends it and removes the folder.
func startKafka() (address string, stop func() error, err error) {
	classpath, err := harness.Classpath(filepath.Join("cmd", "record", "pom.xml"), "record")
	if err != nil {
		return "", nil, err
	}
	dir, err := os.MkdirTemp("", "weir-record-")
	if err != nil {
		return "", nil, err
	}
	broker, err := freePort()
	if err != nil {
		return "", nil, err
	}
	controller, err := freePort()
	if err != nil {
		return "", nil, err
	}
	file := filepath.Join(dir, "server.properties")
	if err := os.WriteFile(file, fmt.Appendf(nil, settings, broker, controller, filepath.Join(dir, "data")), 0o644); err != nil {
		return "", nil, err
	}
	java := func(class string, args ...string) *exec.Cmd {
		return exec.Command("java", append([]string{"-Xmx512m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", classpath, class}, args...)...)
	}
	if out, err := java("kafka.tools.StorageTool", "format", "--standalone", "-t", "V2VpciByZWNvcmRzIHRoZQ", "-c", file).CombinedOutput(); err != nil {
		return "", nil, fmt.Errorf("formatting the folder: %w\n%s", err, out)
	}
	kafka := java("kafka.Kafka", file)
	if kafka.Stderr, err = os.Create(filepath.Join(dir, "log")); err != nil {
		return "", nil, err
	}
	kafka.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt at the keyboard is ours to pass on
	if err := kafka.Start(); err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("127.0.0.1:%d", broker), func() error {
		if err := kafka.Process.Signal(syscall.SIGTERM); err != nil {
			return err
		}
		_ = kafka.Wait() // Java ends with 143 after SIGTERM
		return os.RemoveAll(dir)
	}, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
