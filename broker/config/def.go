package config

import (
	"slices"
	"strings"
)

// Type is how a value is written. The numbers are DescribeConfigs' (v3 and later): do not renumber.
type Type int8

const (
	Unknown  Type = 0 // a name that no table has
	Boolean  Type = 1
	String   Type = 2
	Int      Type = 3
	Short    Type = 4
	Long     Type = 5
	Double   Type = 6
	List     Type = 7
	Class    Type = 8
	Password Type = 9
)

// String gives the name that Kafka's error texts use, such as LONG.
func (t Type) String() string {
	names := [...]string{"UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"}
	if t < 0 || int(t) >= len(names) {
		return "UNKNOWN"
	}
	return names[t]
}

// sensitive reports whether values of the type are never shown. A name that no table has may be anything, so it is too.
func (t Type) sensitive() bool { return t == Password || t == Unknown }

// Source says which layer a value in force comes from. The numbers are DescribeConfigs': do not renumber.
type Source int8

const (
	SourceTopic                Source = 1
	SourceDynamicBroker        Source = 2
	SourceDynamicDefaultBroker Source = 3
	SourceStaticBroker         Source = 4
	SourceDefault              Source = 5
)

// Mode says whether and where a broker config may be changed at run time.
type Mode int8

const (
	ReadOnly    Mode = 0 // by a restart only
	PerBroker   Mode = 1 // for one broker, not for all at once
	ClusterWide Mode = 2 // for one broker or for all
)

// String gives the word that the documentation uses.
func (m Mode) String() string {
	switch m {
	case PerBroker:
		return "per-broker"
	case ClusterWide:
		return "cluster-wide"
	default:
		return "read-only"
	}
}

// Stance says what Weir does with a config.
type Stance int8

const (
	Implement Stance = 0 // has its effect
	Accept    Stance = 1 // validated, stored and reported, without effect
	Internal  Stance = 2 // as Accept, and reported only where it is set
)

// Def is one row of a table: all that is known of a config before anybody sets it.
type Def struct {
	Name    string
	Type    Type
	Default string // as DescribeConfigs prints it
	Null    bool   // no default: reported as null, and Default is empty
	Valid   Validator
	Mode    Mode // broker configs; a topic config can always be changed
	Stance  Stance
	Doc     string

	Unlisted bool // reported only where it is set, as internal configs are

	// Synonyms are the broker configs that give a topic config its default, the first that has a value wins. The units
	// may differ: .hours and .minutes are turned into milliseconds.
	Synonyms []string

	preset value // the default, parsed
}

// parse reads raw as the row's type and validates it. The error's text is Kafka's.
func (d *Def) parse(raw string) (value, error) {
	v, err := parseValue(d.Name, raw, d.Type)
	if err != nil {
		return value{}, err
	}
	if d.Valid != nil {
		if err := d.Valid.check(d.Name, v); err != nil {
			return value{}, err
		}
	}
	return v, nil
}

// StanceOn is the stance on the row's config as it is named: under a listener's prefix only max.connections is acted on.
func (d *Def) StanceOn(name string) Stance {
	if d.Stance == Implement && name != d.Name && d.Name != "max.connections" {
		return Accept
	}
	return d.Stance
}

func (d *Def) unlisted() bool { return d.Unlisted || d.Stance == Internal }

// parseStatic is parse for what the operator wrote: empty elements of lists are dropped, because templates leave trailing
// commas, which Kafka refuses.
func (d *Def) parseStatic(raw string) (value, error) {
	if d.Type == List {
		raw = dropEmpty(raw)
	}
	return d.parse(raw)
}

// Check validates one value alone, without the checks across several names.
func (d *Def) Check(raw string) error {
	_, err := d.parse(raw)
	return err
}

// ValidValues describes the values that the row takes beyond its type, in the notation of Kafka's documentation; empty
// where every value of the type will do.
func (d *Def) ValidValues() string {
	if d.Valid == nil {
		return ""
	}
	return d.Valid.String()
}

