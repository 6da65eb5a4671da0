package controller

import (
	"cmp"
	"slices"
	"time"

	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/mutant"
)

// Leases is what the active controller knows of the brokers' sessions. It is soft: Reset forgets it all, and then nobody is
// refused for a session that is perhaps alive elsewhere, and everybody's session begins anew. Times are monotonic. It belongs
// to the control loop; Decide only reads it.
type Leases struct {
	SessionTimeout    time.Duration // broker.session.timeout.ms
	HeartbeatInterval time.Duration // broker.heartbeat.interval.ms; 0: one witness alone proves nothing
	Began             time.Time     // when this controller became the active one
	LastContact       map[kafka.BrokerID]time.Time
	MetadataOffset    map[kafka.BrokerID]int64 // the newest image that a broker has published, by its heartbeats

	incarnations map[kafka.BrokerID]kafka.UUID // whose contact LastContact is
	left         map[kafka.BrokerID]int64      // index of an image in which a broker in controlled shutdown led nothing any more
	sightings    map[kafka.BrokerID]map[kafka.BrokerID]sighting
	rumours      map[kafka.BrokerID]rumour
}

// sighting is what a witness (the inner key) says of another broker: that the process of this epoch is gone.
type sighting struct {
	epoch   kafka.BrokerEpoch
	refuted bool // it was heard of since
}

// rumour is what gossip says of an incarnation, and what no heartbeat has refuted since: that it is gone.
type rumour struct {
	incarnation kafka.UUID
	gone        bool
}

// Reset begins the sessions of all brokers anew, when this controller becomes the active one.
func (l *Leases) Reset(now time.Time) {
	*l = Leases{
		SessionTimeout: l.SessionTimeout, HeartbeatInterval: l.HeartbeatInterval, Began: now,
		LastContact:    map[kafka.BrokerID]time.Time{},
		MetadataOffset: map[kafka.BrokerID]int64{},
		incarnations:   map[kafka.BrokerID]kafka.UUID{},
		left:           map[kafka.BrokerID]int64{},
		sightings:      map[kafka.BrokerID]map[kafka.BrokerID]sighting{},
		rumours:        map[kafka.BrokerID]rumour{},
	}
}

// Silent begins a broker's session before this controller did: then it was last heard of, in another way than by its
// heartbeats. Which incarnation that was is not known, so another one is not refused for it.
func (l *Leases) Silent(id kafka.BrokerID, since time.Time) {
	l.LastContact[id], l.incarnations[id] = since, kafka.UUID{}
}

// Heard notes what a command says of its sender. img is the newest image that was applied, not one with decisions that are on
// their way. A registration counts when it was granted. A heartbeat counts whatever became of it: a controller that is behind
// with its work must not take that for silence. Other commands say nothing: a broker whose heartbeats stop is stuck where it
// matters. Before the first call there must have been a Reset.
func (l *Leases) Heard(img *metadata.Image, cmd Command, now time.Time) {
	switch c := cmd.(type) {
	case RegisterBroker:
		l.LastContact[c.Broker], l.incarnations[c.Broker] = now, c.Incarnation
	case BrokerHeartbeat:
		if b, known := img.Brokers.ByID(c.Broker); known && b.Epoch == c.Epoch {
			l.heartbeat(img, b, c, now)
		}
	}
}

func (l *Leases) heartbeat(img *metadata.Image, b *metadata.BrokerRegistration, c BrokerHeartbeat, now time.Time) {
	l.LastContact[b.ID], l.incarnations[b.ID] = now, b.Incarnation
	l.MetadataOffset[b.ID] = max(l.MetadataOffset[b.ID], c.MetadataOffset)
	if _, noted := l.left[b.ID]; !b.InControlledShutdown || b.Fenced {
		delete(l.left, b.ID)
	} else if !noted {
		l.left[b.ID] = img.Index
	}
	for witness, s := range l.sightings[b.ID] {
		s.refuted = s.refuted || s.epoch == b.Epoch
		l.sightings[b.ID][witness] = s
	}
	if l.rumours[b.ID].gone {
		delete(l.rumours, b.ID)
	}
	l.Testimony(img, b.ID, c.Unreachable)
}

// Rumour notes that gossip says an incarnation of a broker to be gone, or alive, when it says so. Gossip is a hint: what it
// says of the registered incarnation shortens a silence, see deadline, until a heartbeat refutes it. That it is alive only
// takes back that it is gone: a broker whose network answers may be stuck with its disk.
func (l *Leases) Rumour(img *metadata.Image, id kafka.BrokerID, incarnation kafka.UUID, gone bool) {
	b, known := img.Brokers.ByID(id)
	switch {
	case !known || b.Incarnation != incarnation:
	case gone || mutant.Is("gossipKeepsAlive"):
		l.rumours[id] = rumour{incarnation, gone}
	default:
		delete(l.rumours, id)
	}
}

