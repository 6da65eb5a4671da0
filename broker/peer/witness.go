package peer

import (
	"time"

	"weir/internal/kafka"
)

// Target is a broker that is watched: one that may lead.
type Target struct {
	ID      kafka.BrokerID
	Epoch   kafka.BrokerEpoch // that the image has
	Address string            // host:port for its peers
}

// Sighting is what was seen of a broker's process.
type Sighting struct {
	Broker kafka.BrokerID
	Epoch  kafka.BrokerEpoch
	// Gone: its own host closed the connection and refused a new one. False takes that back.
	Gone bool
}

// Witness judges one broker by what becomes of a connection to it. It is told what happened, and tells what to do next.
//
// A process that ends has its connections closed by its own host, which then refuses new ones; so does one that only
// stops to listen, and nobody can reach that either. One that is paused, or cut off, neither closes nor refuses: time
// alone tells. Evidence is about the epoch that the image had when the connection was made. The process at that address
// was then of that epoch or of a later one, so a process that is registered again by now is not accused.
type Witness struct {
	target   Target
	made     kafka.BrokerEpoch // of the target when the last connection was made
	closed   bool              // its host closed that connection
	gone     bool              // and that is told
	failures int               // in a row
}

// Next is what a Watcher does after a step.
type Next struct {
	Drop     bool          // the connection, or the attempt at one
	Dial     bool          // the target's address,
	After    time.Duration // when so much time has passed
	Sighting *Sighting     // to be told, if there is one
}

// steady is how long a connection lasts that is worth making anew at once. One that its host closes earlier, again and
// again, is tried less and less often.
const steady = time.Second

// Watch begins, or goes on with another registration or address of the same broker.
func (w *Witness) Watch(t Target) Next {
	if t == w.target {
		return Next{}
	}
	if t.Epoch != w.target.Epoch {
		w.closed, w.gone = false, false
	}
	w.target, w.failures = t, 0
	return Next{Drop: true, Dial: true}
}

// Connected is a dial that succeeded.
func (w *Witness) Connected() Next {
	took := w.gone
	w.made, w.closed, w.gone = w.target.Epoch, false, false
	if took {
		return Next{Sighting: &Sighting{Broker: w.target.ID, Epoch: w.target.Epoch}}
	}
	return Next{}
}

// Failed is a dial that did not.
func (w *Witness) Failed(refused bool) Next {
	w.failures++
	next := Next{Dial: true, After: backoff(w.failures)}
	if refused && w.closed && !w.gone && w.made == w.target.Epoch {
		w.gone = true
		next.Sighting = &Sighting{Broker: w.target.ID, Epoch: w.made, Gone: true}
	}
	return next
}

// Lost is the end of a connection that lasted so long, and whether its host brought it about.
func (w *Witness) Lost(byHost bool, lasted time.Duration) Next {
	w.closed = byHost
	if lasted >= steady {
		w.failures = 0
	}
	next := Next{Dial: true, After: backoff(w.failures)}
	w.failures++
	return next
}
