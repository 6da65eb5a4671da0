package metadata

import (
	"cmp"
	"iter"
	"strconv"
	"strings"

	"weir/internal/kafka"
)

// ResourceType is the protocol's number of a kind of resource that has a configuration.
type ResourceType int8

// The numbers are the protocol's (ConfigResource.Type).
const (
	TopicResource         ResourceType = 2
	BrokerResource        ResourceType = 4
	BrokerLoggerResource  ResourceType = 8
	ClientMetricsResource ResourceType = 16
	GroupResource         ResourceType = 32
)

// String gives the protocol's name, such as TOPIC.
func (t ResourceType) String() string {
	switch t {
	case TopicResource:
		return "TOPIC"
	case BrokerResource:
		return "BROKER"
	case BrokerLoggerResource:
		return "BROKER_LOGGER"
	case ClientMetricsResource:
		return "CLIENT_METRICS"
	case GroupResource:
		return "GROUP"
	}
	return "UNKNOWN"
}

// ConfigResource names what a configuration belongs to. Brokers are named by their id in decimal; the empty name of a
// broker is the default of all brokers.
type ConfigResource struct {
	Type ResourceType
	Name string
}

func compareResources(a, b ConfigResource) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), strings.Compare(a.Name, b.Name))
}

// Configs holds the dynamic configuration of each resource that has one. The maps are read-only; nil where there is none.
type Configs struct {
	resources tree[ConfigResource, map[string]string]
}

// Get returns the keys and values that were set for a resource.
func (c *Configs) Get(r ConfigResource) map[string]string {
	m, _ := c.resources.get(r)
	return m
}

// Topic returns what was set for a topic.
func (c *Configs) Topic(name string) map[string]string {
	return c.Get(ConfigResource{TopicResource, name})
}

// Broker returns what was set for one broker.
func (c *Configs) Broker(id kafka.BrokerID) map[string]string {
	return c.Get(ConfigResource{BrokerResource, strconv.Itoa(int(id))})
}

// BrokerDefault returns what was set for all brokers.
func (c *Configs) BrokerDefault() map[string]string {
	return c.Get(ConfigResource{Type: BrokerResource})
}

// Group returns what was set for a group.
func (c *Configs) Group(id string) map[string]string { return c.Get(ConfigResource{GroupResource, id}) }

// Len is the number of resources that have a configuration.
func (c *Configs) Len() int { return c.resources.n }

// All iterates by type, then by name.
func (c *Configs) All() iter.Seq2[ConfigResource, map[string]string] { return c.resources.all() }
