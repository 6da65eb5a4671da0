package golden

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

func topicScripts() []Script {
	return atEach("topics", runTopics, kmsg.CreateTopics, kmsg.CreatePartitions, kmsg.DeleteTopics, kmsg.Metadata)
}

func createTopics(validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.TimeoutMillis, r.ValidateOnly, r.Topics = 30000, validateOnly, topics
	return r
}

// newTopic describes a topic with one replica; configs are name, value, name, value.
func newTopic(name string, partitions int32, configs ...string) kmsg.CreateTopicsRequestTopic {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	for i := 0; i+1 < len(configs); i += 2 {
		topic.Configs = append(topic.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: configs[i], Value: &configs[i+1]})
	}
	return topic
}

func runTopics(s *Session) {
	orders := s.Name("orders")
	s.Ask("create", createTopics(false, newTopic(orders, 2, "retention.ms", "4711"), newTopic(s.Name("other"), 1)))
	s.Ask("create again", createTopics(false, newTopic(orders, 2)))
	wrongReplicas := newTopic(s.Name("replicas"), 1)
	wrongReplicas.ReplicationFactor = 3
	noReplicas := newTopic(s.Name("none"), 1)
	noReplicas.ReplicationFactor = 0
	assigned := newTopic(s.Name("assigned"), -1)
	assigned.ReplicationFactor = -1
	assigned.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{99}}}
	s.Ask("create what cannot be", createTopics(false,
		newTopic(s.Name("bad name"), 1), newTopic(s.Name("zero"), 0), wrongReplicas, noReplicas, assigned,
		newTopic(s.Name("value"), 1, "retention.ms", "soon"), newTopic(s.Name("config"), 1, "no.such.config", "x")))
	s.Ask("create twice in one request", createTopics(false, newTopic(s.Name("twice"), 1), newTopic(s.Name("twice"), 2)))
	s.Ask("validate", createTopics(true, newTopic(s.Name("validated"), 3)))
	s.Ask("metadata of a topic that was only validated", metadata(s.Name("validated")))
	s.Eventually("metadata", metadata(orders), func(r kmsg.Response) bool {
		return len(r.(*kmsg.MetadataResponse).Topics[0].Partitions) == 2
	})
	s.Ask("metadata of a bad name", metadata("bad name"))

	grow := func(topic string, count int32) *kmsg.CreatePartitionsRequest {
		r := kmsg.NewPtrCreatePartitionsRequest()
		r.TimeoutMillis = 30000
		r.Topics = []kmsg.CreatePartitionsRequestTopic{{Topic: topic, Count: count}}
		return r
	}
	s.Ask("add a partition", grow(orders, 3))
	s.Ask("add none", grow(orders, 3))
	s.Ask("take one away", grow(orders, 1))
	s.Ask("add to a topic that is not there", grow(s.Name("nosuch"), 3))
	s.Eventually("metadata after it has grown", metadata(orders), func(r kmsg.Response) bool {
		return len(r.(*kmsg.MetadataResponse).Topics[0].Partitions) == 3
	})

	remove := func(topics ...string) *kmsg.DeleteTopicsRequest {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.TimeoutMillis, r.TopicNames = 30000, topics
		for _, topic := range topics {
			r.Topics = append(r.Topics, kmsg.DeleteTopicsRequestTopic{Topic: &topic})
		}
		return r
	}
	s.Ask("delete", remove(orders, s.Name("other"), s.Name("nosuch")))
	s.Quiet(metadata(orders), func(r kmsg.Response) bool { return r.(*kmsg.MetadataResponse).Topics[0].ErrorCode == 3 })
	s.Ask("delete again", remove(orders))
	s.Ask("metadata of a deleted topic", metadata(orders))
}

func metadata(topics ...string) *kmsg.MetadataRequest {
	r := kmsg.NewPtrMetadataRequest()
	for _, topic := range topics {
		r.Topics = append(r.Topics, kmsg.MetadataRequestTopic{Topic: &topic})
	}
	return r
}

// topic creates a topic, waits until it can be used and returns its id.
func (s *Session) topic(name string, partitions int32, configs ...string) [16]byte {
	s.Quiet(createTopics(false, newTopic(name, partitions, configs...)), func(kmsg.Response) bool { return true })
	var id [16]byte
	c := s.connect()
	for ready := false; !ready; {
		response, err := c.Request(metadata(name), newest(kmsg.Metadata))
		if err != nil {
			panic(broken{err})
		}
		found := response.(*kmsg.MetadataResponse).Topics[0]
		id = found.TopicID
		ready = len(found.Partitions) == int(partitions)
		for _, p := range found.Partitions {
			ready = ready && p.ErrorCode == 0
		}
	}
	return id
}

func configScripts() []Script {
	return atEach("configs", runConfigs, kmsg.DescribeConfigs, kmsg.IncrementalAlterConfigs, kmsg.AlterConfigs, kmsg.ListConfigResources)
}

