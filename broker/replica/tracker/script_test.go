package tracker

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka"
	"weir/internal/scripttest"
)

// Scripts drive broker 1, which leads a partition:
//
//	broker 2 epoch=20 [fenced]      registers a broker, or changes what is known of it
//	unregister 2
//	lead epoch=1 partition-epoch=0 replicas=1,2,3 isr=1,2 min=2 end=10 hw=4 [recovering]
//	update partition-epoch=1 …      another registration of the same leader epoch; what is not named stays
//	min 2                           min.insync.replicas
//	append 5                        so many records
//	fetch 2 offset=10 [start=0] [epoch=20]
//	tick 10s                        time goes by
//	advance                         only looks at the high watermark again
//	check                           looks for followers that lag
//	send                            gives the pending change to the controller
//	answer NONE partition-epoch=1 isr=1,2 [leader=1] [leader-epoch=1] [recovering]
//	progress 2
//	low                             the low watermark, the leader's own start being 0
//	read 7 near=2,3                 where a consumer at the offset, to which these brokers are near, shall read
//
// A block puts out what its commands have to tell, and where the leader stands.
func TestScripts(t *testing.T) {
	scripttest.Run(t, func(t *testing.T) func(string) string {
		m := &machine{t: t, now: start, brokers: map[kafka.BrokerID]Broker{1: {Epoch: 10, Active: true}}}
		return m.run
	})
}

var start = time.UnixMilli(1_700_000_000_000)

type machine struct {
	t       *testing.T
	now     time.Time
	brokers map[kafka.BrokerID]Broker
	r       Registration
	min     int
	end     int64 // of the log
	leader  *Leader
	sent    Proposal
	out     strings.Builder
}

func (m *machine) options() Options {
	return Options{Self: 1, MaxLag: 30 * time.Second, Brokers: func(id kafka.BrokerID) (Broker, bool) {
		b, ok := m.brokers[id]
		return b, ok
	}}
}

func (m *machine) run(block string) string {
	m.out.Reset()
	for line := range strings.Lines(block) {
		if fields := strings.Fields(line); len(fields) > 0 && fields[0] != "#" {
			m.command(fields[0], arguments{m, fields[1:]})
		}
	}
	if l := m.leader; l != nil {
		fmt.Fprintf(&m.out, "hw=%d isr=%v", l.HighWatermark(), l.ISR())
		if !slices.Equal(l.ISR(), l.MaximalISR()) {
			fmt.Fprintf(&m.out, " maximal=%v", l.MaximalISR())
		}
		if l.UnderMinISR() {
			m.out.WriteString(" under-min")
		}
		if l.Pending() {
			m.out.WriteString(" pending")
		}
	}
	return m.out.String()
}

func (m *machine) command(name string, a arguments) {
	switch name {
	case "broker":
		m.brokers[a.broker(0)] = Broker{Epoch: kafka.BrokerEpoch(a.int("epoch", 0)), Active: !a.has("fenced")}
	case "unregister":
		delete(m.brokers, a.broker(0))
	case "lead":
		m.r, m.min, m.end = Registration{}, int(a.int("min", 1)), a.int("end", 0)
		m.register(a)
		m.leader = NewLeader(m.options(), m.now, m.r, m.min, m.end, a.int("hw", 0))
		m.advance()
	case "update":
		m.register(a)
		m.leader.Update(m.now, m.r, m.min)
		m.advance()
	case "min":
		m.min = int(a.number(0))
		m.leader.SetMinISR(m.min)
		m.advance()
	case "append":
		m.end += a.number(0)
		m.advance()
	case "fetch":
		m.fetch(a)
	case "tick":
		d, err := time.ParseDuration(a.fields[0])
		if err != nil {
			m.t.Fatal(err)
		}
		m.now = m.now.Add(d)
	case "advance":
		m.advance()
	case "check":
		m.propose(m.leader.Check(m.now, m.end))
		m.advance()
	case "send":
		m.send()
	case "answer":
		m.answer(a)
	case "progress":
		p, _ := m.leader.Progress(a.broker(0))
		fmt.Fprintf(&m.out, "end=%d start=%d epoch=%d caught-up=%s\n", p.LogEnd, p.LogStart, p.BrokerEpoch, m.ago(p.LastCaughtUp))
	case "low":
		fmt.Fprintf(&m.out, "low=%d\n", m.leader.LowWatermark(a.int("start", 0)))
	case "read":
		near := a.brokers("near", nil)
		fmt.Fprintf(&m.out, "from %d\n", m.leader.ReadReplica(a.number(0), func(id kafka.BrokerID) bool { return slices.Contains(near, id) }))
	default:
		m.t.Fatalf("unknown command %s", name)
	}
}

