package controller

import (
	"fmt"
	"slices"
	"strings"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// The commands that brokers and the active controller itself give.
func (w *world) clusterCommand(verb string, items []string) Command {
	first := parseWords(items[0])
	switch verb {
	case "fence":
		return FenceBrokers{}
	case "isr": // isr LEADER | TOPIC-N isr=1,2 [le= pe= recovery= epochs=ID:EPOCH,…]
		c := AlterPartition{Broker: broker(first.name), Epoch: w.epoch(first)}
		for _, item := range items[1:] {
			c.Partitions = append(c.Partitions, w.isrChange(parseWords(item)))
		}
		return c
	case "elect": // elect TYPE TOPIC-N …, or all
		c := ElectLeaders{Type: ElectionType(number(first.name))}
		for _, word := range fields(items[0])[1:] {
			if word == "all" {
				c.All = true
				continue
			}
			c.Partitions = append(c.Partitions, topicPartition(word))
		}
		return c
	case "balance":
		return BalanceLeaders{Max: int(number(first.name))}
	case "raise":
		return RaiseInternalTopics{}
	case "reassign":
		return reassignCommand(items)
	case "assign": // assign BROKER | TOPIC-N dir=N
		c := AssignReplicasToDirs{Broker: broker(first.name), Epoch: w.epoch(first)}
		for _, item := range items[1:] {
			ws := parseWords(item)
			tp := topicPartition(ws.name)
			c.Assignments = append(c.Assignments, DirAssignment{w.topicID(tp.Topic), tp.Partition, directory(ws.get("dir", "0"))})
		}
		return c
	case "member": // member NODE raft= dir= [host=] [port=] [cluster=]
		return RegisterMember{ClusterID: first.get("cluster", "c1"), Member: metadata.QuorumMember{
			Node: broker(first.name), RaftID: uint64(number(first.get("raft", "0"))), Directory: directory(first.get("dir", "0")),
			Host: first.get("host", ""), Port: uint16(number(first.get("port", "0"))),
		}}
	}
	return w.nodeCommand(verb, first)
}

// heartbeat is BROKER [epoch=] [offset=] [fence=] [shutdown=] [offline=DIR,…] [unreachable=ID,…] [of=EPOCH]. An offset of @ is
// the image's, @-1 the one before.
func (w *world) heartbeat(ws words) BrokerHeartbeat {
	c := BrokerHeartbeat{Broker: broker(ws.name), Epoch: w.epoch(ws), WantFence: ws.has("fence"), WantShutDown: ws.has("shutdown")}
	switch offset := ws.get("offset", "1000000"); offset {
	case "@":
		c.MetadataOffset = w.img.Index
	case "@-1":
		c.MetadataOffset = w.img.Index - 1
	default:
		c.MetadataOffset = number(offset)
	}
	for dir := range strings.SplitSeq(ws.get("offline", ""), ",") {
		if dir != "" {
			c.OfflineDirs = append(c.OfflineDirs, directory(dir))
		}
	}
	for _, id := range brokers(ws.get("unreachable", "")) {
		u := UnreachableBroker{Broker: id}
		if b, known := w.img.Brokers.ByID(id); known {
			u.Epoch = b.Epoch
		}
		if of, ok := ws.find("of"); ok {
			u.Epoch = kafka.BrokerEpoch(number(of))
		}
		c.Unreachable = append(c.Unreachable, u)
	}
	return c
}

func (w *world) isrChange(ws words) ISRChange {
	tp := topicPartition(ws.name)
	c := ISRChange{TopicID: w.topicID(tp.Topic), Partition: tp.Partition}
	if t, known := w.img.Topics.ByName(tp.Topic); known && t.Partition(tp.Partition) != nil {
		p := t.Partition(tp.Partition)
		c.LeaderEpoch, c.PartitionEpoch, c.RecoveryState = p.LeaderEpoch, p.PartitionEpoch, p.RecoveryState
	}
	c.LeaderEpoch = kafka.LeaderEpoch(number(ws.get("le", fmt.Sprint(c.LeaderEpoch))))
	c.PartitionEpoch = kafka.PartitionEpoch(number(ws.get("pe", fmt.Sprint(c.PartitionEpoch))))
	c.RecoveryState = int8(number(ws.get("recovery", fmt.Sprint(c.RecoveryState))))
	for _, id := range brokers(ws.get("isr", "")) {
		m := ISRMember{Broker: id, Epoch: -1}
		if b, known := w.img.Brokers.ByID(id); known {
			m.Epoch = b.Epoch
		}
		for pair := range strings.SplitSeq(ws.get("epochs", ""), ",") {
			if who, epoch, found := strings.Cut(pair, ":"); found && broker(who) == id {
				m.Epoch = kafka.BrokerEpoch(number(epoch))
			}
		}
		c.ISR = append(c.ISR, m)
	}
	return c
}

// reassign TOPIC-N to=1,2 | TOPIC-N cancel= [factor=keep]
func reassignCommand(items []string) AlterReassignments {
	c := AlterReassignments{AllowFactorChange: true}
	for _, item := range items {
		ws := parseWords(item)
		tp := topicPartition(ws.name)
		r := Reassignment{Topic: tp.Topic, Partition: tp.Partition}
		if !ws.has("cancel") {
			r.Replicas = append([]kafka.BrokerID{}, brokers(ws.get("to", ""))...)
		}
		if ws.has("factor") {
			c.AllowFactorChange = false
		}
		c.Partitions = append(c.Partitions, r)
	}
	return c
}

func (w *world) topicID(name string) kafka.TopicID {
	if t, known := w.img.Topics.ByName(name); known {
		return t.ID
	}
	return kafka.UUID{0: 255}
}

func (w *world) expiry() string {
	at, ok := NextExpiry(w.img, w.leases)
	if !ok {
		return "never\n"
	}
	return fmt.Sprintln("in", at.Sub(w.now))
}

func topicPartition(s string) kafka.TopicPartition {
	i := strings.LastIndexByte(s, '-')
	return kafka.TopicPartition{Topic: s[:i], Partition: int32(number(s[i+1:]))}
}

func directory(s string) kafka.DirectoryID {
	if s == "0" {
		return kafka.UnassignedDirectory
	}
	return kafka.UUID{0: 7, 15: byte(number(s))}
}

func describeAltered(img *metadata.Image, p AlteredPartition) string {
	name := "?"
	if t, known := img.Topics.ByID(p.TopicID); known {
		name = t.Name
	}
	if p.Code != kafka.None {
		return fmt.Sprintf("%s-%d %s\n", name, p.Partition, p.Code)
	}
	return fmt.Sprintf("%s-%d isr=%v leader=%d epoch=%d.%d recovery=%d\n", name, p.Partition, p.ISR, p.Leader, p.LeaderEpoch, p.PartitionEpoch, p.RecoveryState)
}

func describeMember(m metadata.QuorumMember) string {
	return fmt.Sprintf("raft=%d node=%d dir=%d address=%s:%d", m.RaftID, m.Node, m.Directory[15], m.Host, m.Port)
}

func shutdown(is bool) string {
	if is {
		return " shutdown"
	}
	return ""
}

// describeDirs is silent about the one directory that a broker has by default.
func describeDirs(id kafka.BrokerID, dirs []kafka.DirectoryID) string {
	if slices.Equal(dirs, []kafka.DirectoryID{directory(fmt.Sprint(id))}) {
		return ""
	}
	s := " dirs="
	for i, dir := range dirs {
		if i > 0 {
			s += ","
		}
		s += fmt.Sprint(dir[15])
	}
	return s
}
