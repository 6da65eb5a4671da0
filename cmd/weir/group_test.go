package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

func TestFilterGroups(t *testing.T) {
	listed := kadm.ListedGroups{
		"b": {Group: "b", GroupType: "classic", ProtocolType: "consumer", State: "Stable", Coordinator: 1},
		"a": {Group: "a", GroupType: "consumer", ProtocolType: "consumer", State: "Empty", Coordinator: 2},
		"c": {Group: "c", GroupType: "share", ProtocolType: "share", State: "Stable", Coordinator: 1},
	}
	for _, c := range []struct {
		states, types []string
		want          string
	}{
		{nil, nil, "a b c"},
		{[]string{"stable"}, nil, "b c"},
		{[]string{"EMPTY", "Stable"}, []string{"Classic", "consumer"}, "a b"},
		{[]string{"Dead"}, nil, ""},
	} {
		states, err := oneOfWords("--state", c.states, groupStates)
		if err != nil {
			t.Fatal(err)
		}
		types, err := oneOfWords("--type", c.types, groupTypes)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, g := range filterGroups(listed, states, types) {
			names = append(names, g.Group)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%v %v: %q, want %q", c.states, c.types, got, c.want)
		}
	}
}

// described is a group of one member that has two partitions and one that has none; a third partition is committed only.
func described() groupDescription {
	instance := "static-1"
	d := groupDescription{
		Group: "g", Type: "classic", ProtocolType: "consumer", State: "Stable", Assignor: "range",
		Coordinator: groupCoordinator{1, "localhost", 9092},
		Members: []groupMember{
			{MemberID: "m-1", InstanceID: &instance, ClientID: "c", Host: "/127.0.0.1", Assignment: map[string][]int32{"a": {0, 1}}},
			{MemberID: "m-2", ClientID: "c", Host: "/127.0.0.1"},
		},
	}
	committed := make(kadm.OffsetResponses)
	for _, o := range []kadm.Offset{{Topic: "a", Partition: 0, At: 4}, {Topic: "a", Partition: 1, At: -1}, {Topic: "b", Partition: 0, At: 7}} {
		committed.Add(kadm.OffsetResponse{Offset: o})
	}
	d.addPartitions(committed, kadm.ListedOffsets{
		"a": {0: {Topic: "a", Offset: 10}, 1: {Topic: "a", Partition: 1, Offset: 3}},
		"b": {0: {Topic: "b", Offset: 7}},
	})
	return d
}

func TestGroupPartitionsAndLag(t *testing.T) {
	d := described()
	want := []groupPartition{
		{Topic: "a", Partition: 0, CommittedOffset: new(int64(4)), EndOffset: new(int64(10)), Lag: new(int64(6)), MemberID: "m-1", ClientID: "c", Host: "/127.0.0.1"},
		{Topic: "a", Partition: 1, EndOffset: new(int64(3)), MemberID: "m-1", ClientID: "c", Host: "/127.0.0.1"},
		{Topic: "b", Partition: 0, CommittedOffset: new(int64(7)), EndOffset: new(int64(7)), Lag: new(int64(0))},
	}
	if !reflect.DeepEqual(d.Partitions, want) || d.Lag != 6 {
		t.Errorf("lag %d, partitions %+v", d.Lag, d.Partitions)
	}
}

func TestGroupText(t *testing.T) {
	d := described()
	first := "Group: g\tType: classic\tState: Stable\tAssignor: range\tCoordinator: 1 (localhost:9092)\tMembers: 2\tLag: 6\n"
	for members, want := range map[bool]string{
		false: `GROUP  TOPIC  PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG  CONSUMER-ID  HOST        CLIENT-ID
g      a      0          4               10              6    m-1          /127.0.0.1  c
g      a      1          -               3               -    m-1          /127.0.0.1  c
g      b      0          7               7               0    -            -           -
g      -      -          -               -               -    m-2          /127.0.0.1  c
`,
		true: `GROUP  CONSUMER-ID  INSTANCE-ID  HOST        CLIENT-ID  #PARTITIONS  ASSIGNMENT
g      m-1          static-1     /127.0.0.1  c          2            a:0,1
g      m-2          -            /127.0.0.1  c          0            -
`,
	} {
		var out bytes.Buffer
		if err := d.write(&out, members); err != nil || out.String() != first+want {
			t.Errorf("members=%v: %v\n%s", members, err, out.String())
		}
	}
}

func TestParseOffsets(t *testing.T) {
	got, err := parseOffsets(strings.NewReader("orders,0,5\r\n\n\"orders\",1,6\nstate 0\t7\n"))
	want := newOffsets{"orders": {0: 5, 1: 6}, "state": {0: 7}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, line := range []string{"orders", "orders,0", "orders,0,x", "orders,-1,0", "orders,0,-1", "orders,0,1,2", "group,orders,0,1"} {
		if _, err := parseOffsets(strings.NewReader("a,0,0\n" + line)); err == nil || !strings.HasPrefix(err.Error(), "line 2: ") {
			t.Errorf("%q: %v", line, err)
		}
	}
}

func TestKeepTakesWhatWasChosen(t *testing.T) {
	for chosen, want := range map[string]newOffsets{
		"":        {"a": {0: 1, 1: 2}, "b": {0: 3}},
		"a":       {"a": {0: 1, 1: 2}},
		"a:1 b:0": {"a": {1: 2}, "b": {0: 3}},
		"c":       {},
	} {
		partitions, err := parseTopicPartitions(strings.Fields(chosen))
		if err != nil {
			t.Fatal(err)
		}
		got := newOffsets{"a": {0: 1, 1: 2}, "b": {0: 3}}
		if got.keep(partitions); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", chosen, got, want)
		}
	}
}

func TestPlanStaysWithinThePartitions(t *testing.T) {
	committed := make(kadm.OffsetResponses)
	committed.Add(kadm.OffsetResponse{Offset: kadm.Offset{Topic: "a", Partition: 1, At: 15}})
	list := offsetList{"a": {0: {start: 10, end: 20}, 1: {start: 10, end: 20}, 2: {start: 10, end: 20}}}
	plan := planReset("g", newOffsets{"a": {2: 21, 0: 9, 1: 12}}, committed, list)
	want := []plannedOffset{
		{Group: "g", Topic: "a", Partition: 0, NewOffset: 10, wanted: 9},
		{Group: "g", Topic: "a", Partition: 1, NewOffset: 12, OldOffset: new(int64(15)), wanted: 12},
		{Group: "g", Topic: "a", Partition: 2, NewOffset: 20, wanted: 21},
	}
	if !reflect.DeepEqual(plan, want) {
		t.Errorf("%+v, want %+v", plan, want)
	}
	var out bytes.Buffer
	if err := writePlan(&out, outputText, plan); err != nil {
		t.Fatal(err)
	}
	if want := `GROUP  TOPIC  PARTITION  NEW-OFFSET  OLD-OFFSET
g      a      0          10          -
g      a      1          12          15
g      a      2          20          -
`; out.String() != want {
		t.Errorf("%s", out.String())
	}
}

func TestShiftNeedsACommit(t *testing.T) {
	committed := make(kadm.OffsetResponses)
	committed.Add(kadm.OffsetResponse{Offset: kadm.Offset{Topic: "a", Partition: 0, At: 15}})
	got, err := shifted("g", topicPartitions{"a": {0}}, committed, -3)
	if want := (newOffsets{"a": {0: 12}}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	if _, err := shifted("g", topicPartitions{"a": {0, 1}}, committed, 1); err == nil || err.Error() != "a[1] cannot be shifted: group g has committed nothing for it" {
		t.Errorf("%v", err)
	}
}
