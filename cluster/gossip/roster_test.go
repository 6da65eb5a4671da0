package gossip

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/internal/kafka"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func newRoster() *roster {
	self := metaOf(1, 1)
	return &roster{clusterID: "cluster", self: 1, name: self.name(), processes: make(map[string]*process)}
}

// What is said of a node does not depend on the order in which its processes are heard of.
func TestWhatProcessesTellOfTheirNode(t *testing.T) {
	for what, c := range map[string]struct {
		steps []string // "+node.incarnation" is heard, "-" is lost
		want  []string // what is news after each: "node.incarnation", with "gone"; "" for nothing
	}{
		"one process":                      {[]string{"+2.1", "+2.1", "-2.1", "-2.1", "+2.1"}, []string{"2.1", "2.1", "2.1 gone", "", "2.1"}},
		"a node that was started again":    {[]string{"+2.1", "+2.2", "-2.1", "-2.2"}, []string{"2.1", "2.2", "", "2.2 gone"}},
		"heard of in the other order":      {[]string{"+2.2", "+2.1", "-2.1", "-2.2"}, []string{"2.2", "", "", "2.2 gone"}},
		"the later one is the wrong one":   {[]string{"+2.1", "+2.2", "-2.2", "-2.1"}, []string{"2.1", "2.2", "2.1", "2.1 gone"}},
		"gone before the next one":         {[]string{"+2.1", "-2.1", "+2.2"}, []string{"2.1", "2.1 gone", "2.2"}},
		"nodes of their own":               {[]string{"+2.1", "+3.2", "-2.1"}, []string{"2.1", "3.2", "2.1 gone"}},
		"itself":                           {[]string{"+1.1", "-1.1"}, []string{"", ""}},
		"what this node was, or its rival": {[]string{"+1.2", "-1.2", "+1.0"}, []string{"", "", ""}},
		"nobody that was heard of":         {[]string{"-2.1"}, []string{""}},
	} {
		r := newRoster()
		for i, step := range c.steps {
			var node kafka.BrokerID
			var incarnation byte
			if _, err := fmt.Sscanf(step[1:], "%d.%d", &node, &incarnation); err != nil {
				t.Fatal(err)
			}
			m := metaOf(node, incarnation)
			n, ok := News{}, false
			if step[0] == '-' {
				n, ok = r.lost(m.name(), noon)
			} else {
				n, ok = r.heard(m)
			}
			got := ""
			if ok {
				got = fmt.Sprintf("%d.%d", n.Member.Node, n.Incarnation[0])
				if n.Gone {
					got += " gone"
				}
			}
			if got != c.want[i] {
				t.Errorf("%s: after %s the news is %q, want %q", what, strings.Join(c.steps[:i+1], " "), got, c.want[i])
			}
		}
	}
}

func TestWhoIsNotListenedTo(t *testing.T) {
	r := newRoster()
	good, stranger := metaOf(2, 1), metaOf(2, 1)
	stranger.ClusterID = "another"
	if err := r.admit(good.name(), &good, noon); err != nil {
		t.Error(err)
	}
	if err := r.admit(stranger.name(), &stranger, noon); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("another cluster: %v", err)
	}
	if err := r.admit("3.01000000", &good, noon); err == nil {
		t.Error("a node under another's name is listened to")
	}
}

func TestTheRosterIsBounded(t *testing.T) {
	r := newRoster()
	add := func(i int, now time.Time) error {
		m := metaOf(kafka.BrokerID(1+i%3), 0) // this node's own id included
		m.Incarnation = kafka.UUID{2, byte(i >> 16), byte(i >> 8), byte(i)}
		err := r.admit(m.name(), &m, now)
		if err == nil {
			r.heard(m)
		}
		return err
	}
	for i := range maxProcesses {
		if err := add(i, noon); err != nil {
			t.Fatalf("process %d: %v", i, err)
		}
	}
	if err := add(maxProcesses, noon); err == nil || r.alive() != maxProcesses {
		t.Errorf("there are %d processes, and one more: %v", r.alive(), err)
	}
	if err := add(0, noon); err != nil {
		t.Errorf("one that is known: %v", err)
	}
	for name := range r.processes {
		r.lost(name, noon)
	}
	if err := add(maxProcesses, noon.Add(forgetAfter-1)); err == nil {
		t.Error("the names of those that are gone are forgotten before memberlist forgets them")
	}
	if err := add(maxProcesses, noon.Add(forgetAfter)); err != nil || len(r.processes) != 1 {
		t.Errorf("those that are gone are never forgotten: %d, %v", len(r.processes), err)
	}
}
