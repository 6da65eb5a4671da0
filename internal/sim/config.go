package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"weir/log"
)

// config is what a seed draws of the cluster, its load and its faults: a random part of what there is, since faults that
// all happen at once hide each other.
type config struct {
	brokers   int
	voters    int // of the quorum; the other brokers are learners
	dirs      int // data directories of a broker
	policy    log.FsyncPolicy
	session   time.Duration
	heartbeat time.Duration
	election  time.Duration // controller.quorum.election.timeout.ms
	balance   time.Duration // leader.imbalance.check.interval; 0 for never
	lag       time.Duration // replica.lag.time.max.ms
	fetchWait time.Duration // replica.fetch.wait.max.ms
	sessions  bool          // fetchers' partitions are remembered by the leaders
	fsyncTime time.Duration // that a group commit takes at most
	clockSkew time.Duration // by which brokers' clocks differ at most

	topics    []topicSpec
	producers int
	consumers int
	groups    int

	offsetsMinISR int // of __consumer_offsets
	net           netConfig
	gossip        gossipConfig
	members       membersConfig
	faults        faultSet
	faultGap      time.Duration // mean time between two faults
}

// topicSpec is a topic of the load.
type topicSpec struct {
	name         string
	partitions   int32
	rf           int16
	minISR       int
	segmentBytes int32
	retention    int64 // retention.bytes
	unclean      bool  // unclean.leader.election.enable
	flushEach    bool  // flush.messages=1
}

// faultSet says which kinds of faults happen.
type faultSet uint32

const (
	faultKill faultSet = 1 << iota
	faultPower
	faultPowerAll // at once
	faultWipe
	faultPause
	faultRestart // a clean one
	faultIsolate
	faultSplit
	faultRing // each node sees a majority, no two the same
	faultBridge
	faultOneWay
	faultController // between a broker and the active controller only
	faultSlow       // a node's links
	faultDisk       // full, or failing
	faultTopics     // topics are deleted and made anew, and get more partitions
	faultElect      // elections by hand
	faultTrim       // records are deleted
	faultLie        // gossip says what is not so
	faultReplace    // a machine is thrown away, and another one comes as its node
	faultReassign   // partitions get other replicas
	faultHang       // a disk does not answer what is to be durable
)

// lateFaults are drawn apart from the others, so that a seed without them is the run that it was before there were any.
const lateFaults = faultLie | faultReplace | faultReassign | faultHang

var faultNames = []string{
	"kill", "power", "power-all", "wipe", "pause", "restart", "isolate", "split", "ring", "bridge", "one-way", "controller", "slow", "disk",
	"topics", "elect", "trim", "lie", "replace", "reassign", "hang",
}

