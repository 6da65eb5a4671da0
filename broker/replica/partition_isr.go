package replica

import (
	"time"

	"weir/broker/replica/tracker"
	"weir/cluster/metadata"
)

// proposal is the ISR that the partition wants, if it wants another one.
func (p *Partition) proposal() (of tracker.Proposal, asked ISRProposal, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.tracker == nil {
		return of, asked, false
	}
	if of, ok = p.mu.tracker.Proposal(); !ok {
		return of, asked, false
	}
	asked = ISRProposal{TopicPartition: p.tp, TopicID: p.id, LeaderEpoch: of.LeaderEpoch, PartitionEpoch: of.PartitionEpoch,
		ISR: make([]ISRMember, len(of.ISR)), RecoveryState: metadata.Recovered}
	for i, m := range of.ISR {
		asked.ISR[i] = ISRMember(m)
	}
	return of, asked, true
}

// proposed takes the controller's answer to a proposal. It reports whether the partition still wants the same.
func (p *Partition) proposed(of tracker.Proposal, result ISRResult) (again bool) {
	now := p.clock.Now()
	p.mu.Lock()
	if p.mu.tracker == nil {
		p.mu.Unlock()
		return false
	}
	again = p.mu.tracker.Answered(of, tracker.Answer{Code: result.Code, Leader: result.Leader, LeaderEpoch: result.LeaderEpoch,
		PartitionEpoch: result.PartitionEpoch, ISR: result.ISR, Recovering: result.RecoveryState == metadata.Recovering})
	due := p.advanceLocked(now)
	p.mu.Unlock()
	due.release()
	return again
}

// check looks for followers that lag, and for what time alone has made true. It reports whether the partition wants another
// ISR from here on.
func (p *Partition) check(now time.Time) (wants bool) {
	if l := p.serving(); l == nil || len(l.followers) == 0 { // followers that are refused do not lag by their own fault
		return false
	}
	p.mu.Lock()
	if p.mu.tracker == nil {
		p.mu.Unlock()
		return false
	}
	wants = p.mayLag(now) && p.mu.tracker.Check(now, p.log.EndOffset())
	due := p.advanceLocked(now)
	p.mu.Unlock()
	due.release()
	return wants
}
