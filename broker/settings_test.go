package broker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/broker/config"
	"weir/internal/vfs"
)

// The settings of Kafka 4's config/server.properties, which is for a node that is broker and controller.
const kafkasOwnSettings = `
process.roles=broker,controller
node.id=1
controller.quorum.bootstrap.servers=localhost:9093
listeners=PLAINTEXT://:9092,CONTROLLER://:9093
inter.broker.listener.name=PLAINTEXT
advertised.listeners=PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
socket.receive.buffer.bytes=102400
socket.request.max.bytes=104857600
log.dirs=/tmp/kraft-combined-logs
num.partitions=1
num.recovery.threads.per.data.dir=2
offsets.topic.replication.factor=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
log.retention.check.interval.ms=300000
`

// Who comes from Kafka starts Weir with the file that is there. Only the ports differ here, since tests take any.
func TestKafkasOwnSettingsStartABroker(t *testing.T) {
	file := filepath.Join(t.TempDir(), "server.properties")
	if err := os.WriteFile(file, []byte(strings.NewReplacer("://:9092", "://:0", "://:9093", "://:0").Replace(kafkasOwnSettings)), 0o644); err != nil {
		t.Fatal(err)
	}
	settings, warnings, err := config.Load(config.Inputs{File: file, Host: config.Host{Name: "box.test"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range warnings.Lines() {
		if strings.Contains(line, "unknown") {
			t.Error(line)
		}
	}
	b := start(t, vfs.NewMem(), settings)
	if got := b.Advertised(); len(got) != 1 || got[0] != "PLAINTEXT://localhost:9092" {
		t.Errorf("clients are told %v", got)
	}
	c := b.dial()
	c.createTopic("t")
	if row := c.produce("t", "value"); row.ErrorCode != 0 {
		t.Errorf("produce: %+v", row)
	}
}
