package metadata

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/kafka"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/records.txt anew: only for new kinds and versions, never for what is on disks already")

// every has one record of each kind and version, and of each form that a field can have.
func every() []Record {
	value := "v"
	id := func(b byte) kafka.UUID { return kafka.UUID{0: b, 15: b} }
	return []Record{
		FormatRecord{1, "4L6g3nShT-eMCtK--X86sw"},
		QuorumMemberRecord{QuorumMember{RaftID: 0x0102030405060708, Node: 1, Directory: id(1)}},
		QuorumMemberRecord{QuorumMember{RaftID: 0x0102030405060708, Node: 1, Directory: id(1), Host: "node-1", Port: 65535}},
		QuorumMemberRecord{QuorumMember{RaftID: 0x0102030405060708, Node: 1, Directory: id(1), Host: "node-1", Port: 65535, GossipPort: 7946, Controller: true}},
		QuorumMemberRecord{QuorumMember{RaftID: 0x0102030405060708, Node: 1, Directory: id(1), Controller: true}},
		TopicRecord{id(2), "orders"},
		RemoveTopicRecord{id(2)},
		PartitionRecord{id(2), 3, PartitionRegistration{
			Replicas: []kafka.BrokerID{1, 2, 300}, ISR: []kafka.BrokerID{1, 2}, ELR: []kafka.BrokerID{300}, LastKnownELR: []kafka.BrokerID{2},
			Adding: []kafka.BrokerID{300}, Removing: []kafka.BrokerID{1}, Leader: 1, LeaderEpoch: 5, PartitionEpoch: 1000, RecoveryState: Recovering,
			Directories: []kafka.UUID{id(3), id(4), {}},
		}},
		PartitionRecord{id(2), 0, PartitionRegistration{Replicas: []kafka.BrokerID{1}, Leader: -1}},
		RegisterBrokerRecord{BrokerRegistration{
			ID: 1, Epoch: -1, Incarnation: id(5), Listeners: []Endpoint{{"PLAINTEXT", "localhost", 9092, 0}, {"SASL", "h", 65535, 3}}, Rack: "r",
			Fenced: true, InControlledShutdown: true, Directories: []kafka.UUID{id(3)},
		}},
		RegisterBrokerRecord{BrokerRegistration{ID: 1, Epoch: 4711}},
		BrokerChangeRecord{1, 4711, true, false},
		UnregisterBrokerRecord{1, 4711},
		ConfigRecord{ConfigResource{BrokerResource, ""}, "min.insync.replicas", &value},
		ConfigRecord{ConfigResource{TopicResource, "orders"}, "retention.ms", nil},
		ProducerIDsRecord{1 << 40},
		NodeRecord{ID: 300},
		NodeRecord{ID: 3, Directory: id(6)},
		NodeRecord{ID: 3, Directory: id(6), Removed: true},
		GossipKeyRecord{GossipKey(strings.Repeat("k", GossipKeySize))},
		RemoveQuorumMemberRecord{RaftID: 0x0102030405060708},
	}
}

// What is on disks must stay readable: these bytes never change.
func TestGoldenRecords(t *testing.T) {
	var out strings.Builder
	for _, r := range every() {
		entry := AppendEntry(nil, 77, []Record{r})
		fmt.Fprintf(&out, "%T kind %d version %d\n", r, r.Kind(), r.Version())
		for line := range strings.Lines(hex.EncodeToString(entry)) {
			for len(line) > 64 {
				fmt.Fprintf(&out, "  %s\n", line[:64])
				line = line[64:]
			}
			fmt.Fprintf(&out, "  %s\n", line)
		}
	}
	const golden = "testdata/records.txt"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("got\n%s", out.String())
	}
}

func decodeAll(value []byte) (base int64, records []Record, err error) {
	e, err := ParseEntry(value)
	if err != nil {
		return 0, nil, err
	}
	for r, err := range e.Records() {
		if err != nil {
			return 0, nil, err
		}
		records = append(records, r)
	}
	return e.Base, records, nil
}

func TestRecordsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		records := append(every(), RegisterBrokerRecord{drawBroker(t)}, PartitionRecord{PartitionRegistration: drawRegistration(t)}, drawConfig(t))
		base, got, err := decodeAll(AppendEntry(nil, 77, records))
		if err != nil || base != 77 || !reflect.DeepEqual(got, records) {
			t.Fatalf("%v %v\n%+v, want\n%+v", base, err, got, records)
		}
	})
}

