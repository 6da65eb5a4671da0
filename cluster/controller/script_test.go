package controller

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/scripttest"
)

// See world.run for the commands.
func TestScripts(t *testing.T) {
	scripttest.Run(t, func(*testing.T) func(string) string { return newWorld().runBlock })
}

// world is a cluster in which every decision is applied at once.
type world struct {
	settings Settings
	img      *metadata.Image
	leases   Leases
	now      time.Time
	ids      byte
	used     map[kafka.BrokerID]bool // node ids, in property tests
}

func newWorld() *world {
	w := &world{
		settings: Settings{Self: 1, NumPartitions: 1, DefaultReplicationFactor: 1, MinInSyncReplicas: 1, DeleteTopicEnable: true},
		leases:   Leases{SessionTimeout: 9 * time.Second, HeartbeatInterval: 2 * time.Second},
		now:      time.Unix(1700000000, 0),
	}
	w.leases.Reset(w.now)
	img, _, err := metadata.Empty().With([]metadata.Record{metadata.FormatRecord{FormatVersion: 1, ClusterID: "c1"}})
	if err != nil {
		panic(err)
	}
	w.img = img
	return w
}

func (w *world) runBlock(input string) string {
	var out strings.Builder
	for line := range strings.Lines(input) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		out.WriteString(w.run(line))
	}
	return out.String()
}

// run executes one line: a command's name, then words; items of one request are separated by " | ". A word is key=value,
// or a name. Names with blanks are written in Go's quotes.
func (w *world) run(line string) string {
	verb, rest, _ := strings.Cut(line, " ")
	validate, heard := verb == "validate", verb == "heard"
	if validate || heard {
		verb, rest, _ = strings.Cut(rest, " ")
	}
	items := strings.Split(rest, " | ")
	first := parseWords(items[0])
	switch verb {
	case "settings":
		w.set(first)
		return ""
	case "tick":
		d, err := time.ParseDuration(first.name)
		must(err)
		w.now = w.now.Add(d)
		return ""
	case "contact": // a heartbeat, of which only the leases hear
		w.leases.Heard(w.img, w.heartbeat(first), w.now)
		return ""
	case "reset": // another controller
		w.leases.Reset(w.now)
		return ""
	case "expiry":
		return w.expiry()
	case "rumour":
		return w.rumour(first)
	case "nodes":
		return w.nodes()
	case "show":
		return w.show(first.name)
	case "broker": // registered and unfenced, without a word
		w.decide(w.register(first))
		b, _ := w.img.Brokers.ByID(broker(first.name))
		w.decide(BrokerHeartbeat{Broker: b.ID, Epoch: b.Epoch, MetadataOffset: w.img.Index})
		return ""
	}
	cmd := w.command(verb, items, validate)
	base := w.img
	out := w.decide(cmd)
	if _, register := cmd.(RegisterBroker); heard && !(register && strings.HasPrefix(out, "error")) {
		w.leases.Heard(base, cmd, w.now)
	}
	return out
}

func (w *world) decide(cmd Command) string {
	records, reply, err := Decide(&w.settings, w.img, w.leases, w.now, cmd)
	if err != nil {
		return fmt.Sprintf("error %s: %s\n", kafka.CodeOf(err), err)
	}
	var out strings.Builder
	describeReply(&out, w.img, reply)
	next := w.img
	if len(records) > 0 {
		next, _, err = metadata.Apply(w.img, w.img.Index+1, 1, metadata.AppendEntry(nil, w.img.Index, records))
		must(err)
	}
	for _, r := range records {
		fmt.Fprintf(&out, "  %s\n", describeRecord(w.img, next, r))
	}
	for _, u := range UncleanLeaders(w.img, records) {
		t, _ := w.img.Topics.ByID(u.Topic)
		fmt.Fprintf(&out, "  unclean %s-%d leader=%d\n", t.Name, u.Partition, u.Leader)
	}
	w.img = next
	return out.String()
}

