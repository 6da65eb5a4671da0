package replica

import (
	"cmp"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weir/broker/replica/tracker"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/log"
)

// Logs is the set of logs on this broker's disks.
type Logs interface {
	Store
	MovingLogs
	Log(tp kafka.TopicPartition) *log.Log
	Create(tp kafka.TopicPartition, id kafka.TopicID, c log.Config) (*log.Log, error)
	Delete(tp kafka.TopicPartition) error
	MarkStray(tp kafka.TopicPartition) error
	Logs() []*log.Log
}

// FollowerSet fetches for the partitions that this broker follows. Manager.Apply is its only caller.
type FollowerSet interface {
	// Follow has p fetched from its leader, beginning at its log's end, whatever was under way for an earlier epoch. It is
	// called after p.followLocked, once p is what Manager.Partition finds, for every change of the registration: again for
	// the same p and epoch it changes nothing.
	Follow(p *Partition, leader kafka.BrokerID, epoch kafka.LeaderEpoch)
	// Unfollow ends that; it does nothing for what is not followed. It is called before this broker begins to lead the
	// partition or deletes its log. What was fetched before may still arrive: it is refused under the partition's lock, where
	// the partition no longer follows in the epoch that it was asked for in.
	Unfollow(tp kafka.TopicPartition)
}

// defaultMaxLag is Kafka's default of replica.lag.time.max.ms.
const defaultMaxLag = 30 * time.Second

// Options are what a Manager works on. Those that say nothing else are required.
type Options struct {
	Self kafka.BrokerID
	// Epoch is that of this process's registration; nil: whatever the metadata says of Self is about this process.
	Epoch       func() kafka.BrokerEpoch
	Logs        Logs
	FsyncPolicy log.FsyncPolicy
	// TopicConfig gives what is in force for a topic in an image.
	TopicConfig func(img *metadata.Image, topic string) *TopicConfig
	Clock       clock.Clock   // nil for the system's
	MaxLag      time.Duration // replica.lag.time.max.ms; 0 for Kafka's default
	Followers   FollowerSet   // nil: nothing is fetched
	Controller  ISRController // nil: no ISR is ever changed
	// Misplaced is told that Manager.Directory of a replica may be another one than it was; nil: nobody is. It must not block, nor
	// move replicas.
	Misplaced func(kafka.TopicPartition)
	Throttle  *Throttle // leader.replication.throttled.rate; nil: none
	Logger    *slog.Logger
}

// Manager is the set of partitions on this broker. It follows the metadata image: Apply is called with every delta, by
// one goroutine; look-ups take no lock.
type Manager struct {
	Options
	view         atomic.Pointer[view]
	image        atomic.Pointer[metadata.Image] // as partitions see the brokers
	surroundings surroundings
	placing      sync.Mutex // held while partitions come and go, and while moves of replicas begin
	moves        *Moves
	isr          *ISRUpdates
	traffics     traffics
}

// view is immutable; Apply puts another in its place.
type view struct {
	partitions map[kafka.TopicPartition]*Partition
	offline    map[kafka.TopicPartition]error // assigned to this broker, but the log cannot be used
}

// NewManager returns a manager that has no partitions until the first Apply.
func NewManager(o Options) *Manager {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.MaxLag == 0 {
		o.MaxLag = defaultMaxLag
	}
	m := &Manager{Options: o}
	m.view.Store(&view{})
	m.image.Store(metadata.Empty())
	m.moves = newMoves(&m.Options)
	m.isr = newISRUpdates(o.Controller, m.All, o.MaxLag, o.Logger)
	m.surroundings = surroundings{self: o.Self, store: o.Logs, policy: o.FsyncPolicy, clock: o.Clock, propose: m.isr.propose, sending: o.Throttle,
		tracking: tracker.Options{Self: o.Self, MaxLag: o.MaxLag, Brokers: m.broker}}
	return m
}

// ISRUpdates returns what takes other ISRs to the controller. Whoever made the manager runs or steps it.
func (m *Manager) ISRUpdates() *ISRUpdates { return m.isr }

// broker finds a broker in the metadata that the partitions follow, or are about to.
func (m *Manager) broker(id kafka.BrokerID) (tracker.Broker, bool) {
	b, registered := m.image.Load().Brokers.ByID(id)
	if !registered {
		return tracker.Broker{}, false
	}
	return tracker.Broker{Epoch: b.Epoch, Active: b.Active()}, true
}

// Partition finds a partition, nil where this broker has no replica of it that works.
func (m *Manager) Partition(tp kafka.TopicPartition) *Partition { return m.view.Load().partitions[tp] }

// Offline reports whether this broker has a replica that it cannot use: its directory failed, or its log is corrupt.
func (m *Manager) Offline(tp kafka.TopicPartition) bool { return m.view.Load().offline[tp] != nil }

// Counts returns how many partitions are on this broker, and how many of its replicas it cannot use.
func (m *Manager) Counts() (partitions, offline int) {
	v := m.view.Load()
	return len(v.partitions), len(v.offline)
}

