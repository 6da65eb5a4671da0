package broker

import (
	"net"
	"slices"
	"strconv"
	"strings"

	"weir/broker/replica"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/coordinator"
	"weir/coordinator/group"
	"weir/internal/kafka"
)

// Stats is what a broker knows of itself and its cluster at one moment, beyond what Options.Metrics counts. In a cluster
// each thing is told by one broker: a partition by its leader, the cluster and partitions without a leader by the active
// controller. So sums over all brokers are right.
type Stats struct {
	Self       kafka.BrokerID
	Controller *ControllerStats               // nil where this broker is not the active controller
	Quorum     controller.DescribeQuorumReply // as far as this broker knows

	Partitions []PartitionStats // those that this broker tells of, in the order of topics' names
	Logs       []LogStats       // its replicas, in the same order
	Replicas   int              // how many these are, with those that cannot be used
	Offline    int              // replicas that cannot be used: their directory failed
	ISR        replica.ISRCounts
	Fetchers   replica.FetcherStats // of what other brokers lead

	Traffic    map[string]TrafficCounts // by topic
	AllTraffic TrafficCounts            // of all topics since the broker started

	Groups []GroupStats // groups that this broker coordinates; not those of partitions that are being loaded
}

// TrafficCounts are what clients did with a topic's partitions on this broker.
type TrafficCounts = replica.TrafficCounts

// ControllerStats is what the active controller knows of the cluster.
type ControllerStats struct {
	Brokers      []BrokerAddress // that are alive
	Fenced       int             // brokers that are registered and not alive
	Topics       []TopicStats    // in the order of their names
	Partitions   int
	Leaderless   int // partitions without a leader
	NotPreferred int // partitions that are not led by the first of their replicas, the leaderless among them
	// Unclean counts leaders that were elected though they may lack what was committed, while this node was the active controller.
	Unclean int64
}

// BrokerAddress is where a broker is reached, by its first listener.
type BrokerAddress struct {
	ID      kafka.BrokerID
	Address string // host:port
}

// TopicStats is a topic's size.
type TopicStats struct {
	Name       string
	Partitions int
}

// PartitionStats is the state of a partition.
type PartitionStats struct {
	Topic     string
	Partition int32
	Leader    kafka.BrokerID // this broker, or NoBroker
	Preferred bool           // the leader is the first of the replicas
	Moving    bool           // replicas are being added or removed (KIP-455)
	Replicas  int
	InSync    int
	MinInSync int   // min.insync.replicas, or the number of replicas where these are fewer; 0 without a leader
	Start     int64 // first offset; -1 without a leader
	End       int64 // offset (exclusive) up to which consumers may read; -1 without a leader
}

// LogStats is the state of a replica's log.
type LogStats struct {
	Topic      string
	Partition  int32
	Start, End int64 // offsets; the end is exclusive
	Size       int64 // bytes
	Segments   int
}

// GroupStats is a group as its coordinator knows it.
type GroupStats = group.GroupStats

// GroupOffset is what a group has committed for a partition.
type GroupOffset = group.OffsetStats

// Ready reports whether the broker takes requests of clients: from Open until it begins to stop. Those that come before Run
// wait for it.
func (b *Broker) Ready() bool {
	select {
	case <-b.stopping:
		return false
	default:
		return true
	}
}

// Stats takes a snapshot. It holds no lock over more than a few additions, and takes milliseconds for ten thousand
// partitions; groups are told as far as what they did is committed. It may be called from Open on, at any time, by anybody.
func (b *Broker) Stats() *Stats {
	img := b.node.Image()
	s := &Stats{Self: b.Config.NodeID, Quorum: b.node.DescribeQuorum()}
	var c *ControllerStats
	if s.Quorum.Leader == s.Self {
		c = controllerStats(img)
		c.Unclean = b.unclean.Value()
		s.Controller = c
	}
	partitions, offline := b.replicas.Counts()
	s.Replicas, s.Offline = partitions+offline, offline
	s.ISR, s.Fetchers = b.replicas.ISRUpdates().Counts(), b.others.fetchers.Stats()
	s.Partitions, s.Logs = make([]PartitionStats, 0, partitions), make([]LogStats, 0, partitions)
	for t := range img.Topics.All() {
		if c != nil {
			c.Topics = append(c.Topics, TopicStats{t.Name, len(t.Partitions)})
		}
		for i := range t.Partitions {
			b.addPartition(s, t, int32(i))
		}
	}
	s.Traffic, s.AllTraffic = b.replicas.Traffic()
	s.Groups = b.groupStats()
	return s
}