func (w *world) set(ws words) {
	for key, value := range ws.pairs() {
		switch key {
		case "partitions":
			w.settings.NumPartitions = int32(number(value))
		case "rf":
			w.settings.DefaultReplicationFactor = int16(number(value))
		case "minisr":
			w.settings.MinInSyncReplicas = int32(number(value))
		case "delete":
			w.settings.DeleteTopicEnable = value == "true"
		case "offsets":
			w.settings.OffsetsTopicReplicationFactor = int16(number(value))
		case "transactions":
			w.settings.TransactionTopicReplicationFactor = int16(number(value))
		case "share":
			w.settings.ShareTopicReplicationFactor = int16(number(value))
		default:
			panic("unknown setting " + key)
		}
	}
}

func (w *world) register(ws words) RegisterBroker {
	id := broker(ws.name)
	c := RegisterBroker{
		ClusterID: ws.get("cluster", "c1"), Broker: id, Incarnation: kafka.UUID{0: 9, 14: byte(number(ws.get("incarnation", "1"))), 15: byte(id)},
		Rack: ws.get("rack", ""), PreviousEpoch: kafka.BrokerEpoch(number(ws.get("previous", "-1"))),
		Listeners: []metadata.Endpoint{{Name: "PLAINTEXT", Host: "h", Port: 9092}},
	}
	for dir := range strings.SplitSeq(ws.get("dirs", strconv.Itoa(int(id))), ",") {
		if dir != "" {
			c.Directories = append(c.Directories, kafka.UUID{0: 7, 15: byte(number(dir))})
		}
	}
	return c
}

// epoch is what a line says, else the broker's own.
func (w *world) epoch(ws words) kafka.BrokerEpoch {
	if s, ok := ws.find("epoch"); ok {
		return kafka.BrokerEpoch(number(s))
	}
	if b, ok := w.img.Brokers.ByID(broker(ws.name)); ok {
		return b.Epoch
	}
	return 0
}

func (w *world) command(verb string, items []string, validate bool) Command {
	first := parseWords(items[0])
	switch verb {
	case "initialize":
		return Initialize{ClusterID: first.get("cluster", "c1")}
	case "register":
		return w.register(first)
	case "heartbeat":
		return w.heartbeat(first)
	case "producerids":
		return AllocateProducerIDs{Broker: broker(first.name), Epoch: w.epoch(first)}
	case "create":
		return w.createCommand(items, validate)
	case "delete":
		var c DeleteTopics
		for _, item := range items {
			c.Topics = append(c.Topics, w.ref(parseWords(item)))
		}
		return c
	case "grow":
		c := CreatePartitions{ValidateOnly: validate}
		for _, item := range items {
			ws := parseWords(item)
			t := MorePartitions{Name: ws.name, Count: int32(number(ws.get("count", "0")))}
			if a, ok := ws.find("assign"); ok {
				t.Assignments = [][]kafka.BrokerID{}
				for list := range strings.SplitSeq(a, "/") {
					if a != "" {
						t.Assignments = append(t.Assignments, brokers(list))
					}
				}
			}
			c.Topics = append(c.Topics, t)
		}
		return c
	case "alter", "incremental":
		return alterCommand(verb, items, validate)
	}
	return w.clusterCommand(verb, items)
}

func (w *world) createCommand(items []string, validate bool) CreateTopics {
	c := CreateTopics{ValidateOnly: validate}
	for _, item := range items {
		ws := parseWords(item)
		w.ids++
		t := NewTopic{Name: ws.name, ID: kafka.UUID{0: w.ids}, NumPartitions: -1, ReplicationFactor: -1}
		for key, value := range ws.pairs() {
			switch key {
			case "partitions":
				t.NumPartitions = int32(number(value))
			case "rf":
				t.ReplicationFactor = int16(number(value))
			case "seed":
				c.Seed = uint64(number(value))
			case "assign":
				for part := range strings.SplitSeq(value, "/") {
					p, list, _ := strings.Cut(part, ":")
					t.Assignments = append(t.Assignments, Assignment{Partition: int32(number(p)), Replicas: brokers(list)})
				}
			default:
				t.Configs = append(t.Configs, configValue(key, value))
			}
		}
		c.Topics = append(c.Topics, t)
	}
	return c
}

