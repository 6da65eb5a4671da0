package wire

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A client that is newer than the broker asks for versions at a version the broker cannot know. The answer must be one
// that every client understands, and leave the connection open for the second try: some clients never make a third.
func TestApiVersionsOfTheFuture(t *testing.T) {
	c := dial(t, harness.Shared(t).Bootstrap)
	c.send(t, unhex(t, "0000001b0012006300000001000570726f6265000670726f626504312e3000"))
	reply, err := c.reply(replyWithin)
	if err != nil {
		t.Fatal(err)
	}
	// Correlation id, error, an array of one element in the layout of v0, and nothing behind it.
	want := unhex(t, "00000001"+"0023"+"00000001"+"0012")
	if len(reply) != len(want)+4 || string(reply[:len(want)]) != string(want) {
		t.Fatalf("the reply is % x", reply)
	}
	lowest, highest := binary.BigEndian.Uint16(reply[12:]), binary.BigEndian.Uint16(reply[14:])
	if lowest != 0 || highest < 3 {
		t.Errorf("ApiVersions is offered from %d to %d", lowest, highest)
	}
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "probe", "1.0"
	if resp := ask(t, c, at(3, req)); resp.ErrorCode != 0 || len(resp.ApiKeys) < 10 {
		t.Errorf("the second try: %s, %d keys", codeName(resp.ErrorCode), len(resp.ApiKeys))
	}
}

// The header of this one reply never has tags, though its body is flexible: a client reads it before it knows what the
// broker speaks, and one byte too many shifts everything.
func TestApiVersionsHasTheOldHeader(t *testing.T) {
	c := dial(t, harness.Shared(t).Bootstrap)
	c.send(t, unhex(t, "0000001b0012000300000001000570726f6265000670726f626504312e3000"))
	reply, err := c.reply(replyWithin)
	if err != nil {
		t.Fatal(err)
	}
	if reply[4] != 0 || reply[5] != 0 {
		t.Fatalf("the reply begins with % x", reply[:10])
	}
	keys, n := binary.Uvarint(reply[6:])
	if n <= 0 || keys < 10 || len(reply) < 6+n+int(keys-1)*7 {
		t.Errorf("%d keys in %d bytes: % x", keys, len(reply), reply[:10])
	}
}

// offered asks for the versions that a broker offers of each key.
func offered(t *testing.T, c *conn, version int16) map[int16]kmsg.ApiVersionsResponseApiKey {
	t.Helper()
	req := kmsg.NewPtrApiVersionsRequest()
	req.ClientSoftwareName, req.ClientSoftwareVersion = "probe", "1.0"
	resp := ask(t, c, at(version, req))
	if resp.ErrorCode != 0 {
		t.Fatalf("ApiVersions v%d: %s", version, codeName(resp.ErrorCode))
	}
	keys := make(map[int16]kmsg.ApiVersionsResponseApiKey)
	for _, k := range resp.ApiKeys {
		if _, twice := keys[k.ApiKey]; twice {
			t.Errorf("ApiVersions v%d: key %d stands twice", version, k.ApiKey)
		}
		keys[k.ApiKey] = k
	}
	return keys
}

// What is offered does not depend on how it is asked for.
func TestApiVersionsIsTheSameInEveryVersion(t *testing.T) {
	c := dial(t, harness.Shared(t).Bootstrap)
	first := offered(t, c, 0)
	for v := int16(1); v <= first[kmsg.ApiVersions.Int16()].MaxVersion; v++ {
		keys := offered(t, c, v)
		if len(keys) != len(first) {
			t.Errorf("v%d has %d keys, v0 has %d", v, len(keys), len(first))
		}
		for key, k := range keys {
			if f := first[key]; k.MinVersion != f.MinVersion || k.MaxVersion != f.MaxVersion {
				t.Errorf("v%d offers key %d from %d to %d, v0 from %d to %d", v, key, k.MinVersion, k.MaxVersion, f.MinVersion, f.MaxVersion)
			}
		}
	}
}

// librdkafka before 2.11.1 finds out what a broker can do from exact versions in the offered ranges, and without a word
// turns compression, groups, SASL or transactions off where one is missing. Clients that look at the highest version only
// send these, too.
func TestOldClientsFindTheVersionsThatTheyTestFor(t *testing.T) {
	c := dial(t, harness.Shared(t).Bootstrap)
	keys := offered(t, c, 0)
	for _, want := range []struct {
		key      kmsg.Key
		versions []int16
	}{
		{kmsg.Produce, []int16{0, 2, 3, 7}}, // 0 to 2 are offered and refused (KAFKA-18659)
		{kmsg.Fetch, []int16{4, 10, 11}},
		{kmsg.ListOffsets, []int16{1, 2}},
		{kmsg.Metadata, []int16{0, 1, 2, 4}},
		{kmsg.OffsetCommit, []int16{2}},
		{kmsg.OffsetFetch, []int16{1}},
		{kmsg.FindCoordinator, []int16{0}},
		{kmsg.JoinGroup, []int16{0}},
		{kmsg.Heartbeat, []int16{0}},
		{kmsg.LeaveGroup, []int16{0}},
		{kmsg.SyncGroup, []int16{0}},
		{kmsg.SASLHandshake, []int16{0, 1}},
		{kmsg.SASLAuthenticate, []int16{0, 1}},
		{kmsg.ApiVersions, []int16{0, 3}},
		{kmsg.CreateTopics, []int16{2, 4}},
		{kmsg.DeleteTopics, []int16{1}},
		{kmsg.InitProducerID, []int16{0, 1}},
		{kmsg.OffsetForLeaderEpoch, []int16{2}},
		{kmsg.DescribeConfigs, []int16{1}},
	} {
		k, ok := keys[want.key.Int16()]
		if !ok {
			continue // clients can live without a key
		}
		for _, v := range want.versions {
			if v < k.MinVersion || v > k.MaxVersion {
				t.Errorf("%s v%d is not within %d to %d", want.key.Name(), v, k.MinVersion, k.MaxVersion)
			}
		}
	}
}