// All returns every partition, sorted by topic and number.
func (m *Manager) All() []*Partition {
	all := slices.Collect(maps.Values(m.view.Load().partitions))
	slices.SortFunc(all, func(a, b *Partition) int {
		return cmp.Or(cmp.Compare(a.tp.Topic, b.tp.Topic), cmp.Compare(a.tp.Partition, b.tp.Partition))
	})
	return all
}

// Apply takes a change of the metadata: deletions first, since a topic may be deleted and made again in one step, then
// leaders and followers, then configurations. A partition whose log cannot be made or opened is offline; the others go on.
func (m *Manager) Apply(delta *metadata.Delta, img *metadata.Image) {
	m.placing.Lock()
	defer m.placing.Unlock()
	m.image.Store(img) // first: who is fenced from here on joins no ISR
	local := delta.Local(m.Self)
	if m.replaced(img) {
		local = withoutLead(local)
	}
	changed := m.changedConfigs(delta, img)
	if !local.Empty() {
		m.unfollow(local)
		old := m.view.Load()
		next := &view{partitions: maps.Clone(old.partitions), offline: maps.Clone(old.offline)}
		if next.partitions == nil {
			next.partitions, next.offline = make(map[kafka.TopicPartition]*Partition), make(map[kafka.TopicPartition]error)
		}
		for _, p := range local.Deleted {
			m.remove(next, p, delta.Jump)
		}
		for _, p := range slices.Concat(local.Leaders, local.Followers) {
			m.assign(next, p, img, changed)
		}
		m.view.Store(next)
		m.follow(local.Followers)
		m.moves.poke()
	}
	m.configure(changed)
	m.recheck(delta)
}

// replaced reports whether another process has registered under this broker's id since, as when this one was cut off and
// somebody started another in its place. What the controller then gives to that id is not for this one.
func (m *Manager) replaced(img *metadata.Image) bool {
	if m.Epoch == nil {
		return false
	}
	b, registered := img.Brokers.ByID(m.Self)
	return registered && b.Epoch != m.Epoch()
}

// withoutLead is what concerns a process that was replaced: two must not lead in the same epoch. Its replicas have no leader
// that they could fetch from. When it is registered again it begins anew, since a registration ends what there was.
func withoutLead(local metadata.LocalDelta) metadata.LocalDelta {
	for _, p := range local.Leaders {
		p.Registration.Leader = kafka.NoBroker
		local.Followers = append(local.Followers, p)
	}
	local.Leaders = nil
	return local
}

// recheck has partitions look again at whom they wait for, if a broker is not what it was.
func (m *Manager) recheck(delta *metadata.Delta) {
	if !slices.ContainsFunc(delta.Brokers, func(c metadata.BrokerChange) bool { return c.Old != nil && c.ID != m.Self }) {
		return
	}
	now := m.Clock.Now()
	for _, p := range m.All() {
		p.recheck(now)
	}
}

// unfollow ends the fetching for what is deleted, and for what this broker leads from here on.
func (m *Manager) unfollow(local metadata.LocalDelta) {
	if m.Followers == nil {
		return
	}
	for _, p := range slices.Concat(local.Deleted, local.Leaders) {
		m.Followers.Unfollow(p.TopicPartition)
	}
}

// follow tells who is to be fetched from. A leader's epoch is new whenever the leader is.
func (m *Manager) follow(followers []metadata.LocalPartition) {
	if m.Followers == nil {
		return
	}
	for _, p := range followers {
		partition := m.Partition(p.TopicPartition)
		switch {
		case partition == nil || p.Registration.Leader == kafka.NoBroker:
			m.Followers.Unfollow(p.TopicPartition)
		default:
			m.Followers.Follow(partition, p.Registration.Leader, p.Registration.LeaderEpoch)
		}
	}
}

// remove deletes a replica on positive evidence: a record that removed the topic, or moved the replica away. Where the metadata
// came as a snapshot there is none, only that it says nothing of the replica any more; then the log is set aside.
func (m *Manager) remove(next *view, p metadata.LocalPartition, byAbsence bool) {
	m.drop(next, p.TopicPartition)
	delete(next.offline, p.TopicPartition)
	if l := m.Logs.Log(p.TopicPartition); l != nil && l.TopicID() == p.TopicID {
		discard := m.Logs.Delete
		if byAbsence {
			discard = m.Logs.MarkStray
		}
		if err := discard(p.TopicPartition); err != nil {
			m.Logger.Error("a deleted partition's directory could not be removed", "partition", p.TopicPartition, "error", err)
		}
	}
}

