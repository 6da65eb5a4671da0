package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// Options say what to run.
type Options struct {
	Seed     uint64
	Duration time.Duration // simulated, before everything is healed; 0 for 20 s
	Trace    bool          // keep the run's story
	Drop     []int         // faults of the plan, by number, that do not happen: to find those that matter
	Hard     bool          // three brokers and faults in quick succession: what is rare is less so

	early    bool      // without lateFaults, and what goes with them: replication alone
	scenario *scenario // what is to happen, instead of what the seed draws
}

// Result is what came of a run.
type Result struct {
	Seed       uint64
	Digest     uint64        // of all that happened: equal for equal runs
	Simulated  time.Duration // until the cluster had converged
	Events     uint64
	Acked      int // records
	Faults     int // that happened
	Violations []Violation
	Rare       Rare
	Trace      []string
	Config     string
	Plan       string // the faults, numbered as in Options.Drop
	Actions    []action
}

// Failed reports whether anything happened that must not.
func (r *Result) Failed() bool { return len(r.Violations) > 0 }

func (r *Result) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "seed %d: digest %016x, %v simulated, %d events, %d faults, %d records acknowledged, %d violations\n",
		r.Seed, r.Digest, r.Simulated.Round(time.Millisecond), r.Events, r.Faults, r.Acked, len(r.Violations))
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "  %v\n", v)
	}
	return b.String()
}

// simulation is one run.
type simulation struct {
	o     Options
	w     *world
	c     config
	net   *network
	check *checker
	rare  *Rare

	disk        *rand.Rand // how long disks take
	nodes       []*node
	active      *node // the last one that was seen as the active controller
	admin       *admin
	changing    map[string]bool // topics that the admin is at work on
	committers  []*committer
	clients     int
	producers   []*producer
	consumers   []*consumer
	newest      *metadata.Image // of all that were published
	plan        []action
	faults      int
	reassigning int // commands that may still come true
	members         // of the quorum
	proposals   map[int64]proposal
	lost        func(from *node, cmd controller.Command) bool // of commands to the controller; nil: none is. For scenarios
	healed      bool
}

const (
	defaultDuration = 20 * time.Second
	// convergence is how long a cluster may take, when all faults are over, until every replica is in sync.
	convergence = 30 * time.Second
)

// Run runs a seed. The global source of random numbers must be seeded, too, for two runs to be the same
// (testing/cryptotest).
func Run(o Options) *Result {
	s := newSimulation(o)
	s.guarded(s.run)
	r := &Result{
		Seed: o.Seed, Digest: s.w.digest, Simulated: s.w.now, Events: s.w.seq, Acked: s.check.acked, Faults: s.faults,
		Violations: s.check.violations, Rare: *s.rare, Config: s.c.String(), Plan: describePlan(s.plan), Actions: s.plan,
	}
	if s.w.trace != nil {
		r.Trace = s.w.trace.lines
	}
	return r
}

func newSimulation(o Options) *simulation {
	if o.Duration == 0 {
		o.Duration = defaultDuration
	}
	var t *trace
	if o.Trace {
		t = &trace{}
	}
	w := newWorld(o.Seed, t)
	c := drawConfig(w.rng("config"))
	if o.Hard {
		c = harder(w.rng("hard"), c)
	}
	if !o.early {
		c.drawLate(w.rng("late"))
	}
	if o.scenario != nil {
		c = o.scenario.config()
	}
	s := &simulation{o: o, w: w, c: c, check: newChecker(w), rare: &Rare{}, newest: metadata.Empty(),
		disk: w.rng("disk"), changing: map[string]bool{}, proposals: map[int64]proposal{}, members: newMembers()}
	s.net = newNetwork(w, s.c.net)
	for i := range s.c.brokers {
		s.nodes = append(s.nodes, newNode(s, i+1, kafka.BrokerID(i+1)))
	}
	s.machines = slices.Clone(s.nodes)
	for _, n := range s.nodes[:s.c.voters] {
		s.founders = append(s.founders, n.member())
	}
	s.admin = &admin{client: newClient(s, "admin")}
	for i := range s.c.groups {
		s.committers = append(s.committers, newCommitter(s, i))
	}
	for i := range s.c.producers {
		s.producers = append(s.producers, newProducer(s, i))
	}
	for i := range s.c.consumers {
		s.consumers = append(s.consumers, newConsumer(s, i))
	}
	if o.scenario == nil {
		s.plan = slices.Concat(drawPlan(w.rng("faults"), &s.c, ^lateFaults, o.Duration), drawPlan(w.rng("late faults"), &s.c, lateFaults, o.Duration))
	}
	return s
}

// guarded makes a violation of a panic: of a broken invariant in the brokers' code, say.
func (s *simulation) guarded(f func()) {
	defer func() {
		if p := recover(); p != nil {
			s.check.violate("panic", p, "%v\n%s", p, debug.Stack())
		}
	}()
	f()
}

// node is the node with an id, on the machine that is it now.
func (s *simulation) node(id kafka.BrokerID) *node {
	return s.nodes[slices.IndexFunc(s.nodes, func(n *node) bool { return n.id == id })]
}

func (s *simulation) run() {
	rng := s.w.rng("start")
	for _, n := range s.nodes {
		if s.c.members.grow > 0 && !n.founds() {
			n.s.restartLater(n, between(rng, 0, s.c.members.grow))
		} else {
			n.start()
		}
	}
	s.createTopics()
	for _, p := range s.producers {
		p.start()
	}
	for _, c := range s.consumers {
		c.start()
	}
	for _, c := range s.committers {
		c.start()
	}
	s.schedule(withoutActions(s.plan, s.o.Drop))
	s.watch()
	s.gossip()
	if s.o.scenario != nil {
		s.w.after(quiet, func() { s.o.scenario.play(s) })
	}
	s.w.run(s.o.Duration)
	s.heal()
	if s.converge() {
		s.finish()
	}
}

// heal ends all faults, and the load.
func (s *simulation) heal() {
	s.w.tracef("HEAL")
	s.healed = true
	s.net.heal()
	for _, p := range s.producers {
		p.stopped = true
	}
	for _, n := range s.nodes {
		n.heal()
	}
}

// converge runs on until nothing is left to be done, and reports whether that came to be.
func (s *simulation) converge() bool {
	const step = 250 * time.Millisecond
	for deadline := s.w.now + convergence; s.w.now < deadline; {
		if len(s.check.violations) >= maxViolations {
			return false
		}
		s.w.run(s.w.now + step)
		if s.unsettled() == "" {
			return true
		}
	}
	s.check.violate("stuck", "", "%v after the last fault: %s", convergence, s.unsettled())
	return false
}