// LookupTopic finds the row of a topic config.
func LookupTopic(name string) (*Def, bool) {
	d, ok := topicIndex[name]
	return d, ok
}

// TopicDefs are the topic configs in the order in which Kafka validates them, internal.segment.bytes last.
func TopicDefs() []*Def { return slices.Clone(topicOrder) }

// LookupBroker finds the row of a broker config, Kafka's or Weir's. A name of the form listener.name.<listener>.<name>
// has the row of <name>.
func LookupBroker(name string) (*Def, bool) {
	d, ok := brokerIndex[baseName(name)]
	return d, ok
}

// BrokerDefs are the broker configs in alphabetical order, Weir's own at the end.
func BrokerDefs() []*Def {
	defs := slices.Clone(brokerOrder)
	slices.SortFunc(defs, func(a, b *Def) int { return strings.Compare(a.Name, b.Name) })
	return defs
}

var (
	topicOrder, topicIndex   = indexTable(topicTable)
	brokerOrder, brokerIndex = indexTable(networkTable, generalTable, logTable, replicationTable, quorumTable, transactionTable,
		groupTable, shareTable, quotaTable, securityTable, tieredTable, weirTable)
)

// synonymGroups are broker configs that stand for one another; the earlier wins.
var synonymGroups = [][]string{
	{"log.retention.ms", "log.retention.minutes", "log.retention.hours"},
	{"log.roll.ms", "log.roll.hours"},
	{"log.roll.jitter.ms", "log.roll.jitter.hours"},
}

// brokerSynonyms are the names under which a broker config may be found, in the order of precedence. It need not begin
// with name itself.
func brokerSynonyms(name string) []string {
	if name == "log.flush.interval.ms" { // but not the other way round: the second only lends the first its value
		return []string{name, "log.flush.scheduler.interval.ms"}
	}
	for _, group := range synonymGroups {
		if slices.Contains(group, name) {
			return group
		}
	}
	if base := baseName(name); base != name {
		return []string{name, base}
	}
	return []string{name}
}

// hiders are the configs of which a dynamic value hides name's in the layers below.
func hiders(name string) []string {
	if name == "log.flush.scheduler.interval.ms" {
		return []string{"log.flush.interval.ms"}
	}
	for _, group := range synonymGroups {
		if i := slices.Index(group, name); i >= 0 {
			return slices.Concat(group[:i], group[i+1:])
		}
	}
	return nil
}

// mechanismConfigs come with the SASL mechanism between the listener and the name.
var mechanismConfigs = []string{
	"sasl.jaas.config", "sasl.login.callback.handler.class", "sasl.login.class", "sasl.server.callback.handler.class", "connections.max.reauth.ms",
}

// baseName takes listener.name.<listener>. off a name, and the SASL mechanism too where the config has one.
func baseName(name string) string {
	rest, ok := strings.CutPrefix(name, "listener.name.")
	if !ok {
		return name
	}
	_, base, ok := strings.Cut(rest, ".")
	if !ok {
		return name
	}
	for _, config := range mechanismConfigs {
		if strings.HasSuffix(base, config) {
			return config
		}
	}
	return base
}

// indexTable makes the tables' two forms. A name that stands twice or a default that is not valid is a mistake in this
// package.
func indexTable(tables ...[]Def) ([]*Def, map[string]*Def) {
	var order []*Def
	index := make(map[string]*Def)
	for _, table := range tables {
		for i := range table {
			d := &table[i]
			if index[d.Name] != nil {
				panic("config: two rows for " + d.Name)
			}
			if d.preset = (value{typ: d.Type}); !d.Null {
				var err error
				if d.preset, err = d.parse(d.Default); err != nil {
					panic("config: the default of " + d.Name + " is not valid: " + err.Error())
				}
			}
			index[d.Name] = d
			order = append(order, d)
		}
	}
	return order, index
}
