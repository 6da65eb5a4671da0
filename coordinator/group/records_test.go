package group

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/coordinator"
	"weir/internal/kafka"
)

// kafkaRecords are the records of testdata/kafka-records.hex by name.
func kafkaRecords(t testing.TB) map[string]coordinator.Record {
	t.Helper()
	file, err := os.ReadFile("testdata/kafka-records.hex")
	if err != nil {
		t.Fatal(err)
	}
	records := make(map[string]coordinator.Record)
	for line := range strings.Lines(string(file)) {
		fields := strings.Fields(line)
		if len(fields) != 3 || fields[0] == "#" {
			continue
		}
		r := coordinator.Record{Key: unhex(t, fields[1])}
		if fields[2] != "-" {
			r.Value = unhex(t, fields[2])
		}
		records[fields[0]] = r
	}
	return records
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const (
	ordersID       = "pUORwgdVRvO3Hg03b6l_tQ"
	dynamicMember  = "reader-6e189f19-ae82-4e05-960d-051850e23f1b"
	staticMember   = "inst-87e8219f-821b-4258-ba35-79a13975f88e"
	ordersMetadata = "méta 😀"
)

// TestRecordsAreKafkas holds what is written to the bytes that Kafka writes of the same, and what is read of them to what
// was asked of Kafka.
func TestRecordsAreKafkas(t *testing.T) {
	id, err := kafka.ParseUUID(ordersID)
	if err != nil {
		t.Fatal(err)
	}
	subscription := unhex(t, "00030000000100066f7264657273ffffffff00000000ffffffffffff")
	assignment := unhex(t, "00000000000100066f7264657273000000020000000000000001ffffffff")
	classicMetadata := func(generation int32, stateTimestamp int64, members ...member) *metadata {
		m := &metadata{ProtocolType: "consumer", Generation: generation, StateTimestamp: stateTimestamp, Members: []member{}}
		if len(members) > 0 {
			m.Protocol, m.Leader, m.Members = new("range"), &members[0].ID, members
		}
		return m
	}
	reader := member{ID: dynamicMember, ClientID: "reader", ClientHost: "/127.0.0.1", RebalanceTimeout: 50_000, SessionTimeout: 30_000,
		Subscription: subscription, Assignment: assignment}
	static := reader
	static.ID, static.InstanceID = staticMember, new("inst")

	now := time.UnixMilli(77)
	records := kafkaRecords(t)
	for _, c := range []struct {
		name, group string
		partition   int32
		committed   *committed
		metadata    *metadata
	}{
		{name: "offset", group: "plain", partition: 1,
			committed: &committed{offset: 42, leaderEpoch: 7, metadata: ordersMetadata, timestamp: 1796124369895, expires: -1, topicID: id}},
		{name: "offset-tombstone", group: "plain", partition: 1},
		{name: "offset-negative", group: "negative",
			committed: &committed{offset: -5, leaderEpoch: 7, timestamp: 1796124370053, expires: -1, topicID: id}},
		{name: "offset-no-epoch", group: "no epoch", partition: 1,
			committed: &committed{offset: 42, leaderEpoch: -1, metadata: ordersMetadata, timestamp: 1796124370070, expires: -1, topicID: id}},
		{name: "offset-expiring", group: "expiring", partition: 1,
			committed: &committed{offset: 42, leaderEpoch: -1, metadata: ordersMetadata, timestamp: 1796124370091, expires: 1796124370091 + 3600_000}},
		{name: "offset-group-less", group: "", partition: 1,
			committed: &committed{offset: 42, leaderEpoch: 7, timestamp: 1796124370124, expires: -1, topicID: id}},
		{name: "group-new", group: "readers", metadata: &metadata{StateTimestamp: 1796124370209, Members: []member{}}},
		{name: "group-dynamic", group: "readers", metadata: classicMetadata(1, 1796124370259, reader)},
		{name: "group-static", group: "readersinst", metadata: classicMetadata(1, 1796124374212, static)},
		{name: "group-left", group: "readers", metadata: classicMetadata(2, 1796124374192)},
		{name: "group-tombstone", group: "deleted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			kafkas, known := records[c.name]
			if !known {
				t.Fatal("no such record")
			}
			delete(records, c.name)
			var written coordinator.Record
			switch {
			case c.committed != nil:
				written = offsetRecord(now, c.group, "orders", c.partition, *c.committed)
			case c.metadata != nil:
				written = groupMetadataRecord(now, c.group, c.metadata)
			case c.name == "offset-tombstone":
				written = offsetTombstone(now, c.group, "orders", c.partition)
			default:
				written = groupTombstone(now, c.group)
			}
			kafkas.Timestamp = 77
			if !reflect.DeepEqual(written, kafkas) {
				t.Errorf("written\n%x\n%x, by Kafka\n%x\n%x", written.Key, written.Value, kafkas.Key, kafkas.Value)
			}

			s := newOffsetShard()
			if err := s.Apply(kafkas); err != nil {
				t.Fatal(err)
			}
			if got := s.hard.offsets.get(c.group, "orders", c.partition); !reflect.DeepEqual(got, c.committed) {
				t.Errorf("offset %+v, want %+v", got, c.committed)
			}
			if got := s.hard.metadata[c.group]; !reflect.DeepEqual(got, c.metadata) {
				t.Errorf("metadata %+v, want %+v", got, c.metadata)
			}
		})
	}
	if len(records) > 0 {
		t.Errorf("nobody asks for %v", records)
	}
}

