package harness

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ClusterClient returns a franz-go client of all nodes, closed at the end of the case.
func (c *Cluster) ClusterClient(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Bootstrap()...), kgo.DisableClientMetrics(), kgo.MetadataMinAge(50 * time.Millisecond)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// CreateTopic makes a topic on a cluster and returns when every partition has a leader and all its replicas in sync.
func (c *Cluster) CreateTopic(t *testing.T, topic string, partitions int32, factor int16, configs ...string) {
	t.Helper()
	values := make(map[string]*string)
	for i := 0; i+1 < len(configs); i += 2 {
		values[configs[i]] = &configs[i+1]
	}
	admin := kadm.NewClient(c.ClusterClient(t))
	if _, err := admin.CreateTopic(Context(t), partitions, factor, values, topic); err != nil {
		t.Fatalf("create topic %s: %v", topic, err)
	}
	c.AwaitISRs(t, topic)
}

// AwaitISRs returns when every partition of the topics, or of all topics, has a leader and all its replicas in sync.
func (c *Cluster) AwaitISRs(t *testing.T, topics ...string) {
	t.Helper()
	admin := kadm.NewClient(c.ClusterClient(t))
	var wrong string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(Context(t), 5*time.Second)
		metadata, err := admin.Metadata(ctx, topics...)
		cancel()
		if err != nil {
			wrong = err.Error()
			continue
		}
		if wrong = underReplicated(metadata); wrong == "" {
			return
		}
	}
	t.Fatalf("after a minute: %s", wrong)
}

func underReplicated(m kadm.Metadata) string {
	var wrong []string
	if len(m.Topics) == 0 {
		return "no topics"
	}
	m.Topics.EachPartition(func(p kadm.PartitionDetail) {
		if p.Leader < 0 || len(p.ISR) < len(p.Replicas) {
			wrong = append(wrong, fmt.Sprintf("%s-%d has leader %d, replicas %v, ISR %v", p.Topic, p.Partition, p.Leader, p.Replicas, p.ISR))
		}
	})
	for _, topic := range m.Topics {
		if topic.Err != nil {
			wrong = append(wrong, fmt.Sprintf("%s: %v", topic.Topic, topic.Err))
		}
	}
	return strings.Join(wrong, "; ")
}

// Leader returns the id of the node that leads a partition.
func (c *Cluster) Leader(t *testing.T, topic string, partition int32) int {
	t.Helper()
	metadata, err := kadm.NewClient(c.ClusterClient(t)).Metadata(Context(t), topic)
	if err != nil {
		t.Fatal(err)
	}
	return int(metadata.Topics[topic].Partitions[partition].Leader)
}

// Controller returns the id of the active controller, which leads the quorum.
func (c *Cluster) Controller(t *testing.T) int {
	t.Helper()
	return int(c.Quorum(t).LeaderID)
}

// Voters returns the ids of the nodes that vote in the quorum, in order.
func (c *Cluster) Voters(t *testing.T) (ids []int) {
	t.Helper()
	for _, v := range c.Quorum(t).CurrentVoters {
		ids = append(ids, int(v.ReplicaID))
	}
	slices.Sort(ids)
	return ids
}

// Quorum returns what the first node that answers says of the quorum.
func (c *Cluster) Quorum(t *testing.T) kmsg.DescribeQuorumResponseTopicPartition {
	t.Helper()
	r := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	r.Topics = append(r.Topics, topic)
	client := c.ClusterClient(t)
	defer client.Close()
	var response *kmsg.DescribeQuorumResponse
	var err error
	for _, n := range c.nodes { // until any node answers for the one that leads
		response, err = r.RequestWith(Context(t), client.Broker(n.ID))
		if err == nil && len(response.Topics) == 1 && len(response.Topics[0].Partitions) == 1 && response.Topics[0].Partitions[0].ErrorCode == 0 {
			return response.Topics[0].Partitions[0]
		}
	}
	t.Fatalf("describe the quorum: %+v, %v", response, err)
	return kmsg.DescribeQuorumResponseTopicPartition{}
}
