package config

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"weir/internal/kafka"
)

// Entry is one config as DescribeConfigs and CreateTopics report it.
type Entry struct {
	Name      string
	Value     *string // nil where there is none, or where it is sensitive
	Source    Source
	Type      Type
	Sensitive bool
	ReadOnly  bool
	Synonyms  []Synonym // what would count without the ones before it, the one in force first
	Doc       string
}

// Synonym is one place where a value for a config was found.
type Synonym struct {
	Name   string
	Value  *string
	Source Source
}

// DescribeTopic reports every topic config with what is in force and where that comes from, by name. Arguments are as for
// TopicConfig.
func (s *Server) DescribeTopic(overrides, brokerDefault, broker map[string]string) []Entry {
	l := layers{s, brokerDefault, broker}
	var entries []Entry
	for _, d := range topicOrder {
		_, overridden := overrides[d.Name]
		if d.unlisted() && !overridden {
			continue
		}
		e := Entry{Name: d.Name, Source: SourceDefault, Type: d.Type, Doc: d.Doc}
		if v, isNull := l.topicValue(d, overrides); !isNull {
			e.Value = new(v.text())
		}
		if overridden {
			e.Synonyms = append(e.Synonyms, Synonym{d.Name, e.Value, SourceTopic}) // not as it was written, in Kafka
		}
		if len(d.Synonyms) > 0 {
			e.Synonyms = append(e.Synonyms, l.synonyms(d.Synonyms[0], false)...)
		}
		entries = append(entries, e.sourced())
	}
	slices.SortFunc(entries, byName)
	return entries
}

// DescribeCreatedTopic reports the configs of a topic as CreateTopics v5 and later does: by name, without synonyms, and
// with the values as they were written, where DescribeTopic shows what became of them.
func (s *Server) DescribeCreatedTopic(overrides, brokerDefault, broker map[string]string) []Entry {
	l := layers{s, brokerDefault, broker}
	var entries []Entry
	for _, d := range topicOrder {
		e := Entry{Name: d.Name, Value: new(d.Default), Source: SourceDefault, Type: d.Type}
		if raw, ok := overrides[d.Name]; ok {
			e.Value, e.Source = &raw, SourceTopic
		} else if name, raw, source, ok := l.find(d.Synonyms); ok {
			if v, err := brokerIndex[name].parseStatic(raw); err == nil && inMillis(name, v.num) != v.num {
				raw = strconv.FormatInt(inMillis(name, v.num), 10)
			}
			e.Value, e.Source = &raw, source
		} else if d.unlisted() {
			continue
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, byName)
	return entries
}

// DescribeBroker reports every broker config of this node, by name, and whatever else somebody set for it. Internal
// configs are left out unless they are set.
func (s *Server) DescribeBroker(brokerDefault, broker map[string]string) []Entry {
	l := layers{s, brokerDefault, broker}
	reported := make(map[string]bool)
	for _, d := range brokerOrder {
		if !d.unlisted() {
			reported[d.Name] = true
		}
	}
	for _, set := range []map[string]string{brokerDefault, broker} {
		for name := range set {
			reported[name] = true
		}
	}
	if s != nil {
		for name := range s.settings {
			reported[name] = true
		}
	}
	var entries []Entry
	for _, name := range slices.Sorted(maps.Keys(reported)) {
		e := brokerEntry(name)
		if v, isNull := l.brokerValue(name); !isNull && !e.Sensitive {
			e.Value = new(v.text())
		}
		e.Synonyms = l.synonyms(name, e.Sensitive)
		entries = append(entries, e.sourced())
	}
	return entries
}

// DescribeBrokerDefault reports the dynamic configs of all brokers, by name: what DescribeConfigs answers for the broker
// resource with the empty name.
func DescribeBrokerDefault(brokerDefault map[string]string) []Entry {
	var entries []Entry
	for _, name := range slices.Sorted(maps.Keys(brokerDefault)) {
		e := brokerEntry(name)
		if v, isNull := (layers{brokerDefault: brokerDefault}).brokerValue(name); !isNull && !e.Sensitive {
			e.Value = new(v.text())
		}
		e.Synonyms = layers{brokerDefault: brokerDefault}.synonyms(name, e.Sensitive)
		e.Synonyms = slices.DeleteFunc(e.Synonyms, func(s Synonym) bool { return s.Source != SourceDynamicDefaultBroker })
		entries = append(entries, e.sourced())
	}
	return entries
}

// CheckBrokerResource reads the name of a broker resource: this broker's id, or empty for all brokers. The error has
// INVALID_REQUEST and Kafka's text.
func (s *Server) CheckBrokerResource(name string) (all bool, err error) {
	if name == "" {
		return true, nil
	}
	id, ok := javaInteger(name, 32)
	switch {
	case !ok:
		return false, kafka.Errorf(kafka.InvalidRequest, "Broker id must be an integer, but it is: %s", name)
	case kafka.BrokerID(id) != s.NodeID:
		return false, kafka.Errorf(kafka.InvalidRequest, "Unexpected broker id, expected %d or empty string, but received %s", s.NodeID, name)
	}
	return false, nil
}

// brokerEntry is what the row alone says. What has no row may be a password, so it is treated as one.
func brokerEntry(name string) Entry {
	e := Entry{Name: name, Source: SourceDefault, ReadOnly: true}
	if d, ok := LookupBroker(name); ok {
		e.Type, e.Doc = d.Type, d.Doc
		e.ReadOnly = d.Name != name || d.Mode == ReadOnly // Kafka shows those with a listener in their name as read-only
	}
	e.Sensitive = e.Type.sensitive()
	return e
}

// sourced sets the source from the synonyms.
func (e Entry) sourced() Entry {
	if len(e.Synonyms) > 0 {
		e.Source = e.Synonyms[0].Source
	}
	return e
}

// synonyms finds every place that has a value for a broker config, layer by layer. What stands before the first value
// under the name itself is left out: Kafka does that, which is why retention.ms has no synonyms, and the source
// DEFAULT_CONFIG, where only log.retention.hours is set.
func (l layers) synonyms(name string, sensitive bool) []Synonym {
	var found []Synonym
	add := func(source Source, synonym, raw string) {
		if len(found) == 0 && synonym != name {
			return
		}
		s := Synonym{Name: synonym, Source: source}
		if !sensitive {
			s.Value = &raw
		}
		found = append(found, s)
	}
	names := brokerSynonyms(name)
	for _, layer := range l.ordered() {
		for _, n := range names {
			if raw, ok := layer.lookup(n); ok {
				add(layer.source, n, raw)
			}
		}
	}
	for _, n := range names {
		if raw, ok := l.static.defaultText(n); ok {
			add(SourceDefault, n, raw)
		}
	}
	return found
}

func byName(a, b Entry) int { return cmp.Compare(a.Name, b.Name) }
