package config

import (
	"slices"
	"strings"
)

// layers are the places where a broker config may be set, below a topic's own overrides.
type layers struct {
	static        *Server
	brokerDefault map[string]string // dynamic, for all brokers
	broker        map[string]string // dynamic, for this one
}

// layer looks up what one place has for a name.
type layer struct {
	source Source
	lookup func(name string) (string, bool)
}

// ordered gives the layers that somebody set, the one that wins first.
func (l layers) ordered() [3]layer {
	return [3]layer{
		{SourceDynamicBroker, lookupIn(l.broker)},
		{SourceDynamicDefaultBroker, lookupIn(l.brokerDefault)},
		{SourceStaticBroker, l.static.raw},
	}
}

func lookupIn(m map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		v, ok := m[name]
		return v, ok
	}
}

// find returns what the winning layer has for the first of names that it knows. A dynamic value that its row does not
// take, which only another version can have written, counts as not set.
func (l layers) find(names []string) (name, raw string, source Source, ok bool) {
	for _, layer := range l.ordered() {
		for _, name := range names {
			if raw, ok := layer.lookup(name); ok && usable(name, raw) {
				return name, raw, layer.source, true
			}
		}
	}
	return "", "", SourceDefault, false
}

func usable(name, raw string) bool {
	d, ok := LookupBroker(name)
	if !ok {
		return true
	}
	_, err := d.parseStatic(raw)
	return err == nil
}

// brokerValue resolves one broker config. isNull is true where nothing is set and there is no default. A dynamic value
// of one synonym hides what lower layers have for the others, as in Kafka: a dynamic log.retention.ms leaves
// log.retention.hours at its default, whatever the file says.
func (l layers) brokerValue(name string) (v value, isNull bool) {
	d, known := LookupBroker(name)
	if !known {
		return value{}, true
	}
	if raw, ok := l.brokerRaw(name); ok {
		if v, err := d.parseStatic(raw); err == nil {
			return v, false
		}
	}
	if raw, ok := l.static.derived(d.Name); ok {
		v, _ = d.parseStatic(raw)
		return v, false
	}
	return d.defaultValue()
}

// brokerRaw finds what is set for one name.
func (l layers) brokerRaw(name string) (string, bool) {
	for _, layer := range l.ordered() {
		if raw, ok := layer.lookup(name); ok && usable(name, raw) {
			return raw, true
		}
		set := func(synonym string) bool {
			raw, ok := layer.lookup(synonym)
			return ok && usable(synonym, raw)
		}
		if layer.source != SourceStaticBroker && slices.ContainsFunc(hiders(name), set) {
			return "", false
		}
	}
	return "", false
}

// topicValue resolves one topic config. isNull is true where nothing is set and the row has no default.
func (l layers) topicValue(d *Def, overrides map[string]string) (v value, isNull bool) {
	if raw, ok := overrides[d.Name]; ok {
		if v, err := d.parse(raw); err == nil {
			return v, false
		}
	}
	if name, raw, _, ok := l.find(d.Synonyms); ok {
		broker := brokerIndex[name]
		if v, err := broker.parseStatic(raw); err == nil {
			v.typ, v.num = d.Type, inMillis(name, v.num)
			return v, false
		}
	}
	return d.defaultValue()
}

// defaultValue is the row's default.
func (d *Def) defaultValue() (v value, isNull bool) { return d.preset, d.Null }

// inMillis turns the older broker configs, whose unit is in their name and which are of type Int, into the milliseconds of
// the topic config. A retention below zero has no limit, in every unit.
func inMillis(name string, n int64) int64 {
	switch {
	case n < 0 && strings.HasPrefix(name, "log.retention.") && name != "log.retention.bytes":
		return -1
	case strings.HasSuffix(name, ".minutes"):
		return n * 60_000
	case strings.HasSuffix(name, ".hours"):
		return n * 3_600_000
	default:
		return n
	}
}
