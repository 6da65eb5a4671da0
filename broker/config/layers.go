package config

import (
	"math"
	"strings"
)

// layers are the places where a broker config may be set, below a topic's own overrides.
type layers struct {
	static        *Server
	brokerDefault map[string]string // dynamic, for all brokers
	broker        map[string]string // dynamic, for this one
}

// raw finds what is set for a broker config, the dynamic value of this broker first. ok is false where nobody set it.
func (l layers) raw(name string) (raw string, source Source, ok bool) {
	if raw, ok = l.broker[name]; ok {
		return raw, SourceDynamicBroker, true
	}
	if raw, ok = l.brokerDefault[name]; ok {
		return raw, SourceDynamicDefaultBroker, true
	}
	if raw, ok = l.static.raw(name); ok {
		return raw, SourceStaticBroker, true
	}
	return "", SourceDefault, false
}

// topicValue resolves one topic config. isNull is true where nothing is set and the row has no default.
func (l layers) topicValue(d *Def, overrides map[string]string) (v value, isNull bool) {
	if raw, ok := overrides[d.Name]; ok {
		if v, err := d.parse(raw); err == nil {
			return v, false
		}
	}
	for _, synonym := range d.Synonyms {
		if raw, _, ok := l.raw(synonym); ok {
			if v, err := parseValue(synonym, raw, d.Type); err == nil {
				v.num = inMillis(synonym, v.num)
				return v, false
			}
		}
	}
	if d.Null {
		return value{}, true
	}
	v, err := d.parse(d.Default)
	if err != nil {
		panic("config: the default of " + d.Name + " is not valid: " + err.Error())
	}
	return v, false
}

// inMillis turns the older broker configs, whose unit is in their name, into the milliseconds of the topic config.
// Below zero is "no limit" in every unit.
func inMillis(name string, n int64) int64 {
	switch {
	case n < 0 && strings.HasPrefix(name, "log.retention.") && name != "log.retention.bytes":
		return -1
	case strings.HasSuffix(name, ".minutes"):
		return min(n, math.MaxInt64/60_000) * 60_000
	case strings.HasSuffix(name, ".hours"):
		return min(n, math.MaxInt64/3_600_000) * 3_600_000
	default:
		return n
	}
}
