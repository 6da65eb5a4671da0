package main

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"weir/broker"
)

// The names that dashboards of Kafka ask for. Those of kafka_exporter are of the cluster, those that the JMX exporter makes
// of Kafka's own metrics are of this broker. Metrics that stand for something which Weir does not have are not told.

// exporter tells what kafka_exporter tells.
func (s scrape) exporter(stats *broker.Stats) {
	if c := stats.Controller; c != nil {
		s.gauge("kafka_brokers", "Brokers that are alive.").add(float64(len(c.Brokers)))
		info := s.gauge("kafka_broker_info", "Where a broker is reached; always 1.")
		for _, b := range c.Brokers {
			info.add(1, "address", b.Address, "id", strconv.Itoa(int(b.ID)))
		}
		partitions := s.gauge("kafka_topic_partitions", "Partitions of a topic.")
		for _, t := range c.Topics {
			partitions.add(float64(t.Partitions), "topic", t.Name)
		}
	}
	current := s.gauge("kafka_topic_partition_current_offset", "Offset that the next record to be read will have.")
	oldest := s.gauge("kafka_topic_partition_oldest_offset", "Offset of the first record.")
	inSync := s.gauge("kafka_topic_partition_in_sync_replica", "Replicas in sync.")
	leader := s.gauge("kafka_topic_partition_leader", "Id of the broker that leads; -1 without a leader.")
	preferred := s.gauge("kafka_topic_partition_leader_is_preferred", "1 if the first of the replicas leads.")
	replicas := s.gauge("kafka_topic_partition_replicas", "Replicas.")
	under := s.gauge("kafka_topic_partition_under_replicated_partition", "1 if a replica is not in sync.")
	for i := range stats.Partitions {
		p := &stats.Partitions[i]
		labels := pairs("partition", strconv.Itoa(int(p.Partition)), "topic", p.Topic)
		if p.End >= 0 {
			current.addLabelled(float64(p.End), labels)
			oldest.addLabelled(float64(p.Start), labels)
		}
		inSync.addLabelled(float64(p.InSync), labels)
		leader.addLabelled(float64(p.Leader), labels)
		preferred.addLabelled(truth(p.Preferred), labels)
		replicas.addLabelled(float64(p.Replicas), labels)
		under.addLabelled(truth(p.InSync < p.Replicas), labels)
	}
}

// groups tells of consumer groups: kafka_exporter's families, and how many groups are in which state.
func (s scrape) groups(stats *broker.Stats) {
	ends := make(map[partition]int64)
	for i := range stats.Partitions {
		if p := &stats.Partitions[i]; p.End >= 0 {
			ends[partition{p.Topic, p.Partition}] = p.End
		}
	}
	members := s.gauge("kafka_consumergroup_members", "Members of a group.")
	offsets := offsetFamilies{
		current:    s.gauge("kafka_consumergroup_current_offset", "Offset that a group has committed."),
		lag:        s.gauge("kafka_consumergroup_lag", "Records that a group has not committed yet, of partitions that this broker leads."),
		currentSum: s.gauge("kafka_consumergroup_current_offset_sum", "Sum of the offsets that a group has committed for a topic."),
		lagSum:     s.gauge("kafka_consumergroup_lag_sum", "Sum of the records of a topic that a group has not committed yet, of partitions that this broker leads."),
	}
	states := make(map[string]int)
	told := make(map[string]bool)
	for i := range stats.Groups {
		g := &stats.Groups[i]
		states[g.State]++
		id := labelText(g.ID)
		if told[id] { // a metric twice would cost a line of the log at every scrape
			continue
		}
		told[id] = true
		members.add(float64(g.Members), "consumergroup", id)
		offsets.add(id, g.Offsets, ends)
	}
	byState := s.gauge("weir_groups", "Groups that this broker coordinates, by state.")
	for state, n := range states {
		byState.add(float64(n), "state", state)
	}
}

