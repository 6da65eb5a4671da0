package config

import (
	"log/slog"
	"slices"
	"strings"
)

// notSettings are variables of the KAFKA_ kind that mean the Java process and not the broker; Kafka's images leave out
// the same ones.
var notSettings = []string{
	"KAFKA_VERSION", "KAFKA_HEAP_OPTS", "KAFKA_LOG4J_OPTS", "KAFKA_OPTS", "KAFKA_JMX_OPTS", "KAFKA_JVM_PERFORMANCE_OPTS",
	"KAFKA_GC_LOG_OPTS", "KAFKA_LOG4J_ROOT_LOGLEVEL", "KAFKA_LOG4J_LOGGERS", "KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_JMX_HOSTNAME",
	"WEIR_BOOT_ID", // stands in for the machine's boot id in tests
}

// envSettings are the settings that the environment makes, in a fixed order so that of two variables for one name always
// the same wins: KAFKA_CFG_X (Bitnami's images) before KAFKA_X before WEIR_X, each group by name.
func envSettings(env []string) []Setting {
	var settings []Setting
	for _, entry := range slices.Sorted(slices.Values(env)) {
		variable, value, ok := strings.Cut(entry, "=")
		if name := envName(variable); ok && name != "" {
			settings = append(settings, Setting{name, value, Origin{Kind: FromEnv, Name: variable}})
		}
	}
	slices.SortStableFunc(settings, func(a, b Setting) int { return envRank(a.Origin.Name) - envRank(b.Origin.Name) })
	return settings
}

func envRank(variable string) int {
	switch {
	case strings.HasPrefix(variable, "KAFKA_CFG_"):
		return 0
	case strings.HasPrefix(variable, "KAFKA_"):
		return 1
	default:
		return 2
	}
}

// envName turns a variable into the setting that it means, "" where it means none. As in Kafka's images an underscore
// stands for a dot, two for an underscore and three for a hyphen.
func envName(variable string) string {
	if slices.Contains(notSettings, variable) {
		return ""
	}
	prefix, keep := "", ""
	switch envRank(variable) {
	case 0:
		prefix = "KAFKA_CFG_"
	case 1:
		prefix = "KAFKA_"
	default:
		prefix, keep = "WEIR_", "weir."
	}
	rest, ok := strings.CutPrefix(variable, prefix)
	if !ok || rest == "" {
		return ""
	}
	name := strings.ReplaceAll(strings.ToLower(rest), "_", ".")
	name = strings.ReplaceAll(name, "...", "-")
	name = strings.ReplaceAll(name, "..", "_")
	return keep + name
}

// lookupEnv finds one variable; the last of that name counts, as in a process.
func lookupEnv(env []string, variable string) string {
	value := ""
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, variable+"="); ok {
			value = v
		}
	}
	return value
}

// logLevel understands log4j's names; anything else is INFO.
func logLevel(name string) slog.Level {
	switch strings.ToUpper(strings.TrimSpace(name)) {
	case "TRACE", "ALL", "DEBUG":
		return slog.LevelDebug
	case "WARN":
		return slog.LevelWarn
	case "ERROR":
		return slog.LevelError
	case "FATAL", "OFF":
		return slog.LevelError + 4
	default:
		return slog.LevelInfo
	}
}
