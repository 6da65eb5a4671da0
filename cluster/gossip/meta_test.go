package gossip

import (
	"bytes"
	"strings"
	"testing"

	"github.com/hashicorp/memberlist"

	"weir/internal/kafka"
)

// metaOf is what a process of a node tells, in a cluster called "cluster".
func metaOf(node kafka.BrokerID, incarnation byte) meta {
	return meta{
		Member:    Member{Node: node, RaftID: 100 + uint64(node), Directory: kafka.UUID{byte(node), 9}, Controller: true, Host: "127.0.0.1", Port: 9192},
		ClusterID: "cluster", Incarnation: kafka.UUID{incarnation}, Began: 1000 + int64(incarnation), Leader: 101, Term: 7,
	}
}

func encoded(t *testing.T, m meta) []byte {
	t.Helper()
	b, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestMetaIsReadAsItWasWritten(t *testing.T) {
	plain, longest := metaOf(3, 1), metaOf(1<<31-1, 255)
	plain.Controller, plain.Leader, plain.Term = false, 0, 0
	longest.Host, longest.ClusterID = strings.Repeat("h", 255), strings.Repeat("c", 128)
	for _, m := range []meta{metaOf(0, 1), plain, longest} {
		b := encoded(t, m)
		if got, err := decodeMeta(b); err != nil || got != m {
			t.Errorf("%+v became %+v, %v", m, got, err)
		}
		if len(b) > memberlist.MetaMaxSize {
			t.Errorf("%d bytes", len(b))
		}
	}
	m := metaOf(3, 0xab)
	if got := m.name(); got != "3.ab000000" {
		t.Errorf("the name is %q", got)
	}
}

func TestMetaThatSaysTooLittleIsNotSent(t *testing.T) {
	for what, spoil := range map[string]func(*meta){
		"no node":       func(m *meta) { m.Node = kafka.NoBroker },
		"no Raft id":    func(m *meta) { m.RaftID = 0 },
		"no directory":  func(m *meta) { m.Directory = kafka.UUID{} },
		"no process":    func(m *meta) { m.Incarnation = kafka.UUID{} },
		"no host":       func(m *meta) { m.Host = "" },
		"no port":       func(m *meta) { m.Port = 0 },
		"line in host":  func(m *meta) { m.Host = "a\nb" },
		"long host":     func(m *meta) { m.Host = strings.Repeat("h", 256) },
		"no cluster":    func(m *meta) { m.ClusterID = "" },
		"long cluster":  func(m *meta) { m.ClusterID = strings.Repeat("c", 256) },
		"both too long": func(m *meta) { m.Host, m.ClusterID = strings.Repeat("h", 255), strings.Repeat("c", 255) },
		"negative term": func(m *meta) { m.Term = -1 },
	} {
		m := metaOf(1, 1)
		spoil(&m)
		if b, err := m.encode(); err == nil {
			t.Errorf("%s: %d bytes", what, len(b))
		}
	}
}

func TestMetaThatCannotBeReadIsRefused(t *testing.T) {
	good := encoded(t, metaOf(1, 1))
	for n := range good {
		if m, err := decodeMeta(good[:n]); err == nil {
			t.Errorf("the first %d bytes are %+v", n, m)
		}
	}
	if _, err := decodeMeta(append(bytes.Clone(good), 0)); err == nil {
		t.Error("a byte too many is taken")
	}
	flags, version := bytes.Clone(good), bytes.Clone(good)
	flags[1] |= 2
	version[0]++
	if _, err := decodeMeta(flags); err == nil {
		t.Error("an unknown flag is taken")
	}
	if _, err := decodeMeta(version); err == nil || !strings.Contains(err.Error(), "version 2") {
		t.Errorf("another version: %v", err)
	}
}

func FuzzMeta(f *testing.F) {
	m := metaOf(1, 1)
	good, err := m.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{})
	f.Add(make([]byte, memberlist.MetaMaxSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		if again, err := m.encode(); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%x is read as %+v, which is written as %x, %v", b, m, again, err)
		}
	})
}
