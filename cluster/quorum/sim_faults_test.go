package quorum

import (
	"slices"
	"syscall"
	"time"

	"weir/internal/vfs"
)

// mix is what a seed's run is made of. Each has some of the faults only: all at once hide each other.
type mix struct {
	founders, voters int
	late             bool // one founder comes later than the others
	snapshotBytes    int64
	segmentBytes     int32
	keepEntries      uint64

	link                                     link
	crash, midStep, pause, disk, cut         bool
	transfer, falseSuspect, suspect, members bool
	wipe                                     bool
}

func (w *world) drawMix() mix {
	pick := func() bool { return w.chance(0.5) }
	m := mix{
		founders: []int{1, 3, 3, 3, 5}[w.rng.IntN(5)], late: w.chance(0.3),
		snapshotBytes: []int64{400, 3000, 1 << 20}[w.rng.IntN(3)], segmentBytes: []int32{600, 8 << 20}[w.rng.IntN(2)],
		keepEntries: []uint64{1, 5, 50}[w.rng.IntN(3)],
		link:        link{delay: w.between(time.Millisecond, 40*time.Millisecond)},
		crash:       pick(), midStep: pick(), pause: pick(), disk: w.chance(0.25), cut: pick(),
		transfer: pick(), falseSuspect: pick(), suspect: pick(), members: pick(),
	}
	m.voters = m.founders
	if m.members {
		m.voters = []int{1, 3, 5}[w.rng.IntN(3)]
		m.wipe = pick()
	}
	if pick() {
		m.link.loss, m.link.twice = 0.2*w.rng.Float64(), 0.2*w.rng.Float64()
	}
	return m
}

// plan sets off everything that is to happen.
func (w *world) plan() {
	m := w.mix
	w.link = m.link
	w.every(5*time.Millisecond, 150*time.Millisecond, w.propose)
	if m.crash {
		w.every(200*time.Millisecond, 4*time.Second, w.crash)
	}
	if m.midStep {
		w.every(100*time.Millisecond, 3*time.Second, func() { w.any().cutIn = 1 + w.rng.IntN(30) })
	}
	if m.pause {
		w.every(200*time.Millisecond, 5*time.Second, func() { w.any().paused = w.now + w.between(10*time.Millisecond, 3*time.Second) })
	}
	if m.disk {
		w.every(time.Second, 8*time.Second, w.failDisk)
	}
	if m.cut {
		w.every(500*time.Millisecond, 5*time.Second, w.partition)
	}
	if m.transfer {
		w.every(300*time.Millisecond, 4*time.Second, w.transfer)
	}
	if m.falseSuspect {
		w.every(100*time.Millisecond, 2*time.Second, func() {
			if h := w.any(); h.node != nil {
				h.step(Suspect{h.node.lead.Leader})
			}
		})
	}
	if m.members {
		w.every(time.Second, 6*time.Second, w.changeAnything)
		for range m.voters - m.founders {
			w.after(w.between(0, 4*time.Second), w.newcomer)
		}
	}
	w.manage()
}

func (w *world) any() *host { return w.hosts[w.rng.IntN(len(w.hosts))] }

// propose has a host propose that thinks that it may.
func (w *world) propose() {
	for _, i := range w.rng.Perm(len(w.hosts)) {
		if h := w.hosts[i]; h.node != nil && h.node.Leadership().Ready {
			for range 1 + w.rng.IntN(3) {
				if h.node != nil {
					h.step(Propose{w.entry(h.node)})
				}
			}
			return
		}
	}
}

// crash ends a process, the leader's often, or all at once. The others may be told: its own host refuses connections.
func (w *world) crash() {
	if w.chance(0.1) {
		w.seen["all crash"]++
		for _, h := range w.hosts {
			if h.node != nil {
				h.end()
			}
		}
		return
	}
	h := w.any()
	if leader := w.leader(); leader != nil && w.chance(0.5) {
		h = leader
	}
	if h.node == nil {
		return
	}
	led := h.node.Leadership().Ready
	h.end()
	if w.mix.suspect {
		w.suspect(h, led)
	}
}

