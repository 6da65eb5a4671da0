package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"weir/internal/vfs"
	"weir/log"
)

// action is a fault: what begins at a time, and for how long. The whole plan is drawn before the run, so that a run with
// fewer of them is a run of the same load.
type action struct {
	at     time.Duration
	fault  faultSet // one of them
	node   int      // index, where the fault has one
	length time.Duration
	seed   uint64 // of what else the fault draws
}

func (a action) String() string {
	return fmt.Sprintf("%.3fs %v node=%d for %v", a.at.Seconds(), a.fault, a.node+1, a.length)
}

// quiet is how long a run goes on before the first fault.
const quiet = 1500 * time.Millisecond

// drawPlan draws the faults of a run: those that are among some kinds.
func drawPlan(rng *rand.Rand, c *config, among faultSet, until time.Duration) []action {
	var kinds []faultSet
	for i := range len(faultNames) {
		if f := faultSet(1 << i); c.faults&among&f != 0 {
			kinds = append(kinds, f)
		}
	}
	if len(kinds) == 0 {
		return nil
	}
	var plan []action
	for at := quiet; at < until; at += time.Duration(rng.ExpFloat64() * float64(c.faultGap)) {
		plan = append(plan, action{
			at: at, fault: pick(rng, kinds...), node: rng.IntN(c.brokers), length: drawLength(rng), seed: rng.Uint64(),
		})
	}
	return plan
}

// drawLength draws how long a fault lasts: mostly about as long as a session, at times much shorter or longer.
func drawLength(rng *rand.Rand) time.Duration {
	switch rng.IntN(4) {
	case 0:
		return between(rng, 10*time.Millisecond, 300*time.Millisecond)
	case 1:
		return between(rng, 2*time.Second, 8*time.Second)
	}
	return between(rng, 300*time.Millisecond, 3*time.Second)
}

// schedule plans the faults.
func (s *simulation) schedule(plan []action) {
	for _, a := range plan {
		s.w.after(a.at, func() {
			if !s.healed {
				s.w.mix(uint64(a.fault), uint64(a.node))
				s.act(a)
			}
		})
	}
}

// act begins a fault, if it may happen now, and plans its end.
func (s *simulation) act(a action) {
	n := s.nodes[a.node]
	rng := rand.New(rand.NewPCG(a.seed, 0))
	did := true
	switch a.fault {
	case faultKill:
		did = s.kill(n, a.length)
	case faultPower:
		did = s.powerCut(n, rng, a.length)
	case faultPowerAll:
		did = s.powerCutAll(rng, a.length)
	case faultWipe:
		did = s.wipe(n, rng)
	case faultPause:
		did = s.pause(n, a.length)
	case faultRestart:
		did = s.restart(n, a.length)
	case faultIsolate, faultSplit, faultRing, faultBridge, faultOneWay, faultController:
		links := s.partition(a.fault, n, rng)
		did = len(links) > 0
		s.cutFor(links, a.length)
	case faultSlow:
		s.slow(n, between(rng, 20*time.Millisecond, 400*time.Millisecond), a.length)
	case faultDisk:
		did = s.breakDisk(n, rng, a.length)
	case faultTopics:
		did = s.changeTopics(rng)
	case faultTrim:
		did = s.trim(rng)
	case faultElect:
		did = s.elect(rng)
	case faultLie:
		s.lie(n, rng, a.length)
	case faultReplace:
		did = s.replace(a.node, rng)
	case faultReassign:
		did = s.reassign(rng)
	case faultHang:
		n.hungUntil = max(n.hungUntil, s.w.now+a.length)
	}
	if did {
		s.faults++
		s.w.tracef("FAULT %v", a)
	}
}

func (s *simulation) kill(n *node, down time.Duration) bool {
	if !n.host.running {
		return false
	}
	n.kill()
	s.restartLater(n, down)
	return true
}

// restartLater starts a node again, unless that has happened by then.
func (s *simulation) restartLater(n *node, down time.Duration) {
	life := n.host.life
	s.w.after(down, func() {
		if !n.host.running && n.host.life == life && !n.removed {
			n.start()
		}
	})
}

// powerCut takes the power of a machine, and what was not synced, if the replication promises to bear that.
func (s *simulation) powerCut(n *node, rng *rand.Rand, down time.Duration) bool {
	if !n.host.powered {
		return false
	}
	bears := s.bears(n)
	switch {
	case s.durable():
		n.powerCut(vfs.LoseSome(rng)) // what was acknowledged is there, and the node can tell
	case bears:
		n.powerCut(vfs.LoseSome(rng))
		n.markLossy(true)
	case s.nobodyLost():
		n.powerCut(vfs.LoseNone())
		n.markLossy(false)
	default:
		return false
	}
	s.restartLater(n, down)
	return true
}

