package wire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// sessionFetch is a Fetch v11 of a session; partitions are given as number, offset, number, offset.
func sessionFetch(id, epoch int32, name string, partitions ...int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionID, req.SessionEpoch = 11, 50, 1, 50<<20, id, epoch
	for i := 0; i+1 < len(partitions); i += 2 {
		addFetch(req, name, int32(partitions[i]), partitions[i+1])
	}
	return req
}

func forget(req *kmsg.FetchRequest, name string, partition int32) *kmsg.FetchRequest {
	req.ForgottenTopics = []kmsg.FetchRequestForgottenTopic{{Topic: name, Partitions: []int32{partition}}}
	return req
}

// answered returns the partitions that an answer has, as number:records.
func answered(t *testing.T, resp *kmsg.FetchResponse) []string {
	t.Helper()
	got := []string{}
	for _, row := range resp.Topics {
		for _, p := range row.Partitions {
			wantCode(t, "partition", p.ErrorCode, nil)
			records := 0
			for _, b := range readBatches(t, p.RecordBatches) {
				records += int(b.NumRecords)
			}
			got = append(got, fmt.Sprintf("%d:%d", p.Partition, records))
		}
	}
	slices.Sort(got)
	return got
}

// A consumer of many partitions opens a session (KIP-227): from then on it names only what changed, and the broker leaves
// out what did not. Where the two disagree about what is in the session, partitions are never read again or for ever;
// where errors are not the right ones, clients begin anew without end.
func TestFetchSession(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 2)
	mustProduce(t, c, topic.name, 0, textBatch("a"))
	run := func(what string, req *kmsg.FetchRequest, wantID int32, want ...string) {
		t.Helper()
		resp := ask(t, c, req)
		wantCode(t, what, resp.ErrorCode, nil)
		if resp.SessionID != wantID {
			t.Errorf("%s: session %d, want %d", what, resp.SessionID, wantID)
		}
		if got := answered(t, resp); !slices.Equal(got, want) {
			t.Errorf("%s: partitions %v, want %v", what, got, want)
		}
	}
	refused := func(what string, req *kmsg.FetchRequest, want *kerr.Error) {
		t.Helper()
		resp := ask(t, c, req)
		wantCode(t, what, resp.ErrorCode, want)
		if resp.SessionID != 0 || len(resp.Topics) > 0 {
			t.Errorf("%s: session %d, %d topics", what, resp.SessionID, len(resp.Topics))
		}
	}
	run("without a session", sessionFetch(0, -1, topic.name, 0, 0), 0, "0:1")

	s := openSession(t, c, sessionFetch(0, 0, topic.name, 0, 0, 1, 0), "0:1", "1:0")
	run("unchanged, but there are records", sessionFetch(s, 1, ""), s, "0:1")
	run("an offset moves on", sessionFetch(s, 2, topic.name, 0, 1), s)
	run("nothing is new", sessionFetch(s, 3, ""), s)
	mustProduce(t, c, topic.name, 1, textBatch("b"))
	run("a record came", sessionFetch(s, 4, ""), s, "1:1")
	run("it is forgotten", forget(sessionFetch(s, 5, ""), topic.name, 1), s)
	refused("an epoch too far", sessionFetch(s, 99, ""), kerr.InvalidFetchSessionEpoch)
	run("the session goes on", sessionFetch(s, 6, ""), s)
	refused("a session that never was", sessionFetch(12345678, 1, ""), kerr.FetchSessionIDNotFound)
	run("the last partition is forgotten", forget(sessionFetch(s, 7, ""), topic.name, 0), 0)
	refused("and the session with it", sessionFetch(s, 8, ""), kerr.FetchSessionIDNotFound)

	s = openSession(t, c, sessionFetch(0, 0, topic.name, 0, 0, 1, 0), "0:1", "1:1")
	run("a client ends it", sessionFetch(s, -1, topic.name, 0, 0), 0, "0:1")
	refused("and it is gone", sessionFetch(s, 1, ""), kerr.FetchSessionIDNotFound)

	s = openSession(t, c, sessionFetch(0, 0, topic.name, 0, 0), "0:1")
	fresh := openSession(t, c, sessionFetch(s, 0, topic.name, 0, 0), "0:1")
	if fresh == s {
		t.Errorf("a new session has the id %d of the one that it replaces", s)
	}
	refused("the one that was replaced", sessionFetch(s, 1, ""), kerr.FetchSessionIDNotFound)
	run("the one that replaced it", sessionFetch(fresh, 1, ""), fresh, "0:1")
	run("it ends", sessionFetch(fresh, -1, ""), 0)
}

// openSession makes a session and returns its id; the first answer has all partitions.
func openSession(t *testing.T, c *conn, req *kmsg.FetchRequest, want ...string) int32 {
	t.Helper()
	resp := ask(t, c, req)
	wantCode(t, "a new session", resp.ErrorCode, nil)
	if resp.SessionID == 0 {
		t.Fatal("no session was made")
	}
	if got := answered(t, resp); !slices.Equal(got, want) {
		t.Errorf("a new session: partitions %v, want %v", got, want)
	}
	return resp.SessionID
}

// A session that names topics by id goes on by id, and one by name by name.
func TestFetchSessionByTopicID(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1)
	mustProduce(t, c, topic.name, 0, textBatch("a"))
	byID := func(id, epoch int32, offset ...int64) *kmsg.FetchRequest {
		var partitions []int64
		for _, o := range offset {
			partitions = append(partitions, 0, o)
		}
		req := at(13, sessionFetch(id, epoch, "", partitions...))
		for i := range req.Topics {
			req.Topics[i].TopicID = topic.id
		}
		return req
	}
	resp := ask(t, c, byID(0, 0, 0))
	if resp.ErrorCode != 0 || resp.SessionID == 0 || len(resp.Topics) != 1 || resp.Topics[0].TopicID != topic.id {
		t.Fatalf("%+v", resp)
	}
	s := resp.SessionID
	wantCode(t, "by name", ask(t, c, sessionFetch(s, 1, topic.name, 0, 0)).ErrorCode, kerr.FetchSessionTopicIDError)
	resp = ask(t, c, byID(s, 1))
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || resp.Topics[0].TopicID != topic.id {
		t.Errorf("the next answer: %+v", resp)
	}
	ask(t, c, byID(s, -1))
}

// There are a thousand sessions (max.incremental.fetch.session.cache.slots). Whoever comes later gets complete answers
// without a session, and nobody an error.
func TestMoreSessionsThanThereIsRoomFor(t *testing.T) {
	s := start(t, "--override", "max.incremental.fetch.session.cache.slots=10")
	c := dial(t, s.Address)
	topic := newTopic(t, s.Address, 1)
	mustProduce(t, c, topic.name, 0, textBatch("a"))
	sessions := make(map[int32]bool)
	without := 0
	for range 25 {
		resp := ask(t, dial(t, s.Address), sessionFetch(0, 0, topic.name, 0, 0))
		wantCode(t, "a new session", resp.ErrorCode, nil)
		if got := answered(t, resp); !slices.Equal(got, []string{"0:1"}) {
			t.Fatalf("partitions %v", got)
		}
		if resp.SessionID == 0 {
			without++
		} else {
			sessions[resp.SessionID] = true
		}
	}
	if len(sessions) != 10 || without != 15 {
		t.Errorf("%d sessions were made, and %d not", len(sessions), without)
	}
	for id := range sessions {
		resp := ask(t, c, sessionFetch(id, 1, ""))
		wantCode(t, "a session that was made", resp.ErrorCode, nil)
	}
}