// TestOldVersionsAreRead reads what earlier versions of Kafka have left, and the tags of later ones.
func TestOldVersionsAreRead(t *testing.T) {
	const offsetKey = "0000000167" + "000174" + "00000003" // kind 0, group "g", topic "t"
	for name, c := range map[string]struct {
		value string
		want  committed
	}{
		"v0":           {"0000" + "0000000000000005" + "00016d" + "0000000000000007", committed{offset: 5, metadata: "m", timestamp: 7, expires: -1, leaderEpoch: -1}},
		"v1":           {"0001" + "0000000000000005" + "00016d" + "0000000000000007" + "0000000000000009", committed{offset: 5, metadata: "m", timestamp: 7, expires: 9, leaderEpoch: -1}},
		"v1 default":   {"0001" + "0000000000000005" + "00016d" + "0000000000000007" + "ffffffffffffffff", committed{offset: 5, metadata: "m", timestamp: 7, expires: -1, leaderEpoch: -1}},
		"v2":           {"0002" + "0000000000000005" + "00016d" + "0000000000000007", committed{offset: 5, metadata: "m", timestamp: 7, expires: -1, leaderEpoch: -1}},
		"v3":           {"0003" + "0000000000000005" + "00000000" + "00016d" + "0000000000000007", committed{offset: 5, metadata: "m", timestamp: 7, expires: -1}},
		"v4":           {"0004" + "0000000000000005" + "00000002" + "026d" + "0000000000000007" + "00", committed{offset: 5, metadata: "m", timestamp: 7, expires: -1, leaderEpoch: 2}},
		"v4 other tag": {"0004" + "0000000000000005" + "00000002" + "026d" + "0000000000000007" + "01" + "630401020304", committed{offset: 5, metadata: "m", timestamp: 7, expires: -1, leaderEpoch: 2}},
	} {
		s := newOffsetShard()
		if err := s.Apply(coordinator.Record{Key: unhex(t, offsetKey), Value: unhex(t, c.value)}); err != nil {
			t.Errorf("offset %s: %v", name, err)
		} else if got := s.hard.offsets.get("g", "t", 3); got == nil || *got != c.want {
			t.Errorf("offset %s: %+v, want %+v", name, got, c.want)
		}
	}

	const (
		groupKey = "0002" + "000167"
		head     = "000170" + "00000004" + "ffff" + "00016c"    // type "p", generation 4, no protocol, leader "l"
		v0member = "000169" + "000163" + "000168"               // id, client id, host
		tail     = "00000010" + "000000020102" + "0000000103"   // session timeout, subscription, assignment
		instance = "000173"                                     // "s"
		flexHead = "0270" + "00000004" + "00" + "026c"          // the same in compact strings
		flexBody = "0269" + "0273" + "0263" + "0268"            // id, instance, client id, host
		flexTail = "00000010" + "030102" + "0203" + "00" + "00" // with two ends of tags
	)
	plain := member{ID: "i", ClientID: "c", ClientHost: "h", RebalanceTimeout: 16, SessionTimeout: 16, Subscription: []byte{1, 2}, Assignment: []byte{3}}
	timed := plain
	timed.RebalanceTimeout = 32
	named := timed
	named.InstanceID = new("s")
	for name, c := range map[string]struct {
		value     string
		timestamp int64
		member    member
	}{
		"v0": {"0000" + head + "00000001" + v0member + tail, -1, plain},
		"v1": {"0001" + head + "00000001" + v0member + "00000020" + tail, -1, timed},
		"v2": {"0002" + head + "0000000000000007" + "00000001" + v0member + "00000020" + tail, 7, timed},
		"v3": {"0003" + head + "0000000000000007" + "00000001" + "000169" + instance + "000163" + "000168" + "00000020" + tail, 7, named},
		"v4": {"0004" + flexHead + "0000000000000007" + "02" + flexBody + "00000020" + flexTail, 7, named},
	} {
		want := &metadata{ProtocolType: "p", Generation: 4, Leader: new("l"), StateTimestamp: c.timestamp, Members: []member{c.member}}
		s := newOffsetShard()
		if err := s.Apply(coordinator.Record{Key: unhex(t, groupKey), Value: unhex(t, c.value)}); err != nil {
			t.Errorf("group %s: %v", name, err)
		} else if got := s.hard.metadata["g"]; !reflect.DeepEqual(got, want) {
			t.Errorf("group %s: %+v, want %+v", name, got, want)
		}
	}
}