// groupStats asks the shards one after the other, so that no more than one of them works for a snapshot.
func (b *Broker) groupStats() []GroupStats {
	all := []GroupStats{}
	answered := make(chan []GroupStats, 1)
	for _, partition := range b.groups.Owned() {
		b.groups.SubmitTo(partition, &coordinator.Call{Body: group.Stats{}, Done: func(body any, err error) {
			groups, _ := body.([]GroupStats)
			answered <- groups // none with an error: the partition is being loaded, or just left
		}})
		all = append(all, <-answered...)
	}
	slices.SortFunc(all, func(x, y GroupStats) int { return strings.Compare(x.ID, y.ID) })
	return all
}

func controllerStats(img *metadata.Image) *ControllerStats {
	c := &ControllerStats{Partitions: img.Topics.PartitionCount()}
	for br := range img.Brokers.All() {
		if br.Fenced {
			c.Fenced++
			continue
		}
		address := ""
		if len(br.Listeners) > 0 {
			address = net.JoinHostPort(br.Listeners[0].Host, strconv.Itoa(int(br.Listeners[0].Port)))
		}
		c.Brokers = append(c.Brokers, BrokerAddress{br.ID, address})
	}
	return c
}

// countUnclean counts unclean elections on the active controller, as soon as they are in force.
func (b *Broker) countUnclean(delta *metadata.Delta) {
	if !b.node.QuorumStatus().Ready {
		return
	}
	var changed []metadata.Record
	for _, t := range delta.TopicsChanged {
		for _, p := range t.Partitions {
			if r := t.New.Partition(p); len(r.Replicas) > 1 { // else nobody has anything that the leader may lack
				changed = append(changed, metadata.PartitionRecord{TopicID: t.New.ID, Partition: p, PartitionRegistration: *r})
			}
		}
	}
	b.unclean.Add(int64(len(controller.UncleanLeaders(delta.Old, changed))))
}

// addPartition adds what this broker has to tell of a partition.
func (b *Broker) addPartition(s *Stats, t *metadata.Topic, number int32) {
	r := &t.Partitions[number]
	out := PartitionStats{Topic: t.Name, Partition: number, Leader: r.Leader, Replicas: len(r.Replicas), InSync: len(r.ISR), Start: -1, End: -1}
	out.Moving = len(r.Adding)+len(r.Removing) > 0
	out.Preferred = len(r.Replicas) > 0 && r.Leader == r.Replicas[0]
	tells := false
	if c := s.Controller; c != nil {
		tells = r.Leader == kafka.NoBroker
		if tells {
			c.Leaderless++
		}
		if !out.Preferred {
			c.NotPreferred++
		}
	}
	p := b.replicas.Partition(kafka.TopicPartition{Topic: t.Name, Partition: number})
	if p != nil && p.TopicID() == t.ID {
		l := p.Log()
		s.Logs = append(s.Logs, LogStats{Topic: t.Name, Partition: number, Start: l.StartOffset(), End: l.EndOffset(), Size: l.Size(), Segments: l.SegmentCount()})
		if r.Leader == s.Self {
			tells = true
			out.MinInSync = min(p.Config().MinInsyncReplicas, out.Replicas)
			out.Start, out.End = l.StartOffset(), l.HighWatermark()
		}
	}
	if tells {
		s.Partitions = append(s.Partitions, out)
	}
}