func configValue(key, value string) ConfigValue {
	if value == "NULL" {
		return ConfigValue{Name: key}
	}
	return ConfigValue{key, &value}
}

func (w *world) ref(ws words) (ref TopicRef) {
	if ws.named {
		ref.Name = &ws.name
	}
	if name, ok := ws.find("id"); ok {
		ref.ID = kafka.UUID{0: 255}
		if t, ok := w.img.Topics.ByName(name); ok {
			ref.ID = t.ID
		}
	}
	return ref
}

func alterCommand(verb string, items []string, validate bool) Command {
	full := AlterConfigs{Broker: 1, ValidateOnly: validate}
	incremental := IncrementalAlterConfigs{Broker: 1, ValidateOnly: validate}
	for _, item := range items {
		ws := parseWords(item)
		typ, name, _ := strings.Cut(ws.name, ":")
		r := metadata.ConfigResource{Type: metadata.ResourceType(number(typ)), Name: name}
		replacement, change := ConfigReplacement{Resource: r}, ConfigChange{Resource: r}
		for key, value := range ws.pairs() {
			if verb == "alter" {
				replacement.Configs = append(replacement.Configs, configValue(key, value))
				continue
			}
			op, name, _ := strings.Cut(key, ":")
			v := configValue(name, value)
			change.Ops = append(change.Ops, ConfigOp{Name: name, Op: OpType(number(op)), Value: v.Value})
		}
		full.Resources = append(full.Resources, replacement)
		incremental.Resources = append(incremental.Resources, change)
	}
	if verb == "alter" {
		return full
	}
	return incremental
}

func (w *world) show(name string) string {
	t, ok := w.img.Topics.ByName(name)
	if !ok {
		return "no topic " + name + "\n"
	}
	var out strings.Builder
	for p := range t.Partitions {
		fmt.Fprintf(&out, "  %s-%d %s\n", name, p, describePartition(&t.Partitions[p]))
	}
	return out.String()
}

func describeReply(out *strings.Builder, img *metadata.Image, reply Reply) {
	line := func(name string, r Result, format string, args ...any) {
		text := ""
		if r.Message != nil {
			text = ": " + *r.Message
		}
		fmt.Fprintf(out, "%s %s%s%s\n", name, r.Code, text, fmt.Sprintf(format, args...))
	}
	switch r := reply.(type) {
	case CreateTopicsReply:
		for _, t := range r.Topics {
			numbers := ""
			if t.OK() {
				numbers = fmt.Sprintf(" partitions=%d rf=%d configs=%v", t.NumPartitions, t.ReplicationFactor, t.Configs)
			}
			line(strconv.Quote(t.Name), t.Result, "%s", numbers)
		}
	case DeleteTopicsReply:
		for _, t := range r.Topics {
			name := "null"
			if t.Name != nil {
				name = strconv.Quote(*t.Name)
			}
			if !t.ID.IsZero() {
				name += "+id"
			}
			line(name, t.Result, "")
		}
	case CreatePartitionsReply:
		for _, t := range r.Topics {
			line(strconv.Quote(t.Name), t.Result, "")
		}
	case AlterConfigsReply:
		for _, a := range r.Resources {
			line(fmt.Sprintf("%d:%s", a.Resource.Type, a.Resource.Name), a.Result, "")
		}
	case AlterPartitionReply:
		for _, p := range r.Partitions {
			out.WriteString(describeAltered(img, p))
		}
	case AlterReassignmentsReply:
		for _, p := range r.Partitions {
			line(fmt.Sprintf("%s-%d", p.Topic, p.Partition), p.Result, "")
		}
	case ElectLeadersReply:
		for _, p := range r.Partitions {
			line(p.TopicPartition.String(), p.Result, "")
		}
	default:
		fmt.Fprintf(out, "%+v\n", r)
	}
}

