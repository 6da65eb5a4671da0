package group

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
	"weir/internal/scripttest"
)

// See script.run for the commands.
func TestScripts(t *testing.T) {
	scripttest.Run(t, func(t *testing.T) func(string) string {
		s := newScript()
		t.Cleanup(func() {
			if s.unanswered != 0 && !t.Failed() {
				t.Errorf("%d calls were never answered", s.unanswered)
			}
		})
		return s.runBlock
	})
}

// script runs commands against a shard. Member ids are written as the prefix and a number, in the order in which they are
// first seen: c-1, c-2.
type script struct {
	*runtime
	out        strings.Builder
	names, ids map[string]string // of members: by id, and by name
	numbers    map[string]int    // by prefix
	unanswered int
}

func newScript() *script {
	s := &script{names: make(map[string]string), ids: make(map[string]string), numbers: make(map[string]int)}
	s.runtime = newRuntime(testSettings(), 1)
	s.seen = s.showRecords
	return s
}

func (s *script) runBlock(input string) string {
	s.out.Reset()
	for line := range strings.Lines(input) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			s.run(line)
		}
	}
	return s.out.String()
}

// run executes one line. A request is "label: verb group member … key=value"; without a label its answer shows its verb.
//
//	join g [m] protocols=range:metadata,rr session=10s rebalance=60s    sync g m generation assign=m:bytes,m:bytes
//	heartbeat g m generation    leave g m m/instance /instance    describe g    list states=a,b types=a    delete g
//	commit g [m] [generation] topic=t offset=1                   (all: v=version client=id instance=id type=consumer)
//	tick duration    alive duration g generation m m (a heartbeat each, every 5s; shows the last codes)
//	timers g (what is set for a group)    settings delay=3s max=2
//	hold (commits wait)    commitall    fail CODE (what waits)    refuse CODE (the next append)
//	reload (from the records)
func (s *script) run(line string) {
	label, rest, labelled := strings.Cut(line, ": ")
	if !labelled {
		rest = line
		label, _, _ = strings.Cut(line, " ")
	}
	ws := parseWords(rest)
	switch verb := ws.name(0); verb {
	case "settings":
		s.set(ws)
	case "tick":
		d, err := time.ParseDuration(ws.name(1))
		must(err)
		s.advance(d)
	case "alive":
		d, err := time.ParseDuration(ws.name(1))
		must(err)
		s.alive(d, ws)
	case "timers":
		s.showTimers(ws.name(1))
	case "hold":
		s.hold = true
	case "commitall":
		s.hold = false
		s.commit(nil)
	case "fail":
		s.hold = false
		s.commit(kafka.Errorf(codeNamed(ws.name(1)), ""))
	case "refuse":
		s.refuse = kafka.Errorf(codeNamed(ws.name(1)), "")
	case "reload":
		s.unanswered = 0
		s.reload()
	default:
		s.call(label, ws, s.body(ws))
	}
}

func (s *script) set(ws words) {
	if d := ws.milliseconds("delay", -time.Millisecond); d >= 0 {
		s.settings.InitialRebalanceDelay = milliseconds(d)
	}
	s.settings.MaxSize = int32(ws.number("max", int(s.settings.MaxSize)))
	s.shard.settings = s.settings
}

func (s *script) call(label string, ws words, body any) {
	s.unanswered++
	answered := false
	s.step(&coordinator.Call{
		Body: body, ClientID: ws.get("client", "c"), ClientHost: "/127.0.0.1",
		Done: func(body any, err error) {
			if answered {
				panic(label + " answered twice")
			}
			answered = true
			s.unanswered--
			if err != nil {
				s.printf("%s: %s\n", label, errorText(err))
				return
			}
			s.printf("%s: %s\n", label, s.show(body))
		},
	})
	for _, g := range s.shard.groups { // one call makes at most one member
		for _, m := range g.list {
			s.name(m.id)
		}
	}
}

func (s *script) alive(d time.Duration, ws words) {
	last := make(map[string]string)
	for end := s.now.Add(d); s.now.Before(end); {
		s.advance(min(5*time.Second, end.Sub(s.now)))
		for _, m := range ws.names[4:] {
			beat := words{names: []string{"heartbeat", ws.name(2), m, ws.name(3)}}
			s.step(&coordinator.Call{Body: s.body(beat), Done: func(body any, err error) { last[m] = s.show(body) }})
		}
	}
	for _, m := range ws.names[4:] {
		s.printf("%s: %s\n", m, last[m])
	}
}