func TestUnknownKindsAndVersionsAreNamed(t *testing.T) {
	for _, c := range []struct {
		name  string
		entry []byte
		want  UnknownRecordError
	}{
		{"kind", []byte{0, 1, 99, 0, 2, 'x', 'y'}, UnknownRecordError{99, 0}},
		{"version", []byte{0, 1, kindTopic, 3, 0}, UnknownRecordError{kindTopic, 3}},
		{"version of a member", []byte{0, 1, kindQuorumMember, 3, 0}, UnknownRecordError{kindQuorumMember, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := Apply(formatted(t), 1, 1, c.entry)
			var unknown *UnknownRecordError
			if !errors.As(err, &unknown) || *unknown != c.want {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("kind %d version %d is not known to this version of weir", c.want.Kind, c.want.Version); !strings.Contains(err.Error(), want) {
				t.Fatalf("%q does not say %q", err, want)
			}
		})
	}
}

// Each of these differs from a sound entry in one place.
func TestCorruptEntries(t *testing.T) {
	sound := AppendEntry(nil, 0, []Record{TopicRecord{kafka.UUID{1}, "t"}})
	if _, _, err := decodeAll(sound); err != nil {
		t.Fatal(err)
	}
	for name, entry := range map[string][]byte{
		"empty":                nil,
		"base below -1":        {3, 0},
		"count":                {0, 200, 1},
		"left over":            append(bytes.Clone(sound), 0),
		"long varint":          {0x80, 0, 0},
		"endless varint":       bytes.Repeat([]byte{0xff}, 11),
		"body cut":             sound[:len(sound)-1],
		"body too long":        append(bytes.Replace(sound, []byte{18}, []byte{19}, 1), 0),
		"bool":                 {0, 1, kindBrokerChange, 0, 4, 2, 2, 2, 0},
		"not UTF-8":            {0, 1, kindFormat, 0, 3, 1, 1, 0xff},
		"empty rack":           {0, 1, kindRegisterBroker, 0, 23, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0},
		"empty address":        append([]byte{0, 1, kindQuorumMember, 1, 27}, make([]byte, 27)...),
		"neither gossip":       append([]byte{0, 1, kindQuorumMember, 2, 29}, make([]byte, 29)...),
		"short gossip key":     append([]byte{0, 1, kindGossipKey, 0, 31}, make([]byte, 31)...),
		"long gossip key":      append([]byte{0, 1, kindGossipKey, 0, 33}, make([]byte, 33)...),
		"nothing is removed":   append([]byte{0, 1, kindNode, 0, 18, 2}, append(make([]byte, 16), 1)...),
		"negative node id":     append([]byte{0, 1, kindNode, 0, 18, 1}, make([]byte, 17)...),
		"node id of 33 bits":   {0, 1, kindUnregisterBroker, 0, 6, 0x80, 0x80, 0x80, 0x80, 0x20, 0},
		"directories mismatch": AppendEntry(nil, 0, []Record{PartitionRecord{PartitionRegistration: PartitionRegistration{Directories: make([]kafka.UUID, 1)}}}),
	} {
		var corrupt *CorruptEntryError
		if _, _, err := decodeAll(entry); !errors.As(err, &corrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What clients named and set is read again, whatever bytes it was made of.
func TestWhatIsWrittenIsText(t *testing.T) {
	value := "\xc3\x28"
	_, got, err := decodeAll(AppendEntry(nil, 0, []Record{ConfigRecord{ConfigResource{BrokerResource, ""}, "a\xffb", &value}}))
	if err != nil {
		t.Fatal(err)
	}
	if c := got[0].(ConfigRecord); c.Key != "a\uFFFDb" || *c.Value != "\uFFFD(" {
		t.Fatalf("%q=%q", c.Key, *c.Value)
	}
}

// A count that lies must not make us allocate.
func TestCountsAreBounded(t *testing.T) {
	entry := []byte{0, 1, kindPartition, 0, 22}
	entry = append(entry, make([]byte, 17)...)          // topic id and partition 0
	entry = append(entry, 0xff, 0xff, 0xff, 0xff, 0x0f) // 2^32-1 replicas
	if n := testing.AllocsPerRun(1, func() { _, _, _ = decodeAll(entry) }); n > 20 {
		t.Errorf("%v allocations", n)
	}
	var corrupt *CorruptEntryError
	if _, _, err := decodeAll(entry); !errors.As(err, &corrupt) {
		t.Error(err)
	}
}

func FuzzEntry(f *testing.F) {
	f.Add(AppendEntry(nil, 0, every()))
	for _, r := range every() {
		f.Add(AppendEntry(nil, NoBase, []Record{r}))
	}
	f.Add([]byte{0, 1, 99, 0, 2, 'x', 'y'})
	f.Fuzz(func(t *testing.T, value []byte) {
		base, records, err := decodeAll(value)
		if err != nil {
			return
		}
		if again := AppendEntry(nil, base, records); !bytes.Equal(again, value) {
			t.Fatalf("%x decodes to %+v, which encodes to %x", value, records, again)
		}
		_, _, _ = Apply(Empty(), 0, 0, AppendEntry(nil, NoBase, records)) // must not panic
	})
}