func describeRecord(before, after *metadata.Image, r metadata.Record) string {
	name := func(id kafka.TopicID) string {
		for _, img := range []*metadata.Image{after, before} {
			if t, ok := img.Topics.ByID(id); ok {
				return t.Name
			}
		}
		return id.String()
	}
	switch r := r.(type) {
	case metadata.TopicRecord:
		return "topic " + r.Name
	case metadata.RemoveTopicRecord:
		return "remove topic " + name(r.ID)
	case metadata.PartitionRecord:
		return fmt.Sprintf("partition %s-%d %s", name(r.TopicID), r.Partition, describePartition(&r.PartitionRegistration))
	case metadata.ConfigRecord:
		if r.Value == nil {
			return fmt.Sprintf("config %d:%s %s removed", r.Resource.Type, r.Resource.Name, r.Key)
		}
		return fmt.Sprintf("config %d:%s %s=%q", r.Resource.Type, r.Resource.Name, r.Key, *r.Value)
	case metadata.RegisterBrokerRecord:
		return fmt.Sprintf("register broker %d epoch=%d rack=%q fenced=%v", r.ID, r.Epoch, r.Rack, r.Fenced) + shutdown(r.InControlledShutdown) + describeDirs(r.ID, r.Directories)
	case metadata.BrokerChangeRecord:
		return fmt.Sprintf("change broker %d epoch=%d fenced=%v", r.ID, r.Epoch, r.Fenced) + shutdown(r.InControlledShutdown)
	case metadata.QuorumMemberRecord:
		return "member " + describeMember(r.Member)
	}
	return fmt.Sprintf("%T %+v", r, r)
}

func describePartition(p *metadata.PartitionRegistration) string {
	s := fmt.Sprintf("replicas=%v isr=%v leader=%d epoch=%d.%d", p.Replicas, p.ISR, p.Leader, p.LeaderEpoch, p.PartitionEpoch)
	if p.ELR != nil {
		s += fmt.Sprintf(" elr=%v", p.ELR)
	}
	if p.LastKnownELR != nil {
		s += fmt.Sprintf(" last=%v", p.LastKnownELR)
	}
	if p.RecoveryState == metadata.Recovering {
		s += " recovering"
	}
	if p.Adding != nil {
		s += fmt.Sprintf(" adding=%v", p.Adding)
	}
	if p.Removing != nil {
		s += fmt.Sprintf(" removing=%v", p.Removing)
	}
	for i, dir := range p.Directories {
		if dir.IsZero() {
			s += fmt.Sprintf(" %d:any-dir", p.Replicas[i])
		} else if n := dir[15]; n != byte(p.Replicas[i]) {
			s += fmt.Sprintf(" %d:dir-%d", p.Replicas[i], n)
		}
	}
	return s
}

// words is a parsed item: a name and then key=value in order.
type words struct {
	name  string
	named bool
	kv    []ConfigValue
}

func parseWords(item string) (ws words) {
	for i, word := range fields(item) {
		key, value, found := strings.Cut(word, "=")
		if i == 0 && !found {
			ws.name, ws.named = unquote(word), true
			continue
		}
		value = unquote(value)
		ws.kv = append(ws.kv, ConfigValue{unquote(key), &value})
	}
	return ws
}

// fields splits at blanks outside quotes.
func fields(s string) []string {
	quoted := false
	return strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	})
}

func unquote(s string) string { return strings.ReplaceAll(s, `"`, "") }

func (ws words) pairs() func(yield func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for _, kv := range ws.kv {
			if !yield(kv.Name, *kv.Value) {
				return
			}
		}
	}
}

func (ws words) find(key string) (string, bool) {
	i := slices.IndexFunc(ws.kv, func(kv ConfigValue) bool { return kv.Name == key })
	if i < 0 {
		return "", false
	}
	return *ws.kv[i].Value, true
}

func (ws words) get(key, otherwise string) string {
	if v, ok := ws.find(key); ok {
		return v
	}
	return otherwise
}

func (ws words) has(key string) bool { _, ok := ws.find(key); return ok }

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	must(err)
	return n
}

func broker(s string) kafka.BrokerID { return kafka.BrokerID(number(s)) }

func brokers(s string) (ids []kafka.BrokerID) {
	for id := range strings.SplitSeq(s, ",") {
		if id != "" {
			ids = append(ids, broker(id))
		}
	}
	return ids
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