func TestUnknownKindsAreSkipped(t *testing.T) {
	s := newOffsetShard()
	for _, key := range []string{"0003000167", "000f00", "7fff", "ffff"} {
		if err := s.Apply(coordinator.Record{Key: unhex(t, key), Value: []byte{1}}); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if len(s.hard.metadata) != 0 || len(s.hard.offsets.byGroup) != 0 {
		t.Error("something was kept of them")
	}
}

func TestMalformedRecordsAreNamed(t *testing.T) {
	whole := kafkaRecords(t)
	for _, c := range []struct {
		name, says string
		key, value []byte
	}{
		{"no key", "kind", nil, nil},
		{"a byte of a key", "kind", []byte{0}, nil},
		{"half an offset key", "key of an offset commit", whole["offset"].Key[:10], nil},
		{"half an offset", "value of an offset commit", whole["offset"].Key, whole["offset"].Value[:10]},
		{"an empty offset", "value of an offset commit", whole["offset"].Key, []byte{}},
		{"an offset of the future", "version 5", whole["offset"].Key, append([]byte{0, 5}, whole["offset"].Value[2:]...)},
		{"half a group key", "key of a group's metadata", whole["group-left"].Key[:5], nil},
		{"half a group", "value of a group's metadata", whole["group-left"].Key, whole["group-static"].Value[:100]},
		{"a group of the future", "version 5", whole["group-left"].Key, append([]byte{0, 5}, whole["group-left"].Value[2:]...)},
		{"a group of two thousand million members", "value of a group's metadata", whole["group-left"].Key,
			append(bytes.Clone(whole["group-left"].Value[:len(whole["group-left"].Value)-4]), 0x7f, 0xff, 0xff, 0xff)},
	} {
		s := newOffsetShard()
		err := s.Apply(coordinator.Record{Key: c.key, Value: c.value})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, should speak of %q", c.name, err, c.says)
		}
	}
}

// TestNothingKeptAliasesARecord hands over records in one buffer that is overwritten afterwards, as a loader may.
func TestNothingKeptAliasesARecord(t *testing.T) {
	want, got := newOffsetShard(), newOffsetShard()
	buffer := make([]byte, 0, 4096)
	records := kafkaRecords(t)
	records["again"] = coordinator.Record{Key: records["offset"].Key, Value: records["offset-negative"].Value} // without metadata
	for _, name := range []string{"offset", "offset-expiring", "group-static", "again", "offset", "group-dynamic"} {
		r := records[name]
		if err := want.Apply(r); err != nil {
			t.Fatal(err)
		}
		buffer = append(append(buffer[:0], r.Key...), r.Value...)
		if err := got.Apply(coordinator.Record{Key: buffer[:len(r.Key)], Value: buffer[len(r.Key):]}); err != nil {
			t.Fatal(err)
		}
		for i := range buffer {
			buffer[i] = 0xaa
		}
	}
	if !reflect.DeepEqual(got.hard, want.hard) {
		t.Errorf("%+v, want %+v", got.hard, want.hard)
	}
}