func (s *script) body(ws words) any {
	version := func(latest int) int16 { return int16(ws.number("v", latest)) }
	group, memberID := ws.name(1), s.id(ws.name(2))
	generation := func() int32 {
		if ws.name(3) == "" {
			return -1
		}
		n, err := strconv.Atoi(ws.name(3))
		must(err)
		return int32(n)
	}
	switch verb := ws.name(0); verb {
	case "join":
		q := kmsg.NewPtrJoinGroupRequest()
		q.Version, q.Group, q.MemberID, q.InstanceID = version(9), group, memberID, ws.optional("instance")
		q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = ws.milliseconds("session", 10*time.Second), ws.milliseconds("rebalance", time.Minute)
		q.ProtocolType, q.Reason = ws.get("type", "consumer"), ws.optional("reason")
		for _, p := range split(ws.get("protocols", "range"), ",") {
			name, metadata, _ := strings.Cut(p, ":")
			q.Protocols = append(q.Protocols, kmsg.JoinGroupRequestProtocol{Name: name, Metadata: memberBytes(metadata)})
		}
		return q
	case "sync":
		q := kmsg.NewPtrSyncGroupRequest()
		q.Version, q.Group, q.MemberID, q.Generation, q.InstanceID = version(5), group, memberID, generation(), ws.optional("instance")
		q.ProtocolType, q.Protocol = new("consumer"), new("range")
		if _, given := ws.kv["type"]; given {
			q.ProtocolType = ws.optional("type")
		}
		if _, given := ws.kv["protocol"]; given {
			q.Protocol = ws.optional("protocol")
		}
		for _, a := range split(ws.get("assign", ""), ",") {
			m, assignment, _ := strings.Cut(a, ":")
			q.GroupAssignment = append(q.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: s.id(m), MemberAssignment: []byte(assignment)})
		}
		return q
	case "heartbeat":
		q := kmsg.NewPtrHeartbeatRequest()
		q.Version, q.Group, q.MemberID, q.Generation, q.InstanceID = version(4), group, memberID, generation(), ws.optional("instance")
		return q
	case "leave":
		q := kmsg.NewPtrLeaveGroupRequest()
		q.Version, q.Group, q.MemberID = version(5), group, memberID
		for _, who := range ws.names[min(2, len(ws.names)):] {
			m := kmsg.NewLeaveGroupRequestMember()
			name, instance, static := strings.Cut(who, "/")
			if m.MemberID = s.id(name); static {
				m.InstanceID = &instance
			}
			m.Reason = ws.optional("reason")
			q.Members = append(q.Members, m)
		}
		return q
	case "commit":
		q := kmsg.NewPtrOffsetCommitRequest()
		q.Version, q.Group, q.MemberID, q.Generation, q.InstanceID = version(9), group, memberID, generation(), ws.optional("instance")
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset = int64(ws.number("offset", 1))
		q.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: ws.get("topic", "t"), Partitions: []kmsg.OffsetCommitRequestTopicPartition{p}}}
		return q
	case "describe":
		return Describe{Group: group, Version: version(6)}
	case "list":
		return List{States: split(ws.get("states", ""), ","), Types: split(ws.get("types", ""), ",")}
	case "delete":
		return Delete{Group: group}
	default:
		panic("unknown command " + verb)
	}
}

// memberBytes are what a member says in a protocol: a text, or with + the subscription of a consumer to topics.
func memberBytes(s string) []byte {
	if topics, is := strings.CutPrefix(s, "+"); is {
		return subscriptionBytes(3, strings.Split(topics, "+")...)
	}
	return []byte(s)
}

func (s *script) showRecords(_ coordinator.Input, out *coordinator.Output) {
	what := "record"
	if s.refuse != nil {
		what = "refused"
	}
	for _, r := range out.Records {
		s.printf("  %s %s\n", what, s.record(r))
	}
}

func (s *script) record(r coordinator.Record) string {
	switch kind, err := recordKind(r.Key); {
	case err != nil:
		return err.Error()
	case kind == recordOffsetCommit:
		k, err := parseOffsetKey(r.Key)
		must(err)
		if r.Value == nil {
			return fmt.Sprintf("%s: no offset of %s-%d", k.Group, k.Topic, k.Partition)
		}
		c, err := parseOffsetValue(r.Value)
		must(err)
		return fmt.Sprintf("%s: %s-%d at %d", k.Group, k.Topic, k.Partition, c.offset)
	}
	id, err := parseMetadataKey(r.Key)
	must(err)
	if r.Value == nil {
		return id + ": no group"
	}
	m, err := parseMetadata(r.Value)
	must(err)
	text := fmt.Sprintf("%s: generation=%d type=%q protocol=%s leader=%s since=%s", id, m.Generation, m.ProtocolType, orNull(m.Protocol), s.name(orNull(m.Leader)), s.ago(m.StateTimestamp))
	for _, x := range m.Members {
		text += fmt.Sprintf("\n    %s %q → %q session=%v rebalance=%v client=%s%s", s.memberName(x.ID, x.InstanceID), x.Subscription, x.Assignment,
			milliseconds(x.SessionTimeout), milliseconds(x.RebalanceTimeout), x.ClientID, x.ClientHost)
	}
	return text
}

