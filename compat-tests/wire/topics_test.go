package wire

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// Many services create their topic when they start, all at the same time. One of them did it, and the others are told so.
func TestConcurrentCreationsOfATopic(t *testing.T) {
	broker := harness.Shared(t)
	name := harness.TopicName(t)
	const clients = 50
	codes := make([]int16, clients)
	begin := make(chan struct{})
	var wg sync.WaitGroup
	for i := range clients {
		c := dial(t, broker.Bootstrap)
		wg.Go(func() {
			<-begin
			resp, err := at(7, createRequest(name, 1)).RequestWith(t.Context(), c)
			if err != nil {
				t.Error(err)
				return
			}
			codes[i] = resp.Topics[0].ErrorCode
		})
	}
	close(begin)
	wg.Wait()
	created := 0
	for _, code := range codes {
		if code == 0 {
			created++
		} else {
			wantCode(t, "CreateTopics", code, kerr.TopicAlreadyExists)
		}
	}
	if created != 1 {
		t.Errorf("%d of %d creations succeeded", created, clients)
	}
	awaitLeaders(t, dial(t, broker.Bootstrap), name, 1)
	deleteTopic(t, broker.Bootstrap, name)
}

// What cannot be created is refused with the code that tools act on and a text for people, and leaves nothing behind.
func TestCreateTopicsRefuses(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	for name, r := range map[string]struct {
		change func(*kmsg.CreateTopicsRequestTopic)
		want   *kerr.Error
	}{
		"a bad value":                {setting("compression.type", "bogus"), kerr.InvalidConfig},
		"an unknown setting":         {setting("no.such.setting", "1"), kerr.InvalidConfig},
		"no partitions":              {func(r *kmsg.CreateTopicsRequestTopic) { r.NumPartitions = 0 }, kerr.InvalidPartitions},
		"-2 partitions":              {func(r *kmsg.CreateTopicsRequestTopic) { r.NumPartitions = -2 }, kerr.InvalidPartitions},
		"a million partitions":       {func(r *kmsg.CreateTopicsRequestTopic) { r.NumPartitions = 1_000_000 }, kerr.PolicyViolation},
		"more replicas than brokers": {func(r *kmsg.CreateTopicsRequestTopic) { r.ReplicationFactor = 9 }, kerr.InvalidReplicationFactor},
		"no replicas":                {func(r *kmsg.CreateTopicsRequestTopic) { r.ReplicationFactor = 0 }, kerr.InvalidReplicationFactor},
	} {
		req := createRequest(harness.TopicName(t), 1)
		r.change(&req.Topics[0])
		row := ask(t, c, at(7, req)).Topics[0]
		wantCode(t, name, row.ErrorCode, r.want)
		if row.ErrorMessage == nil || *row.ErrorMessage == "" || row.NumPartitions != -1 || row.ReplicationFactor != -1 {
			t.Errorf("%s: message %s, %d partitions, %d replicas", name, text(row.ErrorMessage), row.NumPartitions, row.ReplicationFactor)
		}
		wantCode(t, name+", afterwards", metadataOf(t, c, row.Topic).ErrorCode, kerr.UnknownTopicOrPartition)
	}
	twice := createRequest(harness.TopicName(t), 1)
	twice.Topics = append(twice.Topics, twice.Topics[0])
	for _, row := range ask(t, c, at(7, twice)).Topics {
		wantCode(t, "twice in one request", row.ErrorCode, kerr.InvalidRequest)
	}
	wantCode(t, "twice, afterwards", metadataOf(t, c, twice.Topics[0].Topic).ErrorCode, kerr.UnknownTopicOrPartition)
}

func setting(name, value string) func(*kmsg.CreateTopicsRequestTopic) {
	return func(r *kmsg.CreateTopicsRequestTopic) {
		r.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: name, Value: &value}}
	}
}

