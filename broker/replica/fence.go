package replica

import "time"

// SetFenced has the partitions that this broker leads refuse producers, consumers and followers with
// NOT_LEADER_OR_FOLLOWER, or serve them again. They keep their roles and epochs: that another broker leads by now is only
// possible, and it is the metadata that says so. It does not block; RefuseWaiting is to follow.
func (m *Manager) SetFenced(fenced bool) {
	if !fenced {
		now := m.Clock.Now()
		m.surroundings.servesSince.Store(&now)
	}
	m.surroundings.fenced.Store(fenced)
}

// RefuseWaiting refuses likewise everyone who waits at those partitions already.
func (m *Manager) RefuseWaiting() {
	for _, p := range m.All() {
		p.refuseWaiting()
	}
}

func (p *Partition) refuseWaiting() {
	p.mu.Lock()
	if p.leadership.Load() == nil {
		p.mu.Unlock()
		return
	}
	due := p.refuseWaitingLocked()
	p.mu.Unlock()
	due.release()
}

// serving is the leadership, or nil while partitions are fenced. Who begins to wait has asked for it with the partition's
// lock, and so before RefuseWaiting.
func (p *Partition) serving() *leadership {
	if p.fenced.Load() {
		return nil
	}
	return p.leadership.Load()
}

// mayLag reports whether followers that have nothing new are late by their own fault: they were served for as long as they may lag.
func (p *Partition) mayLag(now time.Time) bool {
	since := p.servesSince.Load()
	return since == nil || now.Sub(*since) > p.tracking.MaxLag
}
