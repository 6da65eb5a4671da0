package sim

import "time"

// hostID names a machine: brokers have their node ids, clients numbers from firstClient on.
type hostID int

const firstClient hostID = 100

// host is a machine with at most one process on it. What happens to the process goes through do, so that a paused one does
// nothing and a dead one is not disturbed.
type host struct {
	w         *world
	id        hostID
	life      int  // counts the processes
	running   bool // there is a process
	listening bool // it takes connections
	powered   bool // without power nobody even refuses a connection
	paused    bool
	backlog   []func() // while paused
	serving   []*serving
	pump      func() // after everything that the process was given to do; may be nil
}

func newHost(w *world, id hostID, pump func()) *host {
	return &host{w: w, id: id, pump: pump, powered: true}
}

// begin starts a process.
func (h *host) begin() {
	h.life++
	h.running, h.listening, h.powered, h.paused, h.backlog = true, false, true, false, nil
}

// listen lets others connect.
func (h *host) listen() { h.listening = h.running }

// end is the process's sudden death. power says whether the machine stays up: then its kernel resets the connections.
func (h *host) end(power bool) {
	h.running, h.listening, h.powered, h.paused, h.backlog = false, false, power, false, nil
	broken := h.serving
	h.serving = nil
	for _, s := range broken {
		s.index = -1
		if power {
			s.reset()
		}
	}
}

// serving is a request that the process has not answered.
type serving struct {
	index int // in host.serving; -1 when it is over
	reset func()
}

func (h *host) serve(reset func()) *serving {
	s := &serving{index: len(h.serving), reset: reset}
	h.serving = append(h.serving, s)
	return s
}

func (h *host) served(s *serving) {
	if s.index < 0 {
		return
	}
	last := len(h.serving) - 1
	moved := h.serving[last]
	h.serving[s.index], moved.index = moved, s.index
	h.serving = h.serving[:last]
	s.index = -1
}

// do gives the process of a life something to do, now or when it is no longer paused.
func (h *host) do(life int, f func()) {
	switch {
	case !h.running || h.life != life:
	case h.paused:
		h.backlog = append(h.backlog, f)
	default:
		f()
		if h.pump != nil && h.running && h.life == life {
			h.pump()
		}
	}
}

// after is do, later.
func (h *host) after(d time.Duration, f func()) {
	life := h.life
	h.w.after(d, func() { h.do(life, f) })
}

func (h *host) pause() {
	if h.running {
		h.paused = true
	}
}

// resume lets a paused process do what has come meanwhile.
func (h *host) resume() {
	if !h.paused {
		return
	}
	h.paused = false
	backlog, life := h.backlog, h.life
	h.backlog = nil
	for _, f := range backlog {
		h.do(life, f)
	}
}
