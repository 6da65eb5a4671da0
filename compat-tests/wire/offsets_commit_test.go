package wire

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// Who may commit is decided by the state of the group. A wrong code makes a consumer die of a rebalance, or lets one that was
// thrown out overwrite what others have committed.
func TestWhoMayCommit(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 1).name
	c := dial(t, address)
	group := newGroup(t, address)
	offset, kept := int64(0), int64(-1)
	try := func(what string, req *kmsg.OffsetCommitRequest, want *kerr.Error) {
		t.Helper()
		offset++
		req.Topics[0].Partitions[0].Offset = offset
		wantCode(t, what, commit(t, c, req), want)
		if want == nil {
			kept = offset
		}
		wantCommitted(t, c, "after the commit of "+what, req.Group, topic, kept)
	}
	as := func(id string, generation int32) *kmsg.OffsetCommitRequest {
		req := commitRequest(group, topic, 0, 0)
		req.MemberID, req.Generation = id, generation
		return req
	}
	try("a member of a group that is not there", as("x", 3), kerr.IllegalGeneration)
	try("a member of a group that is not there, at version 2", at(2, as("x", 3)), kerr.IllegalGeneration)
	try("a member of a group that is not there, at version 8", at(8, as("x", 3)), kerr.IllegalGeneration)
	try("a member of a group that is not there, at version 9", at(9, as("x", 3)), kerr.GroupIDNotFound)
	try("nobody, to a group that is not there", as("", -1), nil)
	try("a member of no generation, to an empty group", as("x", -1), nil)
	try("a member of an empty group", as("x", 3), kerr.UnknownMemberID)

	m := newMember(t, address, group)
	instance := newMember(t, address, group)
	m.join(t)
	try("a member before its assignment", m.commitRequest(topic, 0, 0), kerr.RebalanceInProgress)
	try("nobody, to a group with a member", as("", -1), kerr.UnknownMemberID)
	distribute(t, m)
	generation := m.joined.Generation
	try("a member", m.commitRequest(topic, 0, 0), nil)
	for version := int16(2); version <= 9; version++ {
		req := m.commitRequest(topic, 0, 0)
		req.RetentionTimeMillis = -1 // of the versions that have it
		try("a member", at(version, req), nil)
	}
	try("a member of a generation to come", as(m.id(), generation+1), kerr.IllegalGeneration)
	try("a member of a generation that is over", as(m.id(), generation-1), kerr.IllegalGeneration)
	try("a member of no generation", as(m.id(), -1), kerr.IllegalGeneration)
	try("a member that is not there", as("x", generation), kerr.UnknownMemberID)
	try("nobody", as("", -1), kerr.UnknownMemberID)
	try("nobody, of a generation", as("", generation), kerr.UnknownMemberID)
	asInstance := as(m.id(), generation)
	asInstance.InstanceID = kmsg.StringPtr("x")
	try("an instance that is not there", asInstance, kerr.UnknownMemberID)

	instance.static("x")
	instance.sendJoin(t)
	m.awaitRebalance(t)
	try("a member during a rebalance", m.commitRequest(topic, 0, 0), nil)
	try("a member of a generation to come during a rebalance", as(m.id(), generation+1), kerr.IllegalGeneration)
	m.sendJoin(t)
	m.enter(t)
	instance.enter(t)
	try("a member that waits for its assignment", m.commitRequest(topic, 0, 0), kerr.RebalanceInProgress)
	distribute(t, m, instance)
	try("a member of the generation before", as(m.id(), generation), kerr.IllegalGeneration)
	try("an instance", instance.commitRequest(topic, 0, 0), nil)
	fenced := m.commitRequest(topic, 0, 0)
	fenced.InstanceID = kmsg.StringPtr("x")
	try("another member in the place of an instance", fenced, kerr.FencedInstanceID)

	instance.leave(t)
	m.leave(t)
	try("nobody, after the last one has left", as("", -1), nil)
	try("who has left", m.commitRequest(topic, 0, 0), kerr.UnknownMemberID)
}

