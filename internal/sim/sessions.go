package sim

import (
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// What must be true of the brokers' sessions, whatever anybody says of them.

// contact is when a process was last told by a broker that it lives.
type contact struct {
	at    time.Duration
	epoch kafka.BrokerEpoch // -1: it has registered
	fence bool              // it asked to be fenced: so does the first heartbeat of a process, which the network may repeat late
}

// noteContact takes note of what comes to this process as the controller.
func (p *process) noteContact(cmd controller.Command) {
	switch c := cmd.(type) {
	case controller.BrokerHeartbeat:
		p.contacts[c.Broker] = contact{p.s.w.now, c.Epoch, c.WantFence}
	case controller.RegisterBroker:
		p.contacts[c.Broker] = contact{p.s.w.now, -1, false}
	}
}

// leading is since when, and in which term, a process has been the active controller; the zero value: it is not.
type leading struct {
	since time.Duration
	term  int32
}

func (p *process) noteLeadership() {
	status := p.node.QuorumStatus()
	p.s.noteVoters(p.n, status)
	if status.Leader == p.n.raftID() {
		p.s.check.leadsRaft(status.Term, status.Leader)
	}
	switch lead := status.Leadership; {
	case !lead.Ready:
		p.led = leading{}
	case p.led.term != lead.Term:
		p.led = leading{p.s.w.now, lead.Term}
	}
}

// proposal is when an entry of the metadata log was first seen on its way, and the term that it was made in.
type proposal struct {
	at   time.Duration
	term uint64
}

// proposed takes note of the entries of a Raft message.
func (s *simulation) proposed(m *raftpb.Message) {
	if m.GetType() != raftpb.MsgApp {
		return
	}
	for _, e := range m.GetEntries() {
		index := int64(e.GetIndex())
		if was, known := s.proposals[index]; !known || was.term < e.GetTerm() {
			s.proposals[index] = proposal{s.w.now, e.GetTerm()}
		}
	}
}

// checkFenced checks that a broker that was just fenced had been silent for two heartbeats, unless others saw that its process is
// gone: gossip alone ends no session. It knows of the broker what the controller knows that decided.
func (s *simulation) checkFenced(img *metadata.Image, b *metadata.BrokerRegistration) {
	n, a := s.node(b.ID), s.leaderOf(img.Term)
	if a == nil || a.n == n || b.InControlledShutdown {
		return
	}
	decided := s.w.now
	if p, known := s.proposals[img.Index]; known && p.term == uint64(img.Term) {
		decided = p.at
	}
	heard := a.contacts[b.ID]
	if heard.epoch != b.Epoch || heard.fence || heard.at > decided || heard.at < a.led.since { // what came before was refused
		return
	}
	// Perhaps: a machine refuses connections to a process that ended, and may lose its power only then.
	seen := n.proc == nil && n.host.powered || n.proc != nil && n.incarnation != b.Incarnation || n.seenEnd == b.Incarnation
	switch silent := decided - heard.at; {
	case seen:
	case silent < 2*s.c.heartbeat:
		s.check.violate("fenced-alive", b.ID, "broker %d was fenced %v after its last heartbeat, and nobody saw it dead", b.ID, silent)
	case silent < s.c.session:
		s.rare.count(rareRumourShortened)
	}
}

// leaderOf is the process that has been the active controller in a term; nil where it is no more.
func (s *simulation) leaderOf(term int32) *process {
	for _, n := range s.machines {
		if n.proc != nil && n.proc.led.term == term {
			return n.proc
		}
	}
	return nil
}

// checkSilent checks that a broker of which the active controller has heard nothing for a session is fenced, whatever gossip says
// of it. What the controller decides takes it as long as a majority may be silent until it resigns, and some time more.
func (s *simulation) checkSilent() {
	patience := s.c.session + 2*s.c.election + 2*time.Second
	for _, n := range s.nodes {
		if n.proc == nil || n.proc.led.term == 0 {
			continue
		}
		if n.host.paused {
			n.proc.led.since = s.w.now // it does not know yet that time has passed
			continue
		}
		for b := range n.proc.image().Brokers.All() {
			last := max(n.proc.led.since, n.proc.contacts[b.ID].at)
			if !b.Fenced && b.ID != n.id && s.w.now-last > patience {
				s.check.violate("not-fenced", b.ID, "broker %d is not fenced, and controller %d has not heard of it for %v", b.ID, n.id, s.w.now-last)
			}
		}
	}
}