func (s *script) ago(ms int64) string {
	if ms == -1 {
		return "unknown"
	}
	return time.UnixMilli(ms).Sub(time.UnixMilli(1_700_000_000_000)).String()
}

func (s *script) show(body any) string {
	switch r := body.(type) {
	case *kmsg.JoinGroupResponse:
		text := codeName(r.ErrorCode)
		if r.MemberID != "" {
			text += " " + s.name(r.MemberID)
		}
		if r.Generation != -1 || r.LeaderID != "" {
			text += fmt.Sprintf(" generation=%d type=%s protocol=%s leader=%s", r.Generation, orNull(r.ProtocolType), orNull(r.Protocol), s.name(r.LeaderID))
		}
		if r.SkipAssignment {
			text += " skip"
		}
		for _, m := range r.Members {
			text += fmt.Sprintf(" [%s %q]", s.memberName(m.MemberID, m.InstanceID), m.ProtocolMetadata)
		}
		return text
	case *kmsg.SyncGroupResponse:
		if r.ErrorCode != 0 {
			return codeName(r.ErrorCode)
		}
		return fmt.Sprintf("NONE type=%s protocol=%s %q", orNull(r.ProtocolType), orNull(r.Protocol), r.MemberAssignment)
	case *kmsg.HeartbeatResponse:
		return codeName(r.ErrorCode)
	case *kmsg.LeaveGroupResponse:
		text := codeName(r.ErrorCode)
		for _, m := range r.Members {
			text += fmt.Sprintf(" [%s %s]", s.memberName(m.MemberID, m.InstanceID), codeName(m.ErrorCode))
		}
		return text
	case *kmsg.OffsetCommitResponse:
		return codeName(r.Topics[0].Partitions[0].ErrorCode)
	case *kmsg.DescribeGroupsResponseGroup:
		text := fmt.Sprintf("%s %s type=%q protocol=%q", codeName(r.ErrorCode), r.State, r.ProtocolType, r.Protocol)
		if r.ErrorMessage != nil {
			text += ": " + *r.ErrorMessage
		}
		for _, m := range r.Members {
			text += fmt.Sprintf("\n  %s client=%s%s %q → %q", s.memberName(m.MemberID, m.InstanceID), m.ClientID, m.ClientHost, m.ProtocolMetadata, m.MemberAssignment)
		}
		return text
	case []kmsg.ListGroupsResponseGroup:
		text := ""
		for _, g := range r {
			text += fmt.Sprintf("[%s %q %s %s]", g.Group, g.ProtocolType, g.GroupState, g.GroupType)
		}
		return text
	case nil:
		return "done"
	case error:
		return errorText(r)
	}
	panic(fmt.Sprintf("unknown answer %T", body))
}

func (s *script) showTimers(group string) {
	type line struct {
		at   time.Duration
		text string
	}
	var lines []line
	for key, t := range s.timers {
		l := line{at: t.at.Sub(s.now)}
		switch k := key.(type) {
		case sessionTimer:
			if k.m.group.id == group {
				l.text = "session " + s.name(k.m.id)
			}
		case joinTimer:
			if k.g.id == group {
				l.text = "join"
			}
		case syncTimer:
			if k.g.id == group {
				l.text = "sync"
			}
		}
		if l.text != "" {
			lines = append(lines, l)
		}
	}
	slices.SortFunc(lines, func(a, b line) int { return strings.Compare(a.text, b.text) })
	for _, l := range lines {
		s.printf("  %s in %v\n", l.text, l.at)
	}
}

func (s *script) printf(format string, args ...any) { fmt.Fprintf(&s.out, format, args...) }

var generatedID = regexp.MustCompile(`^(.*)-[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// name returns what a member is called in the script.
func (s *script) name(id string) string {
	if name, known := s.names[id]; known {
		return name
	}
	parts := generatedID.FindStringSubmatch(id)
	if parts == nil {
		return id
	}
	s.numbers[parts[1]]++
	name := fmt.Sprintf("%s-%d", parts[1], s.numbers[parts[1]])
	s.names[id], s.ids[name] = name, id
	return name
}

func (s *script) memberName(id string, instance *string) string {
	if instance == nil {
		return s.name(id)
	}
	return s.name(id) + "/" + *instance
}

// id returns the id of a member that the script names.
func (s *script) id(name string) string {
	if id, known := s.ids[name]; known {
		return id
	}
	return name
}

func codeNamed(name string) kafka.Code {
	for code := kafka.Code(-1); code < 200; code++ {
		if code.String() == name {
			return code
		}
	}
	panic("unknown code " + name)
}