// What is wrong with one partition does not hold the others back.
func TestCommitsAreJudgedOneByOne(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 3).name
	group := newGroup(t, address)
	c := dial(t, address)
	req := commitRequest(group, topic, 0, 10)
	addCommit(req, topic, 77, 10)
	addCommit(req, topic, -1, 10)
	addCommit(req, topic, 1, 10)
	addCommit(req, topic, 2, 10)
	req.Topics[0].Partitions[3].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
	req.Topics[0].Partitions[4].Metadata = kmsg.StringPtr(strings.Repeat("ü", 4096)) // counted as Java counts
	addCommit(req, harness.TopicName(t), 0, 10)
	got := make(map[string]map[int32]int16)
	for _, row := range ask(t, c, req).Topics {
		got[row.Topic] = make(map[int32]int16)
		for _, p := range row.Partitions {
			got[row.Topic][p.Partition] = p.ErrorCode
		}
	}
	for partition, want := range map[int32]*kerr.Error{0: nil, 77: kerr.UnknownTopicOrPartition, -1: kerr.UnknownTopicOrPartition, 1: kerr.OffsetMetadataTooLarge, 2: nil} {
		code, ok := got[topic][partition]
		if !ok {
			t.Errorf("partition %d is not in the answer", partition)
		}
		wantCode(t, "a commit", code, want)
	}
	wantCode(t, "a topic that is not there", got[req.Topics[1].Topic][0], kerr.UnknownTopicOrPartition)
	for partition, want := range []int64{10, -1, 10} {
		if offset := committed(t, c, group, topic, int32(partition)); offset != want {
			t.Errorf("partition %d is committed at %d, want %d", partition, offset, want)
		}
	}
	none := at(7, kmsg.NewPtrOffsetCommitRequest())
	none.Group = group
	if resp := ask(t, c, none); len(resp.Topics) != 0 {
		t.Errorf("a commit of nothing: %+v", resp)
	}
	// A group of which nothing could be kept is none.
	other := newGroup(t, address)
	wantCode(t, "a commit", commit(t, c, commitRequest(other, harness.TopicName(t), 0, 1)), kerr.UnknownTopicOrPartition)
	if g := describeGroup(t, c, other); g.State != "Dead" {
		t.Errorf("a group without offsets is %s", g.State)
	}
}

// What is committed comes back as it was, whatever it is, and says so for what never was.
func TestWhatIsCommittedComesBack(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 6).name
	group := newGroup(t, address)
	c := dial(t, address)
	commits := []struct {
		offset   int64
		epoch    int32
		metadata *string
	}{{0, -1, nil}, {1<<63 - 1, 0, kmsg.StringPtr("")}, {5, 7, kmsg.StringPtr("a note, ü")}, {-1, -1, kmsg.StringPtr("x")}, {-7, -1, nil}}
	req := at(7, kmsg.NewPtrOffsetCommitRequest())
	req.Group = group
	for i, k := range commits {
		addCommit(req, topic, int32(i), k.offset)
		p := &req.Topics[0].Partitions[i]
		p.LeaderEpoch, p.Metadata = k.epoch, k.metadata
	}
	for _, p := range ask(t, c, req).Topics[0].Partitions {
		wantCode(t, "a commit", p.ErrorCode, nil)
	}
	all := []int32{0, 1, 2, 3, 4, 5}
	check := func(what string, rows []kmsg.OffsetFetchResponseTopicPartition, epochs bool) {
		t.Helper()
		for _, p := range rows {
			offset, epoch, metadata := int64(-1), int32(-1), ""
			if int(p.Partition) < len(commits) {
				k := commits[p.Partition]
				if offset = k.offset; k.metadata != nil {
					metadata = *k.metadata
				}
				if epochs {
					epoch = k.epoch
				}
			}
			if p.ErrorCode != 0 || p.Offset != offset || p.LeaderEpoch != epoch || text(p.Metadata) != metadata {
				t.Errorf("%s, partition %d: offset %d of epoch %d with %q, error %d; want %d of %d with %q",
					what, p.Partition, p.Offset, p.LeaderEpoch, text(p.Metadata), p.ErrorCode, offset, epoch, metadata)
			}
		}
	}
	for version := int16(1); version <= 7; version++ {
		rows := ask(t, c, at(version, offsetFetchRequest(group, kmsg.OffsetFetchRequestTopic{Topic: topic, Partitions: all}))).Topics[0].Partitions
		if len(rows) != len(all) {
			t.Errorf("version %d: %d rows for %d partitions", version, len(rows), len(all))
		}
		check("asked by name", rows, version >= 5)
	}
	whole := at(7, offsetFetchRequest(group))
	whole.Topics = nil
	topics := ask(t, c, whole).Topics
	if len(topics) != 1 || topics[0].Topic != topic || len(topics[0].Partitions) != len(commits) {
		t.Fatalf("all offsets: %+v", topics)
	}
	check("all", topics[0].Partitions, true)
	if none := ask(t, c, at(7, offsetFetchRequest(group))).Topics; len(none) != 0 {
		t.Errorf("no topics asked: %+v", none)
	}
	wantCommitted(t, c, "of a topic that is not there", group, harness.TopicName(t), -1)
	wantCommitted(t, c, "of a group that is not there", newGroup(t, address), topic, -1)
}

// A commit is one batch of the topic of the offsets. What does not fit is refused as a whole, by a code after which no
// client commits the same again.
func TestACommitThatIsTooLarge(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 1).name
	group := newGroup(t, address)
	c := dial(t, address)
	mustCommit(t, c, group, topic, 0, 1)
	large := func(partitions int) *kmsg.OffsetCommitRequest {
		req := at(7, kmsg.NewPtrOffsetCommitRequest())
		req.Group = group
		note := strings.Repeat("x", 4096)
		for range partitions {
			addCommit(req, topic, 0, 2)
			req.Topics[0].Partitions[len(req.Topics[0].Partitions)-1].Metadata = &note
		}
		return req
	}
	for _, p := range ask(t, c, large(300)).Topics[0].Partitions { // 1.2 MB
		if p.ErrorCode != kerr.UnknownServerError.Code {
			t.Fatalf("a commit of 1.2 MB: %s", codeName(p.ErrorCode))
		}
	}
	wantCommitted(t, c, "after a commit that was too large", group, topic, 1)
	for _, p := range ask(t, c, large(240)).Topics[0].Partitions { // 1 MB
		if p.ErrorCode != 0 {
			t.Fatalf("a commit of 1 MB: %s", codeName(p.ErrorCode))
		}
	}
	wantCommitted(t, c, "after a commit that was not", group, topic, 2)
}

