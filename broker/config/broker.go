package config

import (
	"maps"
	"slices"
	"strings"

	"weir/internal/kafka"
)

// ValidateBroker checks the whole set of dynamic values of one broker (perBroker) or of all. Names that no table has
// pass: they may be a plug-in's. The error's code is INVALID_REQUEST, which Kafka answers here, and its text Kafka's.
func ValidateBroker(configs map[string]string, perBroker bool) error {
	sorted := slices.Sorted(maps.Keys(configs))
	pick := func(wanted func(name string, d *Def) bool) string {
		var names []string
		for _, name := range sorted {
			if d, known := LookupBroker(name); known && wanted(name, d) {
				names = append(names, name)
			}
		}
		return strings.Join(names, ", ")
	}
	if names := pick(isFixed); names != "" {
		return kafka.Errorf(kafka.InvalidRequest, "Cannot update these configs dynamically: [%s]", names)
	}
	if names := pick(lacksListener); names != "" {
		return kafka.Errorf(kafka.InvalidRequest,
			"These security configs can be dynamically updated only per-listener using the listener prefix: [%s]", names)
	}
	for _, d := range brokerOrder {
		for _, name := range sorted {
			if baseName(name) == d.Name && d.Mode != ReadOnly { // with a listener's prefix Kafka takes any value of those
				if err := d.checkDynamic(configs[name]); err != nil {
					return kafka.Errorf(kafka.InvalidRequest, "%s", err)
				}
			}
		}
	}
	if names := pick(isPerBroker); names != "" && !perBroker {
		return kafka.Errorf(kafka.InvalidRequest, "Cannot update these configs at default cluster level, broker id must be specified: [%s]", names)
	}
	return crossCheckBroker(configs)
}

// isFixed finds what only a restart changes. Under a listener's prefix Kafka lets everything pass.
func isFixed(name string, d *Def) bool { return d.Name == name && d.Mode == ReadOnly }

// lacksListener finds keys and certificates: a broker has one of each for a listener, never one for all.
func lacksListener(name string, d *Def) bool {
	return d.Name == name && (strings.HasPrefix(name, "ssl.keystore.") || strings.HasPrefix(name, "ssl.truststore.") || name == "ssl.key.password")
}

// isPerBroker finds what cannot be the same for all brokers.
func isPerBroker(name string, d *Def) bool {
	switch d.Name {
	case "max.connections", "max.connection.creation.rate", "num.network.threads": // may be set for one listener of every broker
		return false
	}
	return d.Mode == PerBroker || d.Name != name
}

// checkDynamic is Check, and refuses elements that stand twice: topics' lists and the file's may have those, dynamic
// values of brokers may not.
func (d *Def) checkDynamic(raw string) error {
	if d.Type == List && javaTrim(raw) != "" && len(splitList(javaTrim(raw))) != 1+strings.Count(raw, ",") {
		return kafka.Errorf(kafka.InvalidConfig, "Configuration '%s' values must not be duplicated.", d.Name)
	}
	return d.Check(raw)
}

// crossCheckBroker checks what a row cannot: bounds that hold only for the value in force, not for each unit.
func crossCheckBroker(configs map[string]string) error {
	for _, c := range []struct {
		name, requirement string
		refused           func(n int64) bool
	}{
		{"log.roll.ms", "log.roll.ms must be greater than or equal to 1", func(n int64) bool { return n < 1 }},
		{"log.roll.jitter.ms", "log.roll.jitter.ms must be greater than or equal to 0", func(n int64) bool { return n < 0 }},
		{"log.retention.ms", "log.retention.ms must be unlimited (-1) or, greater than or equal to 1", func(n int64) bool { return n == 0 }},
		{"log.cleaner.threads", "log.cleaner.threads must be greater than or equal to 1", func(n int64) bool { return n == 0 }},
		{"max.connections.per.ip", "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set.",
			func(n int64) bool { return n == 0 && configs["max.connections.per.ip.overrides"] == "" }},
	} {
		if n, ok := javaInteger(javaTrim(configs[c.name]), 64); ok && c.refused(n) {
			return kafka.Errorf(kafka.InvalidRequest, "requirement failed: %s", c.requirement)
		}
	}
	return nil
}