func (s faultSet) String() string {
	var names []string
	for i, name := range faultNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// drawConfig draws a seed's config.
func drawConfig(rng *rand.Rand) config {
	c := config{
		brokers:   pick(rng, 3, 3, 3, 4, 5),
		dirs:      pick(rng, 1, 1, 2),
		policy:    pick(rng, log.FsyncBackground, log.FsyncBackground, log.FsyncAck),
		session:   between(rng, time.Second, 3*time.Second),
		heartbeat: 200 * time.Millisecond,
		election:  pick(rng, 300*time.Millisecond, time.Second),
		balance:   pick(rng, 0, 2*time.Second),
		lag:       between(rng, 2*time.Second, 4*time.Second),
		fetchWait: pick(rng, 50*time.Millisecond, 200*time.Millisecond, 500*time.Millisecond),
		sessions:  chance(rng, 0.7),
		fsyncTime: pick(rng, time.Millisecond, 5*time.Millisecond, 30*time.Millisecond),
		clockSkew: pick(rng, 0, time.Second, 10*time.Minute),
		producers: 2 + rng.IntN(3),
		consumers: 1 + rng.IntN(2),
		groups:    rng.IntN(3),
		net:       drawNetwork(rng),
		faultGap:  between(rng, 500*time.Millisecond, 3*time.Second),
	}
	c.offsetsMinISR = pick(rng, 1, 2, 2)
	c.voters = pick(rng, 3, 3, 3, 1)
	if c.brokers == 5 && chance(rng, 0.5) {
		c.voters = 5
	}
	for i := range 1 + rng.IntN(3) {
		c.topics = append(c.topics, drawTopic(rng, fmt.Sprintf("topic-%d", i)))
	}
	for i := range len(faultNames) {
		if f := faultSet(1 << i); f&lateFaults == 0 && chance(rng, 0.5) {
			c.faults |= f
		}
	}
	return c
}

// drawLate draws what lateFaults go with.
func (c *config) drawLate(rng *rand.Rand) {
	if chance(rng, 0.5) {
		c.gossip = drawGossip(rng)
		if chance(rng, 0.7) {
			c.faults |= faultLie
		}
	}
	if chance(rng, 0.5) {
		c.voters = pick(rng, 1, 1, c.voters)
		c.members = drawMembers(rng, c)
		c.faults |= pick(rng, 0, faultReplace)
	}
	c.faults |= pick(rng, 0, faultReassign)
	c.faults |= pick(rng, 0, faultHang)
}

// harder makes of a config one in which faults meet: three brokers, one replica on each, and little time between faults.
func harder(rng *rand.Rand, c config) config {
	c.brokers, c.voters, c.dirs, c.offsetsMinISR = 3, 3, 1, 2
	c.topics = c.topics[:1]
	t := &c.topics[0]
	t.partitions, t.rf, t.minISR, t.unclean, t.retention = 2, 3, 2, false, -1
	c.faultGap = between(rng, 150*time.Millisecond, 600*time.Millisecond)
	c.net.tail, c.net.tailMax, c.net.loss = 0.05, 400*time.Millisecond, 0.025
	c.faults &^= faultDisk | faultTopics | faultTrim | faultPowerAll
	c.faults |= faultKill | faultController
	return c
}

func drawNetwork(rng *rand.Rand) netConfig {
	return netConfig{
		base:      between(rng, 100*time.Microsecond, 2*time.Millisecond),
		jitter:    between(rng, 100*time.Microsecond, 5*time.Millisecond),
		tail:      pick(rng, 0, 0.001, 0.01, 0.05),
		tailMax:   pick(rng, 50*time.Millisecond, 400*time.Millisecond),
		loss:      pick(rng, 0, 0.001, 0.01, 0.025),
		duplicate: pick(rng, 0, 0, 0.01, 0.05),
		ordered:   chance(rng, 0.5),
	}
}

func drawTopic(rng *rand.Rand, name string) topicSpec {
	t := topicSpec{
		name: name, partitions: 1 + rng.Int32N(3), rf: pick[int16](rng, 1, 2, 3, 3, 3, 3),
		segmentBytes: pick[int32](rng, 2000, 10_000, 1<<20), retention: pick[int64](rng, -1, -1, -1, 20_000), unclean: chance(rng, 0.06), flushEach: chance(rng, 0.1),
	}
	t.minISR = 1 + rng.IntN(int(t.rf))
	if t.rf == 3 && chance(rng, 0.6) {
		t.minISR = 2
	}
	return t
}

func (c config) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "brokers=%d voters=%d dirs=%d fsync=%s session=%v lag=%v wait=%v sessions=%v", c.brokers, c.voters, c.dirs, c.policy,
		c.session, c.lag, c.fetchWait, c.sessions)
	fmt.Fprintf(&b, " fsync-time=%v skew=%v producers=%d consumers=%d groups=%d", c.fsyncTime, c.clockSkew, c.producers, c.consumers, c.groups)
	fmt.Fprintf(&b, "\nnetwork %+v\ngossip %+v members %+v", c.net, c.gossip, c.members)
	for _, t := range c.topics {
		fmt.Fprintf(&b, "\n%+v", t)
	}
	fmt.Fprintf(&b, "\nfaults every %v of %v", c.faultGap, c.faults)
	return b.String()
}