// Commits that are sent one after the other without waiting are answered in that order, and the last one counts.
func TestPipelinedCommits(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	topic := newTopic(t, address, 1).name
	group := newGroup(t, address)
	c := dial(t, address)
	const commits = 200
	var all []byte
	first := c.sent + 1
	for n := range int64(commits) {
		all = append(all, c.frame(commitRequest(group, topic, 0, n))...)
	}
	c.send(t, all)
	req := commitRequest(group, topic, 0, 0)
	for n := range int32(commits) {
		resp, err := c.receive(req, first+n, replyWithin)
		if err != nil {
			t.Fatal(err)
		}
		wantCode(t, "a commit", resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode, nil)
	}
	wantCommitted(t, c, "after all", group, topic, commits-1)
}

// awaitNoOffset waits until an offset is gone.
func awaitNoOffset(t *testing.T, c *conn, what, group, topic string) {
	t.Helper()
	for deadline := time.Now().Add(replyWithin); committed(t, c, group, topic, 0) != -1; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: the offset stays", what)
		}
	}
}

// The offsets of a topic go with it, and those of one that is made anew under its name are its own. Otherwise a consumer
// would begin far behind its end.
func TestOffsetsGoWithTheirTopic(t *testing.T) {
	t.Parallel()
	address := harness.Shared(t).Bootstrap
	topic, other := newTopic(t, address, 1).name, newTopic(t, address, 1).name
	only, both := newGroup(t, address), newGroup(t, address)
	c := dial(t, address)
	mustCommit(t, c, only, topic, 0, 2)
	mustCommit(t, c, both, topic, 0, 2)
	mustCommit(t, c, both, other, 0, 3)
	deleteTopic(t, address, topic)
	awaitNoOffset(t, c, "deleted", only, topic)
	awaitNoOffset(t, c, "deleted", both, topic)
	wantCommitted(t, c, "of the other topic", both, other, 3)
	recreate(t, c, topic)
	for _, group := range []string{only, both} {
		wantCommitted(t, c, "of the new topic", group, topic, -1)
		mustCommit(t, c, group, topic, 0, 1)
		wantCommitted(t, c, "of the new topic", group, topic, 1)
	}
}

// recreate makes a topic that was deleted anew.
func recreate(t *testing.T, c *conn, topic string) {
	t.Helper()
	for deadline := time.Now().Add(replyWithin); ; time.Sleep(10 * time.Millisecond) {
		code := ask(t, c, at(7, createRequest(topic, 1))).Topics[0].ErrorCode
		if code == 0 {
			break
		}
		if code != kerr.TopicAlreadyExists.Code || time.Now().After(deadline) {
			t.Fatalf("creating %s anew: %s", topic, codeName(code))
		}
	}
	awaitLeaders(t, c, topic, 1)
}

// That holds whatever ends the broker in between, also where it ends so early that nothing was removed yet.
func TestOffsetsOfADeletedTopicDoNotComeBack(t *testing.T) {
	t.Parallel()
	s := start(t, ownGroups...)
	group := newGroup(t, s.Address)
	kept := newTopic(t, s.Address, 1).name
	mustCommit(t, dial(t, s.Address), group, kept, 0, 4)
	for i, how := range []string{"kill", "stop", "kill", "kill"} {
		topic := newTopic(t, s.Address, 1).name
		c := dial(t, s.Address)
		mustCommit(t, c, group, topic, 0, 2)
		deleteTopic(t, s.Address, topic)
		if i%2 == 0 {
			awaitNoOffset(t, c, "deleted", group, topic)
		}
		s.end(t, how)
		s.restart(t)
		c = dial(t, s.Address)
		coordinate(t, s.Address, group)
		recreate(t, c, topic)
		wantCommitted(t, c, "of the new topic after a "+how, group, topic, -1)
		mustCommit(t, c, group, topic, 0, 1)
		s.end(t, how)
		s.restart(t)
		c = dial(t, s.Address)
		coordinate(t, s.Address, group)
		wantCommitted(t, c, "of the new topic at the next start", group, topic, 1)
		wantCommitted(t, c, "of the topic that stays", group, kept, 4)
	}
	whole := at(7, offsetFetchRequest(group))
	whole.Topics = nil
	var topics []string
	for _, row := range ask(t, dial(t, s.Address), whole).Topics {
		topics = append(topics, row.Topic)
	}
	if len(topics) != 5 || !slices.Contains(topics, kept) {
		t.Errorf("the group has offsets of %q", topics)
	}
}