// Streams and Connect leave the numbers to the broker. The answer tells what was made: with a dry run, too, which makes
// nothing.
func TestCreateTopicsWithTheBrokersDefaults(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	for _, version := range []int16{4, 7} {
		for _, dry := range []bool{true, false} {
			req := createRequest(harness.TopicName(t), -1, "retention.ms", "1234")
			req.ValidateOnly = dry
			row := ask(t, c, at(version, req)).Topics[0]
			wantCode(t, "CreateTopics", row.ErrorCode, nil)
			if version >= 5 && (row.NumPartitions != 1 || row.ReplicationFactor != 1 || !hasConfig(row, "retention.ms", "1234", kmsg.ConfigSourceDynamicTopicConfig) ||
				!hasConfig(row, "cleanup.policy", "delete", kmsg.ConfigSourceDefaultConfig)) {
				t.Errorf("dry run %v: %d partitions, %d replicas, configs %+v", dry, row.NumPartitions, row.ReplicationFactor, row.Configs)
			}
			if version >= 7 && row.TopicID == [16]byte{} {
				t.Errorf("dry run %v: no id", dry)
			}
			if dry {
				wantCode(t, "after a dry run", metadataOf(t, c, row.Topic).ErrorCode, kerr.UnknownTopicOrPartition)
				continue
			}
			awaitLeaders(t, c, row.Topic, 1)
			deleteTopic(t, broker.Bootstrap, row.Topic)
		}
	}
}

func hasConfig(row kmsg.CreateTopicsResponseTopic, name, value string, source kmsg.ConfigSource) bool {
	for _, c := range row.Configs {
		if c.Name == name {
			return c.Value != nil && *c.Value == value && c.Source == int8(source)
		}
	}
	return false
}

// badNames are names that no topic may have: a topic's name becomes the name of a directory.
var badNames = []string{"", ".", "..", "a b", "../../x", "/etc", "a/b", `a\b`, "a\x00b", "a\n", "ä", "日本", "a:b", "a*", strings.Repeat("a", 250)}

// A hostile name must not lead out of the data directory, whoever creates the topic and however. What is too long or
// looks like another in metrics is refused, too.
func TestBadTopicNamesAreRefused(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	for _, name := range badNames {
		what := fmt.Sprintf("%.20q", name)
		wantCode(t, what, ask(t, c, at(7, createRequest(name, 1))).Topics[0].ErrorCode, kerr.InvalidTopicException)
		for _, version := range []int16{1, 4, 12} {
			req := at(version, kmsg.NewPtrMetadataRequest())
			req.AllowAutoTopicCreation = true
			req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
			wantCode(t, what+", Metadata", ask(t, c, req).Topics[0].ErrorCode, kerr.InvalidTopicException)
		}
		wantCode(t, what+", Produce", produce(t, c, name, 0, textBatch("a").bytes()).ErrorCode, kerr.UnknownTopicOrPartition)
		wantCode(t, what+", Fetch", fetch(t, c, name, 0, 0).ErrorCode, kerr.UnknownTopicOrPartition)
	}
	base := harness.TopicName(t)
	for _, r := range []struct {
		name string
		want *kerr.Error
	}{
		{base + ".a", nil}, {base + "_a", kerr.InvalidTopicException}, // they would have one name in metrics
		{base + ".a", kerr.TopicAlreadyExists}, {base + "-a", nil}, {base + strings.Repeat("a", 249-len(base)), nil},
	} {
		wantCode(t, r.name, ask(t, c, at(7, createRequest(r.name, 1))).Topics[0].ErrorCode, r.want)
		if r.want == nil {
			awaitLeaders(t, c, r.name, 1)
			t.Cleanup(func() { deleteTopic(t, broker.Bootstrap, r.name) })
		}
	}
}

// Nothing is written outside the data directory, and within it nothing that no topic stands behind.
func TestBadTopicNamesLeaveNoFiles(t *testing.T) {
	parent := t.TempDir()
	s := startIn(t, filepath.Join(parent, "data"))
	list := func() string {
		var names []string
		_ = filepath.WalkDir(parent, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				names = append(names, path)
			}
			return nil
		})
		return strings.Join(names, "\n")
	}
	before := list()
	c := dial(t, s.Address)
	for _, name := range badNames {
		ask(t, c, at(7, createRequest(name, 1)))
		req := at(1, kmsg.NewPtrMetadataRequest())
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		ask(t, c, req)
		produce(t, c, name, 0, textBatch("a").bytes())
		deleteTopic(t, s.Address, name)
	}
	if after := list(); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// What groups and transactions are made of is written by the broker alone: a record that a client smuggled in could give