func runConfigs(s *Session) {
	orders, other := s.Name("orders"), s.Name("other")
	s.topic(orders, 1, "retention.ms", "4711")
	s.topic(other, 1)
	describe := func(kind kmsg.ConfigResourceType, name string, configs ...string) *kmsg.DescribeConfigsRequest {
		r := kmsg.NewPtrDescribeConfigsRequest()
		r.IncludeSynonyms = true
		r.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: name, ConfigNames: configs}}
		return r
	}
	const topic, broker = kmsg.ConfigResourceTypeTopic, kmsg.ConfigResourceTypeBroker
	s.Ask("describe a topic", describe(topic, orders, "retention.ms", "cleanup.policy", "max.message.bytes", "segment.bytes", "compression.type", "no.such.config"))
	s.Ask("describe a topic that is not there", describe(topic, s.Name("nosuch")))
	s.Ask("describe a topic with a bad name", describe(topic, "bad name"))
	s.Ask("describe a broker", describe(broker, "1", "log.retention.ms", "log.segment.bytes", "num.io.threads", "message.max.bytes", "ssl.keystore.password"))
	s.Ask("describe a broker that is not there", describe(broker, "99", "log.retention.ms"))
	s.Ask("describe what is no broker", describe(broker, "one"))
	s.Ask("describe a kind that is not there", describe(kmsg.ConfigResourceType(99), "x"))

	type change = kmsg.IncrementalAlterConfigsRequestResourceConfig
	incremental := func(kind kmsg.ConfigResourceType, name string, validateOnly bool, changes ...change) *kmsg.IncrementalAlterConfigsRequest {
		r := kmsg.NewPtrIncrementalAlterConfigsRequest()
		r.ValidateOnly = validateOnly
		r.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kind, ResourceName: name, Configs: changes}}
		return r
	}
	s.Ask("set, append, delete", incremental(topic, orders, false,
		change{Name: "max.message.bytes", Value: ptr("5000")},
		change{Name: "cleanup.policy", Op: kmsg.IncrementalAlterConfigOpAppend, Value: ptr("compact")},
		change{Name: "retention.ms", Op: kmsg.IncrementalAlterConfigOpDelete}))
	s.Eventually("describe what was altered", describe(topic, orders, "retention.ms", "cleanup.policy", "max.message.bytes"), func(r kmsg.Response) bool {
		for _, c := range r.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
			if c.Name == "max.message.bytes" {
				return c.Value != nil && *c.Value == "5000"
			}
		}
		return true
	})
	s.Ask("set a bad value", incremental(topic, orders, false, change{Name: "retention.ms", Value: ptr("soon")}))
	s.Ask("set a bad word", incremental(topic, orders, false, change{Name: "cleanup.policy", Value: ptr("bogus")}))
	s.Ask("set what is not there", incremental(topic, orders, false, change{Name: "no.such.config", Value: ptr("x")}))
	s.Ask("set null", incremental(topic, orders, false, change{Name: "retention.ms"}))
	s.Ask("append to what is no list", incremental(topic, orders, false, change{Name: "retention.ms", Op: kmsg.IncrementalAlterConfigOpAppend, Value: ptr("1")}))
	s.Ask("one setting twice", incremental(topic, orders, false, change{Name: "retention.ms", Value: ptr("1")}, change{Name: "retention.ms", Value: ptr("2")}))
	s.Ask("alter a topic that is not there", incremental(topic, s.Name("nosuch"), false, change{Name: "retention.ms", Value: ptr("1")}))
	s.Ask("validate", incremental(topic, other, true, change{Name: "retention.ms", Value: ptr("1")}))
	s.Ask("describe what was only validated", describe(topic, other, "retention.ms"))
	s.Ask("alter a broker's setting of the start", incremental(broker, "1", false, change{Name: "broker.id", Value: ptr("7")}))
	s.Ask("alter a broker that is not there", incremental(broker, "99", false, change{Name: "log.retention.ms", Value: ptr("7")}))

	replace := kmsg.NewPtrAlterConfigsRequest()
	replace.Resources = []kmsg.AlterConfigsRequestResource{{ResourceType: topic, ResourceName: orders,
		Configs: []kmsg.AlterConfigsRequestResourceConfig{{Name: "segment.bytes", Value: ptr("2000000")}}}}
	s.Ask("replace all", replace)
	s.Eventually("describe what was replaced", describe(topic, orders, "max.message.bytes", "segment.bytes"), func(r kmsg.Response) bool {
		for _, c := range r.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
			if c.Name == "segment.bytes" {
				return c.Value != nil && *c.Value == "2000000"
			}
		}
		return true
	})
	list := kmsg.NewPtrListConfigResourcesRequest()
	if s.Version(kmsg.ListConfigResources) > 0 {
		list.ResourceTypes = []int8{int8(broker)}
	}
	s.Ask("list resources", list)
}