// labelText is text as a label may hold it: a client may call its group anything. Bytes that are not UTF-8 become \xNN.
func labelText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for s != "" {
		r, n := utf8.DecodeRuneInString(s)
		if r == utf8.RuneError && n == 1 {
			fmt.Fprintf(&b, `\x%02x`, s[0])
		} else {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

type partition struct {
	topic  string
	number int32
}

type offsetFamilies struct{ current, lag, currentSum, lagSum family }

// add adds what a group has committed. How far it is behind is known of partitions whose end is.
func (f offsetFamilies) add(group string, offsets []broker.GroupOffset, ends map[partition]int64) {
	type sum struct {
		offset, lag int64
		known       bool // the lag of a partition at least
	}
	sums := make(map[string]sum)
	for _, o := range offsets {
		labels := pairs("consumergroup", group, "partition", strconv.Itoa(int(o.Partition)), "topic", o.Topic)
		f.current.addLabelled(float64(o.Offset), labels)
		total := sums[o.Topic]
		total.offset += o.Offset
		if end, ok := ends[partition{o.Topic, o.Partition}]; ok {
			behind := max(end-o.Offset, 0) // the offset may be from before a truncation
			f.lag.addLabelled(float64(behind), labels)
			total.lag += behind
			total.known = true
		}
		sums[o.Topic] = total
	}
	for topic, total := range sums {
		labels := pairs("consumergroup", group, "topic", topic)
		f.currentSum.addLabelled(float64(total.offset), labels)
		if total.known {
			f.lagSum.addLabelled(float64(total.lag), labels)
		}
	}
}

// jmx tells what the usual rules of the JMX exporter make of a broker's metrics.
func (s scrape) jmx(stats *broker.Stats) {
	s.brokerTopicMetrics(stats)
	s.replicaManager(stats)
	s.controller(stats)
	s.raft(stats)
	s.logs(stats.Logs)
}

func (s scrape) brokerTopicMetrics(stats *broker.Stats) {
	for _, f := range []struct {
		name, help string
		value      func(*broker.TrafficCounts) int64
	}{
		{"messagesin", "Records that clients produced.", func(c *broker.TrafficCounts) int64 { return c.MessagesIn }},
		{"bytesin", "Bytes that clients produced.", func(c *broker.TrafficCounts) int64 { return c.BytesIn }},
		{"bytesout", "Bytes that consumers fetched.", func(c *broker.TrafficCounts) int64 { return c.BytesOut }},
		{"bytesrejected", "Bytes of batches that were too large.", func(c *broker.TrafficCounts) int64 { return c.BytesRejected }},
		{"totalproducerequests", "Partitions that Produce requests named.", func(c *broker.TrafficCounts) int64 { return c.ProduceRequests }},
		{"totalfetchrequests", "Partitions that Fetch requests named.", func(c *broker.TrafficCounts) int64 { return c.FetchRequests }},
		{"failedproducerequests", "Partitions of Produce requests that failed unexpectedly.", func(c *broker.TrafficCounts) int64 { return c.FailedProduceRequests }},
		{"failedfetchrequests", "Partitions of Fetch requests that failed unexpectedly.", func(c *broker.TrafficCounts) int64 { return c.FailedFetchRequests }},
	} {
		out := s.counter("kafka_server_brokertopicmetrics_"+f.name+"_total", f.help+" Without a topic: of all topics since the start.")
		out.add(float64(f.value(&stats.AllTraffic)))
		for topic, c := range stats.Traffic {
			out.add(float64(f.value(&c)), "topic", topic)
		}
	}
	s.counter("kafka_server_brokertopicmetrics_replicationbytesin_total", "Bytes that this broker fetched as a follower.").add(float64(stats.AllTraffic.CopiedIn))
	s.counter("kafka_server_brokertopicmetrics_replicationbytesout_total", "Bytes that followers were sent.").add(float64(stats.AllTraffic.CopiedOut))
}

func (s scrape) replicaManager(stats *broker.Stats) {
	replicas := s.gauge("kafka_cluster_partition_replicascount", "Replicas of a partition that this broker leads.")
	inSync := s.gauge("kafka_cluster_partition_insyncreplicascount", "Replicas in sync of a partition that this broker leads.")
	atMin := s.gauge("kafka_cluster_partition_atminisr", "1 if just min.insync.replicas are in sync.")
	underMin := s.gauge("kafka_cluster_partition_underminisr", "1 if fewer than min.insync.replicas are in sync, so that acks=all is refused.")
	leads, underReplicated, underMinISR, atMinISR, moving := 0, 0, 0, 0, 0
	for i := range stats.Partitions {
		p := &stats.Partitions[i]
		if p.Leader != stats.Self {
			continue
		}
		leads++
		if p.InSync < p.Replicas {
			underReplicated++
		}
		switch {
		case p.InSync < p.MinInSync:
			underMinISR++
		case p.InSync == p.MinInSync:
			atMinISR++
		}
		if p.Moving {
			moving++
		}
		labels := pairs("partition", strconv.Itoa(int(p.Partition)), "topic", p.Topic)
		replicas.addLabelled(float64(p.Replicas), labels)
		inSync.addLabelled(float64(p.InSync), labels)
		atMin.addLabelled(truth(p.InSync == p.MinInSync), labels)
		underMin.addLabelled(truth(p.InSync < p.MinInSync), labels)
	}
	s.gauge("kafka_server_replicamanager_partitioncount", "Replicas on this broker.").add(float64(stats.Replicas))
	s.gauge("kafka_server_replicamanager_leadercount", "Partitions that this broker leads.").add(float64(leads))
	s.gauge("kafka_server_replicamanager_underreplicatedpartitions", "Partitions that this broker leads and of which a replica is not in sync.").add(float64(underReplicated))
	s.gauge("kafka_server_replicamanager_underminisrpartitioncount", "Partitions that this broker leads and of which fewer than min.insync.replicas are in sync.").add(float64(underMinISR))
	s.gauge("kafka_server_replicamanager_atminisrpartitioncount", "Partitions that this broker leads and of which just min.insync.replicas are in sync.").add(float64(atMinISR))
	s.gauge("kafka_server_replicamanager_reassigningpartitions", "Partitions that this broker leads and whose replicas are being moved.").add(float64(moving))
	s.gauge("kafka_server_replicamanager_offlinereplicacount", "Replicas on this broker that cannot be used.").add(float64(stats.Offline))
	s.replication(stats)
}

// replication tells how leaders and followers get on.
func (s scrape) replication(stats *broker.Stats) {
	s.counter("kafka_server_replicamanager_isrshrinks_total", "Times that followers left the ISR of a partition which this broker led.").add(float64(stats.ISR.Shrinks))
	s.counter("kafka_server_replicamanager_isrexpands_total", "Times that a follower joined the ISR of a partition which this broker led.").add(float64(stats.ISR.Expands))
	s.counter("kafka_server_replicamanager_failedisrupdates_total", "Changes of an ISR that the controller refused or did not answer.").add(float64(stats.ISR.Failed))
	const prefix, client = "kafka_server_replicafetchermanager_", "Replica"
	s.gauge(prefix+"maxlag", "Records that a replica on this broker lacks of what consumers see at its leader; of the one that lacks most.").
		add(float64(stats.Fetchers.MaxLag), "clientId", client)
	s.gauge(prefix+"failedpartitionscount", "Replicas on this broker that are not fetched for until their metadata changes.").
		add(float64(stats.Fetchers.Failed), "clientId", client)
}

func (s scrape) controller(stats *broker.Stats) {
	const prefix = "kafka_controller_kafkacontroller_"
	c := stats.Controller
	s.gauge(prefix+"activecontrollercount", "1 if this broker is the active controller.").add(truth(c != nil))
	if c == nil {
		return
	}
	s.gauge(prefix+"activebrokercount", "Brokers that are alive.").add(float64(len(c.Brokers)))
	s.gauge(prefix+"fencedbrokercount", "Brokers that are registered and not alive.").add(float64(c.Fenced))
	s.gauge(prefix+"globaltopiccount", "Topics of the cluster.").add(float64(len(c.Topics)))
	s.gauge(prefix+"globalpartitioncount", "Partitions of the cluster.").add(float64(c.Partitions))
	s.gauge(prefix+"offlinepartitionscount", "Partitions of the cluster without a leader.").add(float64(c.Leaderless))
	s.gauge(prefix+"preferredreplicaimbalancecount", "Partitions of the cluster that are not led by the first of their replicas.").add(float64(c.NotPreferred))
	s.counter("kafka_controller_controllerstats_uncleanleaderelections_total", "Leaders that were elected though they may lack what was committed, while this broker was the active controller.").
		add(float64(c.Unclean))
}

// raft tells of the metadata log.
func (s scrape) raft(stats *broker.Stats) {
	const prefix = "kafka_server_raftmetrics_"
	q := &stats.Quorum
	end, state := int64(-1), "observer"
	for _, r := range q.Voters {
		if r.Node == stats.Self {
			end, state = r.LogEndOffset, "follower"
		}
	}
	for _, r := range q.Learners {
		if r.Node == stats.Self {
			end = r.LogEndOffset
		}
	}
	if q.Leader == stats.Self {
		state = "leader"
	}
	s.gauge(prefix+"current_leader", "Id of the node that leads the metadata log; -1 if unknown.").add(float64(q.Leader))
	s.gauge(prefix+"current_epoch", "Leader epoch of the metadata log.").add(float64(q.LeaderEpoch))
	s.gauge(prefix+"high_watermark", "Offset up to which the metadata log is committed.").add(float64(q.HighWatermark))
	s.gauge(prefix+"log_end_offset", "Offset where this node's metadata log ends; -1 if unknown.").add(float64(end))
	s.gauge(prefix+"current_state", "What this node is to the metadata log: leader, follower or observer; always 1.").add(1, "current_state", state)
}

func (s scrape) logs(logs []broker.LogStats) {
	size := s.gauge("kafka_log_log_size", "Bytes of a replica's log on this broker.")
	start := s.gauge("kafka_log_log_logstartoffset", "Offset of the first record of a replica's log on this broker.")
	end := s.gauge("kafka_log_log_logendoffset", "Offset that the next record of a replica's log on this broker gets.")
	segments := s.gauge("kafka_log_log_numlogsegments", "Segments of a replica's log on this broker.")
	for i := range logs {
		l := &logs[i]
		labels := pairs("partition", strconv.Itoa(int(l.Partition)), "topic", l.Topic)
		size.addLabelled(float64(l.Size), labels)
		start.addLabelled(float64(l.Start), labels)
		end.addLabelled(float64(l.End), labels)
		segments.addLabelled(float64(l.Segments), labels)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