func (m *Manager) assign(next *view, p metadata.LocalPartition, img *metadata.Image, changed *changedConfigs) {
	partition := next.partitions[p.TopicPartition]
	if partition != nil {
		if config := changed.of(p.Topic); config != nil {
			partition.config.Store(config) // the ISR that comes with it counts by its minimum; setConfig does the rest
		}
	} else {
		config := m.TopicConfig(img, p.Topic)
		l, err := m.open(p, config)
		if err != nil {
			m.offline(next, p, err)
			return
		}
		partition = newPartition(&m.surroundings, p.TopicPartition, p.TopicID, l, config)
		partition.traffic = m.traffics.join(p.Topic)
		next.partitions[p.TopicPartition] = partition
		delete(next.offline, p.TopicPartition)
		m.resumeMove(partition, p.Registration.Directory(m.Self))
	}
	if err := partition.apply(p.Registration); err != nil {
		m.offline(next, p, err)
	}
}

func (m *Manager) offline(next *view, p metadata.LocalPartition, err error) {
	m.Logger.Error("a partition is offline", "partition", p.TopicPartition, "error", err)
	m.drop(next, p.TopicPartition)
	next.offline[p.TopicPartition] = err
}

func (m *Manager) drop(next *view, tp kafka.TopicPartition) {
	if partition := next.partitions[tp]; partition != nil {
		m.moves.set(partition, nil, false)
		partition.close()
		delete(next.partitions, tp)
		m.traffics.leave(tp.Topic)
	}
}

// open finds or makes the log of a replica. A log of an earlier topic of that name is set aside, never deleted: that it
// is not in the metadata is no evidence that it was removed.
func (m *Manager) open(p metadata.LocalPartition, config *TopicConfig) (*log.Log, error) {
	if err := m.Logs.Settle(p.TopicPartition, p.Registration.Directory(m.Self)); err != nil {
		return nil, fmt.Errorf("find the log: %w", err)
	}
	if l := m.Logs.Log(p.TopicPartition); l != nil {
		if l.TopicID() == p.TopicID {
			l.SetConfig(config.Log)
			return l, l.Offline()
		}
		m.Logger.Warn("a log belongs to another topic of the same name and is set aside", "partition", p.TopicPartition, "has", l.TopicID(), "wanted", p.TopicID)
		if err := m.Logs.MarkStray(p.TopicPartition); err != nil {
			return nil, fmt.Errorf("set the log of another topic aside: %w", err)
		}
	}
	l, err := m.Logs.Create(p.TopicPartition, p.TopicID, config.Log)
	isNew := p.Registration.LeaderEpoch == 0 || slices.Contains(p.Registration.Adding, m.Self)
	if err == nil && !isNew { // a replica of a partition that was led before had a log, unless it is being added
		m.Logger.Warn("a partition's log is gone, and it begins anew without records", "partition", p.TopicPartition)
	}
	return l, err
}

// SetStraysAside renames the logs that no partition of this broker's claims, after the first Apply. They are kept: that
// a topic is not in the metadata is no evidence that it was deleted.
func (m *Manager) SetStraysAside() {
	for _, tp := range m.Logs.Unsettled() {
		if m.Partition(tp) != nil || m.Offline(tp) {
			continue
		}
		if err := m.Logs.MarkStray(tp); err != nil {
			m.Logger.Error("logs that belong to no partition of this broker could not be set aside", "partition", tp, "error", err)
		}
	}
	for _, l := range m.Logs.Logs() {
		if p := m.Partition(l.TP()); p != nil && p.log == l || m.Offline(l.TP()) {
			continue
		}
		if err := m.Logs.MarkStray(l.TP()); err != nil {
			m.Logger.Error("a log that belongs to no partition of this broker could not be set aside", "dir", l.Dir(), "error", err)
			continue
		}
		m.Logger.Warn("a log belongs to no partition of this broker and is set aside", "partition", l.TP(), "topic_id", l.TopicID())
	}
}

// changedConfigs are the configurations of topics that are other ones with an image; a change of a broker's touches all.
type changedConfigs struct {
	resolve func(topic string) *TopicConfig
	all     bool
	topics  map[string]*TopicConfig // nil where it was not needed yet
}

func (m *Manager) changedConfigs(delta *metadata.Delta, img *metadata.Image) *changedConfigs {
	c := &changedConfigs{resolve: func(topic string) *TopicConfig { return m.TopicConfig(img, topic) }, topics: make(map[string]*TopicConfig)}
	for _, r := range delta.Configs {
		switch r.Type {
		case metadata.TopicResource:
			c.topics[r.Name] = nil
		case metadata.BrokerResource:
			c.all = true
		}
	}
	return c
}

// none reports whether nothing changed.
func (c *changedConfigs) none() bool { return !c.all && len(c.topics) == 0 }

// of returns a topic's new configuration, nil where it is what it was.
func (c *changedConfigs) of(topic string) *TopicConfig {
	config, named := c.topics[topic]
	if config == nil && (c.all || named) {
		config = c.resolve(topic)
		c.topics[topic] = config
	}
	return config
}

// configure gives the partitions of topics their new configuration.
func (m *Manager) configure(changed *changedConfigs) {
	if changed.none() {
		return
	}
	for _, p := range m.All() {
		if config := changed.of(p.tp.Topic); config != nil {
			p.setConfig(config)
		}
	}
}
