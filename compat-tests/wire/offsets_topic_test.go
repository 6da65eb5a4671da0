package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

const offsetsTopic = "__consumer_offsets"

// offsetsPartition is where everything of a group is kept: lag tools know it as well as the broker does.
func offsetsPartition(group string, partitions int) int32 {
	hash := int32(0)
	for _, c := range group { // of ASCII
		hash = 31*hash + c
	}
	if hash == math.MinInt32 {
		return 0
	}
	return max(hash, -hash) % int32(partitions)
}

// reader takes bytes apart as lag tools do: by the published layout, and not by the code that wrote them. After an error it
// reads zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.rest) {
		r.err = errors.Join(r.err, fmt.Errorf("%d bytes wanted, %d left", n, len(r.rest)))
		return make([]byte, max(n, 0)&0xff)
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) int16() int16 { return int16(binary.BigEndian.Uint16(r.take(2))) }
func (r *reader) int32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }
func (r *reader) int64() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }

func (r *reader) uvarint() int {
	v, n := binary.Uvarint(r.rest)
	r.take(max(n, 1))
	return int(v)
}

func (r *reader) string() string        { return string(r.take(int(r.int16()))) }
func (r *reader) bytes() []byte         { return r.take(int(r.int32())) }
func (r *reader) compactString() string { return string(r.take(r.uvarint() - 1)) }

func (r *reader) nullable() *string {
	n := r.int16()
	if n == -1 {
		return nil
	}
	return kmsg.StringPtr(string(r.take(int(n))))
}

// end checks that nothing is left.
func (r *reader) end(t *testing.T, what string) {
	t.Helper()
	if len(r.rest) > 0 {
		r.err = errors.Join(r.err, fmt.Errorf("%d bytes are left: % x", len(r.rest), r.rest))
	}
	if r.err != nil {
		t.Errorf("%s: %v", what, r.err)
	}
}

// kept is one record about a group.
type kept struct {
	kind       int16 // 1: an offset; 2: the group
	topic      string
	partition  int32
	tombstone  bool
	offset     int64
	epoch      int32
	metadata   string
	topicID    [16]byte
	at         int64 // of the commit, or of the group's state; ms
	typ        string
	generation int32
	protocol   *string
	leader     *string
	members    []keptMember
}

type keptMember struct {
	id                 string
	instance           *string
	client, host       string
	rebalance, session int32
	subscription       string
	assignment         string
}

// readKept decodes a record; ok is whether it is about that group.
func readKept(t *testing.T, r kmsg.Record, group string) (k kept, ok bool) {
	t.Helper()
	key, value := &reader{rest: r.Key}, &reader{rest: r.Value}
	k.kind, k.tombstone = key.int16(), r.Value == nil
	if k.kind < 0 || k.kind > 2 || key.string() != group {
		return k, false
	}
	if k.kind < 2 {
		k.topic, k.partition = key.string(), key.int32()
	}
	key.end(t, "the key of a record")
	switch {
	case k.tombstone:
	case k.kind < 2:
		k.readOffset(t, value)
	default:
		k.readGroup(t, value)
	}
	value.end(t, "the value of a record")
	return k, true
}

func (k *kept) readOffset(t *testing.T, r *reader) {
	switch version := r.int16(); version {
	case 3:
		k.offset, k.epoch, k.metadata, k.at = r.int64(), r.int32(), r.string(), r.int64()
	case 4:
		k.offset, k.epoch, k.metadata, k.at = r.int64(), r.int32(), r.compactString(), r.int64()
		for range r.uvarint() {
			if tag, size := r.uvarint(), r.uvarint(); tag == 0 {
				k.topicID = [16]byte(r.take(size))
			} else {
				r.take(size)
			}
		}
	default:
		t.Errorf("a committed offset of version %d", version)
	}
}

func (k *kept) readGroup(t *testing.T, r *reader) {
	if version := r.int16(); version != 3 {
		t.Errorf("a group of version %d", version)
	}
	k.typ, k.generation, k.protocol, k.leader, k.at = r.string(), r.int32(), r.nullable(), r.nullable(), r.int64()
	for range r.int32() {
		k.members = append(k.members, keptMember{id: r.string(), instance: r.nullable(), client: r.string(), host: r.string(),
			rebalance: r.int32(), session: r.int32(), subscription: string(r.bytes()), assignment: string(r.bytes())})
	}
}

// history reads what is on record about a group, from an offset on, and returns where it ends.
func history(t *testing.T, c *conn, group string, partition int32, from int64) (all []kept, end int64) {
	t.Helper()
	end = endOffsetOf(t, c, offsetsTopic, partition)
	for from < end {
		p := fetch(t, c, offsetsTopic, partition, from)
		if p.ErrorCode != 0 {
			t.Fatalf("reading %s[%d] from %d: %s", offsetsTopic, partition, from, codeName(p.ErrorCode))
		}
		for _, b := range readBatches(t, p.RecordBatches) {
			for _, r := range b.decoded(t) {
				if k, ok := readKept(t, r, group); ok {
					all = append(all, k)
				}
			}
			from = b.FirstOffset + int64(b.LastOffsetDelta) + 1
		}
	}
	return all, end
}

