package quorum

import (
	"errors"
	"math/rand/v2"
	"time"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
	"weir/internal/vfs"
)

// host is a machine: a disk that outlives its processes, and a node while one runs.
type host struct {
	w       *world
	number  int
	member  metadata.QuorumMember
	mem     *vfs.Mem
	faulty  *vfs.Faulty
	faults  bool // the disk was made to fail
	node    *Node
	options Options
	life    int  // counts the node's starts and ends
	wiped   bool // its disk, or the machine, is gone for ever
	waiting bool // a start is planned
	told    string

	inbox   []*raftpb.Message
	paused  time.Duration // until when the process stands still
	pending bool          // the inbox is to be looked at

	// cutIn counts down the operations on the disk until the process ends in the midst of a step; −1: it does not. image is
	// what the disk has then, and whatever the process still does has no effect.
	cutIn int
	image *vfs.Mem
}

// disk gives the host a disk.
func (h *host) disk(mem *vfs.Mem) {
	h.mem, h.faulty, h.faults = mem, vfs.NewFaulty(mem), false
}

// before is called ahead of every change of the disk.
func (h *host) before() {
	if h.cutIn--; h.cutIn == 0 {
		h.image = h.ending()
		h.w.seen["end in the midst of a step"]++
	}
}

// ending is the disk as the next process finds it: after a power cut, or after the end of the process alone.
func (h *host) ending() *vfs.Mem {
	switch h.w.rng.IntN(5) {
	case 0:
		return h.mem.Crash(vfs.LoseAll())
	case 1:
		return h.mem.Crash(vfs.LoseNone())
	case 2:
		return h.mem.Kill()
	default:
		return h.mem.Crash(vfs.LoseSome(rand.New(rand.NewPCG(h.w.rng.Uint64(), 2))))
	}
}

// start opens the node, with what it is told at its first start.
func (h *host) start() {
	h.waiting = false
	if h.node != nil || h.wiped {
		return
	}
	o := h.options
	o.FS, o.Transport, o.Rand = &hookFS{FS: h.faulty, before: h.before}, h, rand.New(rand.NewPCG(h.w.rng.Uint64(), 3))
	if _, err := h.mem.Stat(logDir + "/" + raftStateFile); err == nil {
		o.Founders, o.Join = nil, false // raft-state remembers
	}
	n, err := Open(o, h.w.time())
	switch {
	case h.image != nil:
	case err != nil:
		if !h.faults {
			h.w.failf("host %d does not start: %v", h.number, err)
		}
	default:
		h.node = n
	}
	if h.node == nil {
		h.end()
		return
	}
	h.life++
	h.w.check.started(h)
	h.tickEvery()
	h.step(Tick{})
}

// tickEvery gives the process its ticks, by a clock that is not quite right.
func (h *host) tickEvery() {
	interval := time.Duration(float64(h.node.TickInterval()) * (0.9 + 0.2*h.w.rng.Float64()))
	life := h.life
	var tick func()
	tick = func() {
		if h.life != life {
			return
		}
		if h.node.Ticking() && h.w.now >= h.paused {
			h.step(Tick{})
		}
		h.w.after(interval, tick)
	}
	h.w.after(h.w.between(0, interval), tick)
}

// stepIn steps the node if it is still the same process.
func (h *host) stepIn(life int, e Event) {
	if h.life == life {
		h.step(e)
	}
}

// step has the node take an event, and judges what came of it.
func (h *host) step(e Event) Output {
	if h.node == nil {
		return Output{}
	}
	due, last := h.node.Due(), h.node.storage.last()
	term, termErr := h.node.storage.Term(last)
	out, err := h.node.Step(h.w.time(), e)
	if err != nil && h.image == nil && !h.faults {
		h.w.failf("host %d: %v", h.number, err)
	}
	if err != nil || h.image != nil {
		h.end()
		return Output{}
	}
	if now, err := h.node.storage.Term(last); termErr == nil && (err == raft.ErrUnavailable || err == nil && now != term) {
		h.w.seen["conflicting entries cut"]++
	}
	h.w.check.stepped(h, out)
	if next := h.node.Due(); !next.IsZero() && !next.Equal(due) {
		life := h.life
		h.w.after(max(next.Sub(h.w.time()), 0), func() {
			if h.life == life && !h.node.Due().IsZero() && !h.w.time().Before(h.node.Due()) {
				h.step(Wake{})
			}
		})
	}
	return out
}

// end ends the process, with the disk as it is, or was when the power went.
func (h *host) end() {
	image := h.image
	if image == nil {
		image = h.ending()
	}
	h.node, h.image, h.cutIn, h.inbox = nil, nil, -1, nil
	h.life++
	h.disk(image)
	if h.waiting || h.wiped {
		return
	}
	h.waiting = true
	pause := h.w.between(50*time.Millisecond, 3*time.Second)
	if h.w.calm {
		pause = 0
	}
	h.w.after(pause, h.start)
}

// Send is the node's Transport.
func (h *host) Send(messages []*raftpb.Message) {
	for _, m := range messages {
		if h.image != nil {
			return
		}
		h.w.check.sent(h, m)
		h.w.send(h, m)
	}
}

// deliver has a message lie in the inbox until the process looks: several may be taken at once.
func (h *host) deliver(m *raftpb.Message) {
	if h.node == nil {
		return
	}
	h.inbox = append(h.inbox, m)
	if h.pending {
		return
	}
	h.pending = true
	wait := max(h.paused-h.w.now, 0)
	if !h.w.calm && h.w.chance(0.2) {
		wait += h.w.between(0, 20*time.Millisecond)
	}
	h.w.after(wait, func() {
		h.pending = false
		messages := h.inbox
		h.inbox = nil
		if len(messages) > 0 {
			h.step(Receive{messages})
		}
	})
}

// fail makes the disk fail, for a call or two or until the process has ended.
func (h *host) fail(f vfs.Fault) {
	h.faults = true
	h.faulty.Inject(f)
}

var errDisk = errors.New("input/output error")
