package handler

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
)

func TestRepeatsIsNoticed(t *testing.T) {
	topic := func(name string, id kafka.TopicID, partitions ...int32) kmsg.ProduceRequestTopic {
		t := kmsg.ProduceRequestTopic{Topic: name, TopicID: id}
		for _, p := range partitions {
			t.Partitions = append(t.Partitions, kmsg.ProduceRequestTopicPartition{Partition: p})
		}
		return t
	}
	var many []kmsg.ProduceRequestTopic
	for i := range 20 {
		many = append(many, topic("", kafka.TopicID{byte(i)}, 0))
	}
	id := kafka.TopicID{1}
	for _, c := range []struct {
		name   string
		topics []kmsg.ProduceRequestTopic
		want   bool
	}{
		{"nothing", nil, false},
		{"one", []kmsg.ProduceRequestTopic{topic("a", kafka.TopicID{}, 0)}, false},
		{"the same partition of two topics", []kmsg.ProduceRequestTopic{topic("a", kafka.TopicID{}, 0), topic("b", kafka.TopicID{}, 0)}, false},
		{"a topic twice", []kmsg.ProduceRequestTopic{topic("a", kafka.TopicID{}, 0), topic("b", kafka.TopicID{}, 0), topic("a", kafka.TopicID{}, 1)}, true},
		{"an id twice", []kmsg.ProduceRequestTopic{topic("", id, 0), topic("", id, 1)}, true},
		{"two ids", []kmsg.ProduceRequestTopic{topic("", id, 0), topic("", kafka.TopicID{2}, 0)}, false},
		{"many topics", many, false},
		{"many topics, one twice", append(many, topic("", kafka.TopicID{7}, 1)), true},
		{"low partitions", []kmsg.ProduceRequestTopic{topic("a", kafka.TopicID{}, 0, 63, 64, 1023)}, false},
		{"a low partition twice", []kmsg.ProduceRequestTopic{topic("a", kafka.TopicID{}, 0, 64, 1023, 64)}, true},
		{"high and negative partitions", []kmsg.ProduceRequestTopic{topic("a", kafka.TopicID{}, 1024, -1, 1<<31-1, -1<<31)}, false},
		{"a high partition twice", []kmsg.ProduceRequestTopic{topic("a", kafka.TopicID{}, 1024, 5000, 1024)}, true},
		{"a negative partition twice", []kmsg.ProduceRequestTopic{topic("a", kafka.TopicID{}, -1, 0, -1)}, true},
	} {
		if got := repeats(&kmsg.ProduceRequest{Topics: c.topics}); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