// suspect has the others notice that a process is gone, unless it has come back by then.
func (w *world) suspect(gone *host, led bool) {
	life := gone.life
	for _, h := range w.hosts {
		if h == gone || w.cut[[2]int{h.number, gone.number}] {
			continue
		}
		w.after(w.between(2*time.Millisecond, 80*time.Millisecond), func() {
			if h.node == nil || gone.life != life || h.node.lead.Leader != gone.member.RaftID {
				return
			}
			h.step(Suspect{gone.member.RaftID})
			if led {
				w.seen["leader suspected"]++
			}
		})
	}
}

func (w *world) failDisk() {
	h := w.any()
	f := vfs.Fault{Op: []vfs.Op{vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpSyncDir, vfs.OpRead, vfs.OpTruncate}[w.rng.IntN(6)], Err: errDisk, Nth: 1 + w.rng.IntN(6)}
	if f.Op == vfs.OpWrite {
		f.Err, f.Short = syscall.ENOSPC, w.rng.IntN(100)
	}
	h.fail(f)
	w.seen["disk fails"]++
}

// transfer has the leader hand over, to somebody or whom it chooses.
func (w *world) transfer() {
	h := w.leader()
	if h == nil {
		return
	}
	e := TransferLeadership{}
	if w.chance(0.5) {
		e.To = w.any().member.RaftID
	}
	if out := h.step(e); !out.Dropped {
		w.seen["transfer"]++
	}
}

// partition cuts links, or mends them all.
func (w *world) partition() {
	clear(w.cut)
	sever := func(a, b int, both bool) {
		w.cut[[2]int{a, b}] = true
		if both {
			w.cut[[2]int{b, a}] = true
		}
	}
	n := len(w.hosts)
	order := w.rng.Perm(n)
	switch w.rng.IntN(7) {
	case 0, 1: // all is well
	case 2: // one is alone; in one direction only, perhaps
		both := w.chance(0.6)
		for _, other := range order[1:] {
			sever(order[0], other, both)
		}
	case 3: // two parts
		at := w.rng.IntN(n + 1)
		for _, a := range order[:at] {
			for _, b := range order[at:] {
				sever(a, b, true)
			}
		}
	case 4: // a ring, in which each sees its neighbours: a majority of five, another one for each
		for i := range n {
			for j := range i {
				if d := i - j; d != 1 && d != n-1 {
					sever(order[i], order[j], true)
				}
			}
		}
	case 5: // a bridge: all see the first, and the others not each other
		for i := 1; i < n; i++ {
			for j := 1; j < i; j++ {
				sever(order[i], order[j], true)
			}
		}
	case 6: // some directions
		for i := range n {
			for j := range n {
				if i != j && w.chance(0.25) {
					sever(i, j, false)
				}
			}
		}
	}
}

const maxHosts = 8

// changeAnything has machines come and go.
func (w *world) changeAnything() {
	switch w.rng.IntN(6) {
	case 0:
		if len(w.hosts) < maxHosts {
			w.newcomer()
		}
	case 1:
		w.voters = []int{1, 3, 3, 5}[w.rng.IntN(4)]
	case 2: // a voter goes; if it is the leader itself, only another one may do it
		if h := w.leader(); h != nil {
			voters := h.node.Members().Voters
			if gone := voters[w.rng.IntN(len(voters))]; len(voters) > 1 && w.lost(voters) == 0 {
				h.step(ChangeMembers{Remove: []uint64{gone}})
			}
		}
	case 3:
		w.retire()
	default:
		if w.mix.wipe {
			w.wipe()
		}
	}
}

