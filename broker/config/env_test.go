package config

import (
	"log/slog"
	"slices"
	"testing"
)

func TestEnvNames(t *testing.T) {
	for variable, want := range map[string]string{
		"KAFKA_LOG_RETENTION_MS":                       "log.retention.ms",
		"KAFKA_A___B__C_D":                             "a-b_c.d",
		"KAFKA_LISTENER_NAME_EXTERNAL_SSL_CLIENT_AUTH": "listener.name.external.ssl.client.auth",
		"KAFKA_KAFKA_METRICS_REPORTERS":                "kafka.metrics.reporters",
		"KAFKA_CFG_NODE_ID":                            "node.id",
		"WEIR_FSYNC_POLICY":                            "weir.fsync.policy",
		"KAFKA_ZOOKEEPER_CONNECT":                      "zookeeper.connect",
		"KAFKA_":                                       "",
		"WEIR_":                                        "",
		"WEIR_BOOT_ID":                                 "",
		"KAFKA_VERSION":                                "",
		"KAFKA_HEAP_OPTS":                              "",
		"KAFKA_LOG4J_ROOT_LOGLEVEL":                    "",
		"KAFKA_LOG4J_LOGGERS":                          "",
		"KAFKA_JMX_HOSTNAME":                           "",
		"HOME":                                         "",
		"NOT_KAFKA_NODE_ID":                            "",
		"kafka_node_id":                                "",
	} {
		if got := envName(variable); got != want {
			t.Errorf("%s means %q, want %q", variable, got, want)
		}
	}
}

func TestEnvOrder(t *testing.T) {
	env := []string{"KAFKA_NODE_ID=2", "KAFKA_CFG_NODE_ID=1", "WEIR_PEER_PORT=5", "HOME=/x", "KAFKA_NUM_PARTITIONS=a=b", "junk"}
	var got []string
	for _, s := range envSettings(env) {
		got = append(got, s.Name+"="+s.Value+" by "+s.Origin.String())
	}
	equal(t, got, []string{
		"node.id=1 by KAFKA_CFG_NODE_ID", "node.id=2 by KAFKA_NODE_ID", "num.partitions=a=b by KAFKA_NUM_PARTITIONS", "weir.peer.port=5 by WEIR_PEER_PORT"})
	slices.Reverse(env)
	again := envSettings(env)
	if again[0].Value != "1" || again[1].Value != "2" {
		t.Errorf("the order of the environment counts: %+v", again)
	}
}

func TestLogLevel(t *testing.T) {
	for name, want := range map[string]slog.Level{
		"": slog.LevelInfo, "INFO": slog.LevelInfo, "warn": slog.LevelWarn, " DEBUG ": slog.LevelDebug, "TRACE": slog.LevelDebug,
		"ERROR": slog.LevelError, "OFF": slog.LevelError + 4, "nonsense": slog.LevelInfo,
	} {
		s, _, err := Load(Inputs{Env: []string{"KAFKA_LOG4J_ROOT_LOGLEVEL=" + name}, DataDir: "/data"})
		if err != nil || s.LogLevel != want {
			t.Errorf("%q gives %v, %v", name, s.LogLevel, err)
		}
	}
}

func FuzzEnvName(f *testing.F) {
	f.Add("KAFKA_A__B___C")
	f.Add("KAFKA_CFG_")
	f.Add("WEIR_BOOT_ID")
	f.Fuzz(func(t *testing.T, variable string) {
		name := envName(variable)
		if name != "" && !slices.ContainsFunc([]string{"KAFKA_", "WEIR_"}, func(p string) bool { return len(variable) > len(p) && variable[:len(p)] == p }) {
			t.Fatalf("%q means %q", variable, name)
		}
	})
}
