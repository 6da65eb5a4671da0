package controller

import (
	"testing"
	"time"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// A registration that was decided on an image that had moved is decided again: it must not be taken for somebody else's, of
// whom was heard just now.
func TestRegistrationIsDecidedTwiceAlike(t *testing.T) {
	w := newWorld()
	w.run("broker 1")
	w.run("contact 1")
	w.now = w.now.Add(9 * time.Second)
	second, third := w.register(parseWords("1 incarnation=2")), w.register(parseWords("1 incarnation=3"))
	for range 2 {
		if _, _, err := Decide(&w.settings, w.img, w.leases, w.now, second); err != nil {
			t.Fatal(err)
		}
		w.leases.Heard(w.img, second, w.now)
	}
	w.decide(second)
	if _, _, err := Decide(&w.settings, w.img, w.leases, w.now, third); kafka.CodeOf(err) != kafka.DuplicateBrokerRegistration {
		t.Fatal(err)
	}
}

// A broker whose process was killed, and is fenced for that, may be back before its session would have been over; the new
// process answers where the old one did, so that nobody calls that one gone any more.
func TestWhoeverIsFencedMayBeReplaced(t *testing.T) {
	w := newWorld()
	w.run("broker 1")
	w.run("contact 1")
	second := w.register(parseWords("1 incarnation=2"))
	if _, _, err := Decide(&w.settings, w.img, w.leases, w.now, second); kafka.CodeOf(err) != kafka.DuplicateBrokerRegistration {
		t.Fatal(err)
	}
	registered, _ := w.img.Brokers.ByID(1)
	w.leases.Fenced(FencedBroker{1, kafka.UUID{9: 9}}) // another process of that broker
	if _, heard := w.leases.LastContact[1]; !heard {
		t.Error("a process lost its session by the end of another one's")
	}
	w.leases.Fenced(FencedBroker{1, registered.Incarnation})
	if _, _, err := Decide(&w.settings, w.img, w.leases, w.now, second); err != nil {
		t.Fatal(err)
	}
}

// A process that registered, and was killed before it heard of its epoch, is known to the next one by its name alone.
func TestWhoeverHasTheLogsWholeStaysInTheELR(t *testing.T) {
	for _, c := range []struct {
		epoch        kafka.BrokerEpoch
		incarnations []kafka.UUID
		want         bool
	}{
		{7, nil, true},
		{5, []kafka.UUID{{1}}, true},
		{-1, []kafka.UUID{{3}, {1}, {2}}, true}, // killed again before it heard of its registration
		{5, []kafka.UUID{{2}, {3}}, false},
		{-1, nil, false},
	} {
		existing := &metadata.BrokerRegistration{Epoch: 7, Incarnation: kafka.UUID{1}}
		if got := (RegisterBroker{PreviousEpoch: c.epoch, PreviousIncarnations: c.incarnations}).continues(existing); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
	if (RegisterBroker{}).continues(&metadata.BrokerRegistration{Epoch: 7}) {
		t.Error("nobody is somebody")
	}
}

// A process that was killed and is back at once, with its directories and its address, need not wait for its own session to end.
// A copy of its directories, elsewhere, must.
func TestRestartBeforeAnybodyMissedIt(t *testing.T) {
	here, elsewhere := metadata.Endpoint{Name: "PLAINTEXT", Host: "h", Port: 9092}, metadata.Endpoint{Name: "PLAINTEXT", Host: "h", Port: 9093}
	for _, c := range []struct {
		name     string
		previous []kafka.UUID
		at       metadata.Endpoint
		refused  bool
	}{
		{"back at once", []kafka.UUID{{1}}, here, false},
		{"killed again before it was registered", []kafka.UUID{{1}, {3}}, here, false},
		{"a copy at another address", []kafka.UUID{{1}}, elsewhere, true},
		{"another machine, or another disk", nil, here, true},
	} {
		w := newWorld()
		register := RegisterBroker{ClusterID: "c1", Broker: 1, Incarnation: kafka.UUID{1}, Directories: []kafka.DirectoryID{{7}}, Listeners: []metadata.Endpoint{here}}
		records, _, err := Decide(&w.settings, w.img, w.leases, w.now, register)
		if err != nil {
			t.Fatal(err)
		}
		img, _, err := w.img.With(records)
		if err != nil {
			t.Fatal(err)
		}
		w.leases.Heard(img, register, w.now)
		next := register
		next.Incarnation, next.PreviousIncarnations, next.Listeners = kafka.UUID{2}, c.previous, []metadata.Endpoint{c.at}
		_, _, err = Decide(&w.settings, img, w.leases, w.now, next)
		if refused := err != nil; refused != c.refused || refused && kafka.CodeOf(err) != kafka.DuplicateBrokerRegistration {
			t.Errorf("%s: %v, want refused=%t", c.name, err, c.refused)
		}
	}
}