func (m *machine) ago(t time.Time) string {
	if t.IsZero() {
		return "never"
	}
	return m.now.Sub(t).String() + " ago"
}

func (m *machine) advance() { m.leader.Advance(m.now, m.end) }

func (m *machine) register(a arguments) {
	r := Registration{Recovering: a.has("recovering")}
	r.LeaderEpoch = kafka.LeaderEpoch(a.int("epoch", int64(m.r.LeaderEpoch)))
	r.PartitionEpoch = kafka.PartitionEpoch(a.int("partition-epoch", int64(m.r.PartitionEpoch)))
	r.Replicas, r.ISR = a.brokers("replicas", m.r.Replicas), a.brokers("isr", m.r.ISR)
	m.r = r
}

func (m *machine) fetch(a arguments) {
	id := a.broker(0)
	f := Fetch{Replica: id, BrokerEpoch: kafka.BrokerEpoch(a.int("epoch", int64(m.brokers[id].Epoch))), Offset: a.int("offset", -1),
		LogStart: a.int("start", 0), LeaderEnd: m.end, Time: m.now}
	if !m.leader.Fetched(f) {
		fmt.Fprintf(&m.out, "%d: refused\n", id)
		return
	}
	m.propose(m.leader.TryExpand(id))
	m.advance()
}

func (m *machine) propose(news bool) {
	if !news {
		return
	}
	p, ok := m.leader.Proposal()
	if !ok {
		m.t.Fatal("a change without a proposal")
	}
	fmt.Fprintln(&m.out, "wants", describe(p))
}

func (m *machine) send() {
	p, ok := m.leader.Proposal()
	if !ok {
		fmt.Fprintln(&m.out, "nothing to send")
		return
	}
	m.sent = p
	fmt.Fprintln(&m.out, "sends", describe(p))
}

func describe(p Proposal) string {
	var members []string
	for _, mem := range p.ISR {
		members = append(members, fmt.Sprintf("%d@%d", mem.Broker, mem.Epoch))
	}
	return fmt.Sprintf("isr=%v at %d/%d", members, p.LeaderEpoch, p.PartitionEpoch)
}

func (m *machine) answer(a arguments) {
	code, ok := codes()[a.fields[0]]
	if !ok {
		m.t.Fatalf("no code %s", a.fields[0])
	}
	answer := Answer{Code: code, Leader: kafka.BrokerID(a.int("leader", 1)), LeaderEpoch: kafka.LeaderEpoch(a.int("leader-epoch", int64(m.r.LeaderEpoch))),
		PartitionEpoch: kafka.PartitionEpoch(a.int("partition-epoch", 0)), ISR: a.brokers("isr", nil), Recovering: a.has("recovering")}
	if m.leader.Answered(m.sent, answer) {
		fmt.Fprintln(&m.out, "to be sent again")
	}
	m.advance()
}

func codes() map[string]kafka.Code {
	all := make(map[string]kafka.Code)
	for c := kafka.Code(-1); c < 150; c++ {
		all[c.String()] = c
	}
	return all
}

// arguments are the words behind a command: values by place, or as name=value.
type arguments struct {
	m      *machine
	fields []string
}

func (a arguments) has(name string) bool { return slices.Contains(a.fields, name) }

func (a arguments) value(name string) (string, bool) {
	for _, f := range a.fields {
		if v, ok := strings.CutPrefix(f, name+"="); ok {
			return v, true
		}
	}
	return "", false
}

func (a arguments) int(name string, otherwise int64) int64 {
	v, ok := a.value(name)
	if !ok {
		return otherwise
	}
	return a.parse(v)
}

func (a arguments) number(i int) int64 { return a.parse(a.fields[i]) }

func (a arguments) broker(i int) kafka.BrokerID { return kafka.BrokerID(a.number(i)) }

func (a arguments) brokers(name string, otherwise []kafka.BrokerID) (ids []kafka.BrokerID) {
	v, ok := a.value(name)
	if !ok {
		return otherwise
	}
	for id := range strings.SplitSeq(v, ",") {
		ids = append(ids, kafka.BrokerID(a.parse(id)))
	}
	return ids
}

func (a arguments) parse(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		a.m.t.Fatal(err)
	}
	return n
}