// retire has the machines go for ever that are no members any more, when all voters know it.
func (w *world) retire() {
	leader := w.leader()
	if leader == nil || leader.node.Members().Changing || leader.node.applied != w.check.last {
		return
	}
	m := leader.node.Members()
	for _, id := range m.Voters {
		if h := w.byID[id]; h.node == nil || w.check.members(h.node) != w.check.members(leader.node) {
			return
		}
	}
	for _, h := range w.hosts {
		if h.node != nil && !h.node.Waiting() && !contains(m, h.member.RaftID) {
			h.wiped = true
			h.end()
			w.seen["retired"]++
		}
	}
}

// lost counts the members whose disks are gone.
func (w *world) lost(ids []uint64) (n int) {
	for _, id := range ids {
		if w.byID[id].wiped {
			n++
		}
	}
	return n
}

// wipe takes a voter's disk away for ever, if the others can do without: the machine comes back as another member.
func (w *world) wipe() {
	leader := w.leader()
	if leader == nil || leader.node.Members().Changing || leader.node.applied != w.check.last || len(w.hosts) >= maxHosts {
		return
	}
	voters := leader.node.Members().Voters
	h := w.byID[voters[w.rng.IntN(len(voters))]]
	if h.wiped || w.lost(voters) >= (len(voters)-1)/2 {
		return
	}
	h.wiped = true
	h.end()
	w.seen["disk lost"]++
	w.after(w.between(0, time.Second), w.newcomer)
}

// newcomer is another machine, which wants to join.
func (w *world) newcomer() {
	h := w.addHost()
	h.options = w.options(h)
	h.options.Join = true
	h.start()
}

// manage does, every now and then, what package cluster decides at the leader: learners for who joins, votes for who has
// come far enough, as many as there are to be, and none for a disk that is gone.
func (w *world) manage() {
	w.after(w.between(100*time.Millisecond, 500*time.Millisecond), w.manage)
	h := w.leader()
	if h == nil || h.node.Members().Changing {
		return
	}
	n := h.node
	m := n.Members()
	var e ChangeMembers
	for _, other := range w.hosts {
		switch id := other.member.RaftID; {
		case other.wiped && contains(m, id):
			e.Remove = append(e.Remove, id)
		case other.node != nil && other.node.Waiting() && !contains(m, id):
			e.Learn = append(e.Learn, id)
		case slices.Contains(m.Learners, id) && len(m.Voters)-len(e.Remove)+len(e.Promote) < w.voters &&
			n.Match(id) >= int64(n.applied)-3 && n.Match(id) > 0:
			e.Promote = append(e.Promote, id)
		}
	}
	if extra := len(m.Voters) - w.voters; extra > 0 && w.lost(m.Voters) == 0 {
		for _, id := range m.Voters {
			if id != h.member.RaftID && extra > 0 {
				e.Remove = append(e.Remove, id)
				extra--
			}
		}
	}
	if len(m.Voters) == 1 && len(e.Promote) == 1 && w.voters > 2 && w.chance(0.8) {
		e.Promote = nil // two voters are worse than one: better from one to three at once
	}
	if len(e.Promote) == 0 && len(e.Remove) == 0 && w.chance(0.2) {
		e.Demote, e.Promote = w.swap(n)
	}
	if len(e.Learn)+len(e.Promote)+len(e.Remove) == 0 || len(e.Remove) >= len(m.Voters) {
		return
	}
	if out := h.step(e); !out.Dropped {
		w.seen["members change"]++
		if len(e.Demote) > 0 {
			w.seen["a learner in a voter's place"]++
		}
		if len(e.Promote) > 1 {
			w.seen["several promoted at once"]++
		}
	}
}

// swap finds a voter that is down, and a learner for its place.
func (w *world) swap(n *Node) (down, spare []uint64) {
	m := n.Members()
	for _, id := range m.Voters {
		if w.byID[id].node == nil {
			down = []uint64{id}
		}
	}
	for _, id := range m.Learners {
		if w.byID[id].node != nil && n.Match(id) >= int64(n.applied)-3 && n.Match(id) > 0 {
			spare = []uint64{id}
		}
	}
	if down == nil || spare == nil {
		return nil, nil
	}
	return down, spare
}