// Burrow, kminion and others read the topic of the offsets to see what groups do, without asking anybody. It has to be where
// they look, what they expect, and in the form that they read.
func TestTheTopicOfTheOffsetsIsReadByTools(t *testing.T) {
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 3)
	group := newGroup(t, address)
	c := dial(t, address)
	row := metadataOf(t, c, offsetsTopic)
	if row.ErrorCode != 0 || !row.IsInternal {
		t.Errorf("%s: %s, internal: %v", offsetsTopic, codeName(row.ErrorCode), row.IsInternal)
	}
	if got := topicConfig(t, c, offsetsTopic, "cleanup.policy"); text(got.Value) != "compact" {
		t.Errorf("its cleanup.policy is %s", text(got.Value))
	}
	partition := offsetsPartition(group, len(row.Partitions))
	next := endOffsetOf(t, c, offsetsTopic, partition)
	step := func(what string) []kept {
		t.Helper()
		var records []kept
		records, next = history(t, c, group, partition, next)
		for i := range records {
			if k := &records[i]; !k.tombstone {
				if age := time.Since(time.UnixMilli(k.at)); age < -time.Minute || age > time.Minute {
					t.Errorf("%s: a time of %v ago", what, age)
				}
				k.at = 0
			}
		}
		return records
	}
	wantOffset := func(what string, got kept, partition int32, offset int64, epoch int32, metadata string) {
		t.Helper()
		if got.kind != 1 || got.topic != topic.name || got.partition != partition || got.offset != offset || got.epoch != epoch || got.metadata != metadata || got.topicID != topic.id {
			t.Errorf("%s is on record as %+v", what, got)
		}
	}

	req := commitRequest(group, topic.name, 1, 42)
	addCommit(req, topic.name, 2, 43)
	req.Topics[0].Partitions[0].LeaderEpoch, req.Topics[0].Partitions[0].Metadata = 0, kmsg.StringPtr("a note")
	for _, p := range ask(t, c, req).Topics[0].Partitions {
		wantCode(t, "a commit", p.ErrorCode, nil)
	}
	records := step("a commit")
	if len(records) != 2 {
		t.Fatalf("a commit of two partitions is on record as %+v", records)
	}
	wantOffset("a commit", records[0], 1, 42, 0, "a note")
	wantOffset("a commit", records[1], 2, 43, -1, "")

	m, static := newMember(t, address, group).consumerOf(topic.name), newMember(t, address, group).consumerOf(topic.name).static("rack-1")
	static.entry.SessionTimeoutMillis, static.entry.RebalanceTimeoutMillis = 20_000, 40_000
	settle(t, m, static)
	records = step("a generation")
	last := records[len(records)-1]
	if last.kind != 2 || last.typ != "consumer" || last.generation != m.joined.Generation || text(last.protocol) != "range" || text(last.leader) != m.joined.LeaderID {
		t.Errorf("a generation is on record as %+v", last)
	}
	subscription := string(m.entry.Protocols[0].Metadata)
	want := []keptMember{
		{id: m.id(), client: clientID, host: "/127.0.0.1", rebalance: sessionMillis, session: sessionMillis, subscription: subscription, assignment: assignmentOf(m)},
		{id: static.id(), client: clientID, host: "/127.0.0.1", rebalance: 40_000, session: 20_000, subscription: subscription, assignment: assignmentOf(static)},
	}
	for _, k := range last.members {
		i := slices.IndexFunc(want, func(w keptMember) bool { return w.id == k.id })
		if i < 0 {
			t.Errorf("a member that there is not: %+v", k)
			continue
		}
		if (k.instance != nil) != (k.id == static.id()) || k.instance != nil && *k.instance != "rack-1" {
			t.Errorf("member %s has instance %s", k.id, text(k.instance))
		}
		if k.instance = nil; k != want[i] {
			t.Errorf("a member is on record as %+v, want %+v", k, want[i])
		}
	}
	if len(last.members) != len(want) {
		t.Errorf("%d members are on record", len(last.members))
	}
	wantCode(t, "a commit", commit(t, c, m.commitRequest(topic.name, 0, 7)), nil)
	if records = step("a member's commit"); len(records) != 1 {
		t.Fatalf("a member's commit is on record as %+v", records)
	}
	wantOffset("a member's commit", records[0], 0, 7, -1, "")

	m.leave(t)
	static.leave(t)
	records = step("an empty group")
	if last := records[len(records)-1]; last.kind != 2 || last.typ != "consumer" || last.protocol != nil || last.leader != nil || len(last.members) != 0 {
		t.Errorf("an empty group is on record as %+v", last)
	}
	if whole, code := deleteOffset(t, c, group, topic.name); whole != 0 || code != 0 {
		t.Errorf("deleting an offset: %d, %d", whole, code)
	}
	if records = step("a deleted offset"); len(records) != 1 || !records[0].tombstone || records[0].kind != 1 || records[0].partition != 0 {
		t.Errorf("a deleted offset is on record as %+v", records)
	}
	wantCode(t, "deleting the group", deleteGroup(t, c, group), nil)
	gone := make(map[string]bool)
	for _, k := range step("a deleted group") {
		gone[fmt.Sprint(k.kind, " ", k.topic, " ", k.partition, " ", k.tombstone)] = true
	}
	for _, want := range []string{fmt.Sprintf("1 %s 1 true", topic.name), fmt.Sprintf("1 %s 2 true", topic.name), "2  0 true"} {
		if !gone[want] {
			t.Errorf("of a deleted group there is no record %q: %v", want, gone)
		}
	}
}
