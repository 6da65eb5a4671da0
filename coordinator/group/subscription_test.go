package group

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestParseSubscription(t *testing.T) {
	full := subscriptionBytes(3, "t", "u")
	for _, c := range []struct {
		name   string
		b      []byte
		topics string // - where it cannot be read
	}{
		{"v0", subscriptionBytes(0, "t", "u", "t"), "t u"},
		{"v3", full, "t u"},
		{"a version to come", append([]byte{0, 99}, full[2:]...), "t u"},
		{"a version below 0", append([]byte{0xff, 0xff}, full[2:]...), "t u"},
		{"no topics", subscriptionBytes(1), ""},
		{"a topic without a name", subscriptionBytes(0, ""), ""},
		{"only version 0 of v3", full[:2+4+3+3+4], "t u"},
		{"nothing", nil, "-"},
		{"no version", full[:1], "-"},
		{"no count", full[:5], "-"},
		{"half a topic", full[:8], "-"},
		{"no user data", full[:2+4+3+3+3], "-"},
		{"null topics", []byte{0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, "-"},
		{"a null topic", []byte{0, 0, 0, 0, 0, 1, 0xff, 0xff, 0, 0, 0, 0}, "-"},
		{"two billion topics", []byte{0, 0, 0x7f, 0xff, 0xff, 0xff}, "-"},
		{"user data that is not there", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 1}, "-"},
	} {
		topics := make(map[string]struct{})
		got := "-"
		if parseSubscription(c.b, topics) {
			got = strings.TrimSpace(strings.Join(slices.Sorted(maps.Keys(topics)), " "))
		}
		if got != c.topics {
			t.Errorf("%s: got %q, want %q", c.name, got, c.topics)
		}
	}
}

// FuzzParseSubscription: what kmsg reads is read, with the same topics; and nothing is read that a consumer of version 0
// could not have written.
func FuzzParseSubscription(f *testing.F) {
	for version := range int16(4) {
		f.Add(subscriptionBytes(version))
		f.Add(subscriptionBytes(version, "t", "topic-with-a-longer-name"))
	}
	f.Add([]byte{0, 0, 0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		topics := make(map[string]struct{})
		read := parseSubscription(b, topics)
		if len(topics) > len(b)/2 {
			t.Errorf("%d topics of %d bytes", len(topics), len(b))
		}
		known := kmsg.NewConsumerMemberMetadata()
		if known.ReadFrom(b) != nil || known.Version < 0 || known.Version > 3 || len(b) >= 6 && b[2] >= 0x80 {
			return
		}
		if !read {
			t.Fatalf("%q is a subscription", b)
		}
		want := make(map[string]struct{})
		for _, topic := range known.Topics {
			want[topic] = struct{}{}
		}
		if !maps.Equal(topics, want) {
			t.Errorf("got %v, want %v", topics, want)
		}
	})
}

// A group is subscribed to what its members say in the protocol of its generation, or to everything where that cannot be
// known of consumers.
func TestSubscribed(t *testing.T) {
	s := newScript()
	s.run("settings delay=0s")
	subscribed := func(want string) {
		t.Helper()
		got := ""
		for _, topic := range []string{"t", "u", "w"} {
			if s.shard.groups["g"].subscribed(topic) {
				got += topic
			}
		}
		if got != want {
			t.Errorf("subscribed to %q, want %q\n%s", got, want, s.out.String())
		}
	}
	do := func(lines string) {
		for line := range strings.Lines(lines) {
			s.run(strings.TrimSpace(line))
		}
	}
	do("join g client=a v=3 protocols=range:+t,rr:+w")
	subscribed("tuw") // not known yet
	s.advance(0)
	subscribed("t")
	do("join g client=b v=3 protocols=range:+t+u")
	subscribed("t") // until the next generation
	do("join g a-1 protocols=range:+t,rr:+w")
	subscribed("tu")
	do(`sync g a-1 2
		reload`)
	subscribed("tu")
	do(`join g b-1 protocols=range:opaque
		join g a-1 protocols=range:+t`)
	subscribed("tuw")
	do(`join g b-1 instance=B protocols=range:+u
		leave g b-1
		join g a-1 protocols=range:+t`)
	subscribed("t")
	do("leave g a-1")
	subscribed("")
	do("join g client=c v=3 type=connect")
	s.advance(time.Second)
	subscribed("")
}