// away or destroy every group's offsets.
func TestInternalTopicsAreNotWrittenByClients(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	for _, name := range []string{"__consumer_offsets", "__transaction_state"} {
		row := metadataOf(t, c, name)
		if row.ErrorCode != 0 && harness.External() == "" {
			ask(t, c, at(7, createRequest(name, 1)))
			row = metadataOf(t, c, name)
		}
		if row.ErrorCode != 0 {
			wantCode(t, name, produce(t, c, name, 0, textBatch("a").bytes()).ErrorCode, kerr.UnknownTopicOrPartition)
			continue
		}
		if !row.IsInternal {
			t.Errorf("%s is not called internal", name)
		}
		wantCode(t, name, produce(t, c, name, 0, textBatch("a").bytes()).ErrorCode, kerr.InvalidTopicException)
		wantCode(t, name+", deleting records", deleteRecords(t, c, name, 0).ErrorCode, kerr.InvalidTopicException)
	}
	// The metadata log lies beside the topics' and has a topic's name, but is none.
	wantCode(t, "creating __cluster_metadata", ask(t, c, at(7, createRequest("__cluster_metadata", 1))).Topics[0].ErrorCode, kerr.InvalidRequest)
	wantCode(t, "__cluster_metadata", produce(t, c, "__cluster_metadata", 0, textBatch("a").bytes()).ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "__cluster_metadata", fetch(t, c, "__cluster_metadata", 0, 0).ErrorCode, kerr.UnknownTopicOrPartition)
}

// Asking for metadata creates topics where client and broker both want that, and not by asking for all topics. The first
// answer says that the topic is not there; a moment later it is.
func TestMetadataCreatesTopics(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	for _, r := range []struct {
		version int16
		allow   bool
		creates bool
	}{{0, false, true}, {1, false, true}, {3, false, true}, {4, false, false}, {4, true, true}, {9, false, false}, {12, true, true}, {13, false, false}} {
		name := harness.TopicName(t)
		req := at(r.version, kmsg.NewPtrMetadataRequest())
		req.AllowAutoTopicCreation = r.allow
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		first := ask(t, c, req).Topics[0].ErrorCode
		if first != kerr.UnknownTopicOrPartition.Code && (first != kerr.LeaderNotAvailable.Code || !r.creates) {
			t.Errorf("v%d, allowed %v: the first answer is %s", r.version, r.allow, codeName(first))
		}
		if !r.creates {
			time.Sleep(50 * time.Millisecond) // it must not come
			wantCode(t, "not created", metadataOf(t, c, name).ErrorCode, kerr.UnknownTopicOrPartition)
			continue
		}
		awaitLeaders(t, c, name, 1)
		mustProduce(t, c, name, 0, textBatch("a"))
		if n := len(metadataOf(t, c, name).Partitions); n != 1 {
			t.Errorf("v%d: %d partitions", r.version, n)
		}
		deleteTopic(t, broker.Bootstrap, name)
	}
}

// A null list of topics means all, an empty one none; in version 0, which has no null, empty means all. A client that
// wants the brokers only would get thousands of topics else, or one that wants all topics none.
func TestMetadataOfAllTopicsAndOfNone(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1).name
	for version := range int16(14) {
		for _, null := range []bool{true, false} {
			if null && version == 0 {
				continue
			}
			req := at(version, kmsg.NewPtrMetadataRequest())
			if !null {
				req.Topics = []kmsg.MetadataRequestTopic{}
			}
			resp := ask(t, c, req)
			listed := false
			for _, row := range resp.Topics {
				listed = listed || text(row.Topic) == topic
			}
			if want := null || version == 0; listed != want || !want && len(resp.Topics) > 0 || len(resp.Brokers) == 0 {
				t.Errorf("v%d, null %v: %d topics, the created one among them: %v; %d brokers", version, null, len(resp.Topics), listed, len(resp.Brokers))
			}
		}
	}
	unknown := at(4, kmsg.NewPtrMetadataRequest())
	unknown.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr(harness.TopicName(t))}}
	if rows := ask(t, c, unknown).Topics; len(rows) != 1 || rows[0].ErrorCode != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("an unknown topic: %+v", rows)
	}
}