// Testimony replaces what a witness says: a broker in each of its heartbeats, and the active controller of what its own node saw;
// where that node is a broker too, it is one and the same witness. What it repeats stays as it was: refuted once, it is so until
// the witness has looked again, else a witness that is in error would have a healthy broker fenced between two heartbeats.
func (l *Leases) Testimony(img *metadata.Image, witness kafka.BrokerID, gone []UnreachableBroker) {
	for target, said := range l.sightings {
		if s, ok := said[witness]; ok && !slices.Contains(gone, UnreachableBroker{target, s.epoch}) {
			delete(said, witness)
		}
	}
	for _, u := range gone {
		if _, known := img.Brokers.ByID(u.Broker); !known || u.Broker == witness {
			continue
		}
		if l.sightings[u.Broker] == nil {
			l.sightings[u.Broker] = map[kafka.BrokerID]sighting{}
		}
		if s, ok := l.sightings[u.Broker][witness]; !ok || s.epoch != u.Epoch {
			l.sightings[u.Broker][witness] = sighting{epoch: u.Epoch}
		}
	}
}

// deadline is when the broker's session is over if nothing more is heard of it. A silent broker has its whole session. One
// whose process is gone, by two witnesses that it has not refuted, has none left; with one witness, or where the broker
// was heard of since, it is silence of two heartbeats that decides, and so it is with one that gossip says to be gone.
func (l *Leases) deadline(b *metadata.BrokerRegistration) time.Time {
	contact, heard := l.LastContact[b.ID]
	if !heard {
		contact = l.Began
	}
	said, unrefuted := 0, 0
	for _, s := range l.sightings[b.ID] {
		if s.epoch == b.Epoch {
			said++
			if !s.refuted {
				unrefuted++
			}
		}
	}
	r, rumoured := l.rumours[b.ID]
	rumoured = rumoured && r.incarnation == b.Incarnation
	switch {
	case unrefuted >= 2 || rumoured && r.gone && mutant.Is("gossipFences"):
		return contact
	case rumoured && !r.gone: // only gossipKeepsAlive notes that
		return contact.Add(1000 * l.SessionTimeout)
	case (said > 0 || rumoured) && l.HeartbeatInterval > 0:
		return contact.Add(min(2*l.HeartbeatInterval, l.SessionTimeout))
	}
	return contact.Add(l.SessionTimeout)
}

// Fenced ends the session of a broker that was fenced, as Kafka's BrokerHeartbeatManager does: another incarnation may take
// its place, unless this one is heard of again. Evidence alone would not do, since the new process itself refutes it. Where that
// has registered in the meantime, its session is its own.
func (l *Leases) Fenced(gone FencedBroker) {
	if who := l.incarnations[gone.Broker]; who.IsZero() || who == gone.Incarnation {
		delete(l.LastContact, gone.Broker)
	}
}

// live reports whether this very incarnation was heard of, and its session is not over.
func (l *Leases) live(b *metadata.BrokerRegistration, now time.Time) bool {
	_, heard := l.LastContact[b.ID]
	who, known := l.incarnations[b.ID]
	return heard && (!known || who == b.Incarnation) && now.Before(l.deadline(b))
}

// overdue returns the unfenced brokers whose session is over, the one that is silent for longest first.
func (l *Leases) overdue(img *metadata.Image, now time.Time) []*metadata.BrokerRegistration {
	var over []*metadata.BrokerRegistration
	for b := range img.Brokers.All() {
		if !b.Fenced && !now.Before(l.deadline(b)) {
			over = append(over, b)
		}
	}
	slices.SortStableFunc(over, func(a, b *metadata.BrokerRegistration) int {
		return cmp.Or(l.deadline(a).Compare(l.deadline(b)), cmp.Compare(a.ID, b.ID))
	})
	return over
}

// NextExpiry is when FenceBrokers will have something to do if nothing more is heard; that may be past. ok is false where
// no broker is unfenced.
func NextExpiry(img *metadata.Image, leases Leases) (at time.Time, ok bool) {
	for b := range img.Brokers.All() {
		if b.Fenced {
			continue
		}
		if d := leases.deadline(b); !ok || d.Before(at) {
			at, ok = d, true
		}
	}
	return at, ok
}