// durable reports whether acknowledgements wait for the disk.
func (s *simulation) durable() bool { return s.c.policy == log.FsyncAck }

// powerCutAll takes everybody's power at once. Only where acknowledgements wait for the disk nothing is lost by that.
func (s *simulation) powerCutAll(rng *rand.Rand, down time.Duration) bool {
	if !s.durable() && !s.nobodyLost() {
		return false
	}
	for _, n := range s.nodes {
		switch {
		case !n.host.powered:
		case s.durable():
			n.powerCut(vfs.LoseSome(rng))
		default:
			n.powerCut(vfs.LoseNone())
			n.markLossy(false)
		}
		s.restartLater(n, down+between(rng, 0, 500*time.Millisecond))
	}
	return true
}

// wipe takes a node's disk, and gives it an empty one, most often before the controller notices.
func (s *simulation) wipe(n *node, rng *rand.Rand) bool {
	if n.removing || !s.bears(n) || !s.quorumBears(n) {
		return false
	}
	n.loseLog()
	n.wipe()
	s.rare.count(rareWiped)
	s.restartLater(n, pick(rng, 5*time.Millisecond, 50*time.Millisecond, time.Second))
	return true
}

func (s *simulation) pause(n *node, length time.Duration) bool {
	if !n.host.running || n.host.paused {
		return false
	}
	life := n.host.life
	n.host.pause()
	s.w.after(length, func() {
		if n.host.life == life {
			n.host.resume()
		}
	})
	return true
}

// restart stops a node in good order.
func (s *simulation) restart(n *node, down time.Duration) bool {
	if n.proc == nil || n.host.paused {
		return false
	}
	n.proc.stop(func() { s.restartLater(n, down) })
	return true
}

// partition draws the links that a fault of the network cuts.
func (s *simulation) partition(fault faultSet, n *node, rng *rand.Rand) (links []link) {
	ids := make([]hostID, len(s.nodes))
	for i, other := range s.nodes {
		ids[i] = other.host.id
	}
	rng.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	count := len(ids)
	switch fault {
	case faultIsolate:
		links = s.around(n.host.id, chance(rng, 0.5))
	case faultSplit:
		minority := 1 + rng.IntN(max(1, (count-1)/2))
		for _, a := range ids[:minority] {
			for _, b := range ids[minority:] {
				links = append(links, both(a, b)...)
			}
		}
	case faultRing:
		for i := range ids {
			for j := range i {
				if d := i - j; count > 3 && min(d, count-d) > 1 {
					links = append(links, both(ids[i], ids[j])...)
				}
			}
		}
	case faultBridge:
		half := (count - 1) / 2
		for _, a := range ids[:half] {
			for _, b := range ids[half : count-1] {
				links = append(links, both(a, b)...)
			}
		}
	case faultOneWay:
		from := rng.IntN(2) == 0
		for _, l := range s.around(n.host.id, chance(rng, 0.3)) {
			if (l.from == n.host.id) == from && chance(rng, 0.7) {
				links = append(links, l)
			}
		}
	case faultController:
		if active := s.activeController(); active != nil && active != n {
			links = both(n.host.id, active.host.id)
		}
	}
	return links
}

// around are all links of a node to the other nodes, and to the clients.
func (s *simulation) around(id hostID, clients bool) (links []link) {
	for _, other := range s.nodes {
		if other.host.id != id {
			links = append(links, both(id, other.host.id)...)
		}
	}
	for i := range s.clients {
		if clients {
			links = append(links, both(id, firstClient+hostID(i))...)
		}
	}
	return links
}

func (s *simulation) cutFor(links []link, length time.Duration) {
	s.net.cut(links, 1)
	s.w.after(length, func() {
		if !s.healed {
			s.net.cut(links, -1)
		}
	})
}

func (s *simulation) slow(n *node, by, length time.Duration) {
	links := s.around(n.host.id, false)
	for _, l := range links {
		s.net.slow[l] += by
	}
	s.w.after(length, func() {
		if !s.healed {
			for _, l := range links {
				s.net.slow[l] -= by
			}
		}
	})
}

// describePlan lists the faults of a plan, one a line.
func describePlan(plan []action) string {
	var b strings.Builder
	for i, a := range plan {
		fmt.Fprintf(&b, "%3d %v\n", i, a)
	}
	return b.String()
}

// without returns the plan less some of its faults.
func withoutActions(plan []action, dropped []int) (rest []action) {
	for i, a := range plan {
		if !slices.Contains(dropped, i) {
			rest = append(rest, a)
		}
	}
	return rest
}