// A topic that is created again under its name is another one: new id, empty log, no memory of its producers. Clients
// that still have the old id are told so.
func TestATopicCreatedAgainIsAnother(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	old := newTopic(t, broker.Bootstrap, 1)
	id := newProducerID(t, c)
	for n := range int32(3) {
		mustProduce(t, c, old.name, 0, textBatch("a").from(id, 0, n))
	}
	waiting := dial(t, broker.Bootstrap)
	wait := fetchRequest(old.name, 0, 3)
	wait.MaxWaitMillis = longWait
	waiting.send(t, waiting.frame(wait))

	req := at(5, kmsg.NewPtrDeleteTopicsRequest())
	req.TopicNames = []string{old.name}
	req.TimeoutMillis = int32(replyWithin.Milliseconds())
	wantCode(t, "DeleteTopics", ask(t, c, req).Topics[0].ErrorCode, nil)
	for deadline := time.Now().Add(replyWithin); metadataOf(t, c, old.name).ErrorCode != kerr.UnknownTopicOrPartition.Code; {
		if time.Now().After(deadline) {
			t.Fatal("the topic does not go away")
		}
	}
	if resp, err := waiting.receive(wait, waiting.sent, replyWithin); err != nil {
		t.Errorf("who waits for records of a deleted topic: %v", err)
	} else if code := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0].ErrorCode; code == 0 {
		t.Error("who waits for records of a deleted topic gets no error")
	}
	again := ask(t, c, at(7, createRequest(old.name, 1))).Topics[0]
	wantCode(t, "CreateTopics", again.ErrorCode, nil)
	awaitLeaders(t, c, old.name, 1)
	if again.TopicID == old.id || again.TopicID == [16]byte{} {
		t.Errorf("the new id is %x, the old one %x", again.TopicID, old.id)
	}
	for _, timestamp := range []int64{latest, earliest} {
		if p := listOffset(t, c, old.name, timestamp); p.Offset != 0 {
			t.Errorf("ListOffsets %d: offset %d", timestamp, p.Offset)
		}
	}
	byOldID := at(13, fetchRequest("", 0, 0))
	byOldID.Topics[0].TopicID = old.id
	wantCode(t, "Fetch by the old id", ask(t, c, byOldID).Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicID)
	producing := at(13, produceRequest("", 0, textBatch("a").bytes()))
	producing.Topics[0].TopicID = old.id
	wantCode(t, "Produce by the old id", ask(t, c, producing).Topics[0].Partitions[0].ErrorCode, kerr.UnknownTopicID)
	if offset := mustProduce(t, c, old.name, 0, textBatch("a").from(id, 0, 3)); offset != 0 { // no memory of 0 to 2
		t.Errorf("the first record is at offset %d", offset)
	}
}

// Partitions can only become more, and new ones can be used as soon as they are answered for.
func TestCreatePartitions(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1).name
	grow := func(name string, count int32, assignment ...[]int32) kmsg.CreatePartitionsResponseTopic {
		req := at(3, kmsg.NewPtrCreatePartitionsRequest())
		req.TimeoutMillis = int32(replyWithin.Milliseconds())
		row := kmsg.CreatePartitionsRequestTopic{Topic: name, Count: count}
		for _, replicas := range assignment {
			row.Assignment = append(row.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: replicas})
		}
		req.Topics = []kmsg.CreatePartitionsRequestTopic{row}
		rows := ask(t, c, req).Topics
		if len(rows) != 1 || rows[0].Topic != name {
			t.Fatalf("rows: %+v", rows)
		}
		return rows[0]
	}
	wantCode(t, "to 3", grow(topic, 3).ErrorCode, nil)
	awaitLeaders(t, c, topic, 3)
	mustProduce(t, c, topic, 2, textBatch("a"))
	for _, count := range []int32{3, 2, 0, -1} {
		row := grow(topic, count)
		wantCode(t, fmt.Sprintf("to %d", count), row.ErrorCode, kerr.InvalidPartitions)
		if row.ErrorMessage == nil || *row.ErrorMessage == "" {
			t.Errorf("to %d: no message", count)
		}
	}
	wantCode(t, "an unknown topic", grow(harness.TopicName(t), 3).ErrorCode, kerr.UnknownTopicOrPartition)
	wantCode(t, "a broker that is not there", grow(topic, 4, []int32{4711}).ErrorCode, kerr.InvalidReplicaAssignment)
	wantCode(t, "too few assignments", grow(topic, 6, []int32{1}).ErrorCode, kerr.InvalidReplicaAssignment)
	partitions := metadataOf(t, c, topic).Partitions
	if len(partitions) != 3 {
		t.Fatalf("%d partitions", len(partitions))
	}
	seen := make(map[int32]bool)
	for _, p := range partitions {
		seen[p.Partition] = true
	}
	if !seen[0] || !seen[1] || !seen[2] {
		t.Errorf("partitions %v", seen)
	}
}