// FuzzApply: no bytes make a shard panic, and what it takes in it writes out to the same meaning.
func FuzzApply(f *testing.F) {
	for _, r := range kafkaRecords(f) {
		f.Add(r.Key, r.Value, r.Value == nil)
	}
	f.Add(unhex(f, "000000016700017400000003"), unhex(f, "0000000000000000000500016d0000000000000007"), false)
	f.Add(unhex(f, "0002000167"), unhex(f, "00040270000000040002"), false)
	f.Fuzz(func(t *testing.T, key, value []byte, tombstone bool) {
		if tombstone {
			value = nil
		} else if value == nil {
			value = []byte{}
		}
		s := newOffsetShard()
		if err := s.Apply(coordinator.Record{Key: key, Value: value}); err != nil {
			if len(s.hard.metadata) != 0 || len(s.hard.offsets.byGroup) != 0 {
				t.Fatal("something was kept of a record with an error")
			}
			return
		}
		again := newOffsetShard()
		for id, m := range s.hard.metadata {
			if err := again.Apply(groupMetadataRecord(time.Time{}, id, m)); err != nil {
				t.Fatal(err)
			}
		}
		for id, g := range s.hard.offsets.byGroup {
			for _, topic := range g.topics {
				for _, p := range topic.partitions {
					if p.expires != -1 {
						p.leaderEpoch, p.topicID = -1, kafka.UUID{} // the version that can expire has neither
					}
					if err := again.Apply(offsetRecord(time.Time{}, id, topic.name, p.partition, p.committed)); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		if !reflect.DeepEqual(again.hard, s.hard) {
			t.Fatalf("%+v is written as %+v", s.hard, again.hard)
		}
	})
}

// What has two bytes for its length must not be written where it needs more: nobody could read the record again, and so
// no record of its partition.
func TestRecordsThatCannotBeReadAreNotMade(t *testing.T) {
	fits, long := strings.Repeat("x", maxString), strings.Repeat("x", maxString+1)
	now := time.UnixMilli(1)
	for name, makes := range map[string]func(s string) coordinator.Record{
		"group of an offset": func(s string) coordinator.Record { return offsetTombstone(now, s, "t", 0) },
		"topic":              func(s string) coordinator.Record { return offsetTombstone(now, "g", s, 0) },
		"group":              func(s string) coordinator.Record { return groupTombstone(now, s) },
		"protocol type": func(s string) coordinator.Record {
			return groupMetadataRecord(now, "g", &metadata{ProtocolType: s})
		},
		"protocol": func(s string) coordinator.Record { return groupMetadataRecord(now, "g", &metadata{Protocol: &s}) },
		"leader":   func(s string) coordinator.Record { return groupMetadataRecord(now, "g", &metadata{Leader: &s}) },
		"member": func(s string) coordinator.Record {
			return groupMetadataRecord(now, "g", &metadata{Members: []member{{ID: s}}})
		},
		"instance": func(s string) coordinator.Record {
			return groupMetadataRecord(now, "g", &metadata{Members: []member{{InstanceID: &s}}})
		},
		"client": func(s string) coordinator.Record {
			return groupMetadataRecord(now, "g", &metadata{Members: []member{{ClientID: s}}})
		},
		"host": func(s string) coordinator.Record {
			return groupMetadataRecord(now, "g", &metadata{Members: []member{{ClientHost: s}}})
		},
	} {
		if err := replay(testSettings(), 1, nil).Apply(makes(fits)); err != nil {
			t.Errorf("the longest %s: %v", name, err)
		}
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a record was made with a %s that is too long", name)
				}
			}()
			makes(long)
		}()
	}
}