// A client takes the newest version that is offered, and would have managed with an older one, or without the key. So
// whatever is offered answers.
func TestEverythingOfferedAnswers(t *testing.T) {
	address := harness.Shared(t).Bootstrap
	keys := offered(t, dial(t, address), 0)
	for key, k := range keys {
		name := kmsg.NameForKey(key)
		if name == "Unknown" {
			t.Errorf("key %d is offered, and nobody knows it", key)
			continue
		}
		lowest := k.MinVersion
		if key == kmsg.Produce.Int16() {
			lowest = 3
		}
		for v := lowest; v <= k.MaxVersion; v++ {
			c := dial(t, address)
			if _, err := c.Request(t.Context(), at(v, smallestRequest(key))); err != nil {
				t.Errorf("%s v%d: %v", name, v, err)
				continue
			}
			c.wantAlive(t)
			c.Close()
		}
	}
}

// smallestRequest is a request that asks for as little as possible, and is right.
func smallestRequest(key int16) kmsg.Request {
	req := kmsg.RequestForKey(key)
	switch r := req.(type) {
	case *kmsg.ProduceRequest:
		r.Acks = -1 // 0 has no answer
	case *kmsg.ApiVersionsRequest:
		r.ClientSoftwareName, r.ClientSoftwareVersion = "probe", "1"
	case *kmsg.DescribeACLsRequest:
		r.ResourceType, r.ResourcePatternType, r.Operation, r.PermissionType = 1, 1, 1, 1 // any
	case *kmsg.AddPartitionsToTxnRequest:
		r.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{kmsg.NewAddPartitionsToTxnRequestTransaction()}
	}
	return req
}

// There is no answer that a client could read at a version it made up. The connection closes, for others nothing changes,
// and the log says who asked for what: operators of clients with a fixed old version see nothing but the end otherwise.
func TestUnsupportedVersionsClose(t *testing.T) {
	broker := harness.Shared(t)
	keys := offered(t, dial(t, broker.Bootstrap), 0)
	for key, k := range keys {
		if key == kmsg.ApiVersions.Int16() || kmsg.RequestForKey(key) == nil {
			continue
		}
		versions := []int16{k.MaxVersion + 1, 99, -1}
		if key == kmsg.Produce.Int16() {
			versions = append(versions, 0, 1, 2)
		} else if k.MinVersion > 0 {
			versions = append(versions, k.MinVersion-1)
		}
		for _, v := range versions {
			c := dial(t, broker.Bootstrap)
			frame := c.frame(at(k.MaxVersion, kmsg.RequestForKey(key)))
			binary.BigEndian.PutUint16(frame[6:], uint16(v))
			c.send(t, frame)
			if err := c.closed(); err != nil {
				t.Errorf("%s v%d: %v", kmsg.NameForKey(key), v, err)
			}
			c.Close()
		}
	}
	dial(t, broker.Bootstrap).wantAlive(t)
}

// Names of client software end up in logs and metrics, so they are checked; the answer is an ordinary one.
func TestClientSoftwareNameIsChecked(t *testing.T) {
	c := dial(t, harness.Shared(t).Bootstrap)
	for _, bad := range []string{"-p", "p-", "", "a b", "a\n", "ä", ".a"} {
		for _, r := range [][2]string{{bad, "1.0"}, {"probe", bad}} {
			req := kmsg.NewPtrApiVersionsRequest()
			req.ClientSoftwareName, req.ClientSoftwareVersion = r[0], r[1]
			wantCode(t, fmt.Sprintf("%q", r), ask(t, c, at(3, req)).ErrorCode, kerr.InvalidRequest)
		}
	}
	for _, good := range []string{"a-b.c9", "a", "0"} {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = good, good
		wantCode(t, good, ask(t, c, at(3, req)).ErrorCode, nil)
	}
}

// Keys that are not offered, among them those that brokers use with each other, are refused by closing that connection
// and no other.
func TestUnknownKeysClose(t *testing.T) {
	broker := harness.Shared(t)
	other := dial(t, broker.Bootstrap)
	keys := offered(t, other, 0)
	for _, key := range []int16{999, -1, 32767, -32768, 4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82} {
		if _, ok := keys[key]; ok {
			t.Errorf("key %d is offered to clients", key)
			continue
		}
		for _, v := range []int16{0, 1, 9} {
			c := dial(t, broker.Bootstrap)
			frame := slices.Concat(unhex(t, "0000000f"), binary.BigEndian.AppendUint16(nil, uint16(key)),
				binary.BigEndian.AppendUint16(nil, uint16(v)), unhex(t, "00000001000570726f6265"))
			c.send(t, frame)
			if err := c.closed(); err != nil {
				t.Errorf("key %d v%d: %v", key, v, err)
			}
			c.Close()
		}
	}
	other.wantAlive(t)
}
