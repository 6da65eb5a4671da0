package replica

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"weir/broker/replica/tracker"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/internal/metrics"
)

const (
	// Between requests that the controller did not answer, or answered with no definite word.
	minISRBackoff = 50 * time.Millisecond // AlterPartitionManager of Kafka
	maxISRBackoff = time.Second

	maxISRProposals = 1000 // in one request: each is a record of the metadata
	maxISRChecks    = 1000 // in one step, which takes well under a millisecond
)

// ISRUpdates takes the ISRs that this broker's leaders want to the controller: of all partitions in one request, and one
// request at a time, so that no partition has two under way. Every half of the largest lag it looks for followers that lag.
//
// Step is for one goroutine, Run's or another one; partitions tell it from any. Manager makes one.
type ISRUpdates struct {
	controller ISRController // nil: nothing is ever asked
	partitions func() []*Partition
	checkEvery time.Duration
	logger     *slog.Logger
	wake       chan struct{} // has an element whenever there may be something to do
	counts     struct{ expands, shrinks, failed metrics.Counter }

	inbox struct {
		sync.Mutex
		wanting []*Partition
		answer  *isrAnswer
	}

	// Step's own.
	waiting   []*Partition // want another ISR, in the order in which they began to
	waits     map[*Partition]bool
	sent      []sentProposal // of the request under way; nil if there is none
	backoff   time.Duration
	notBefore time.Time // of the next request
	unchecked []*Partition
	nextCheck time.Time
}

type sentProposal struct {
	partition *Partition
	of        tracker.Proposal
}

type isrAnswer struct {
	results []ISRResult
	err     error
}

func newISRUpdates(controller ISRController, partitions func() []*Partition, maxLag time.Duration, logger *slog.Logger) *ISRUpdates {
	return &ISRUpdates{controller: controller, partitions: partitions, checkEvery: maxLag / 2, logger: logger,
		wake: make(chan struct{}, 1), waits: make(map[*Partition]bool)}
}

// Run steps until ctx ends.
func (u *ISRUpdates) Run(ctx context.Context, c clock.Clock) {
	for {
		now := c.Now()
		timer := c.NewTimer(u.Step(now).Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-u.wake:
			timer.Stop()
		case <-timer.C():
		}
	}
}

// propose is told of a partition that wants another ISR.
func (u *ISRUpdates) propose(p *Partition) {
	u.inbox.Lock()
	u.inbox.wanting = append(u.inbox.wanting, p)
	u.inbox.Unlock()
	u.notify()
}

// answered is the controller's done.
func (u *ISRUpdates) answered(results []ISRResult, err error) {
	u.inbox.Lock()
	u.inbox.answer = &isrAnswer{results, err}
	u.inbox.Unlock()
	u.notify()
}

func (u *ISRUpdates) notify() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// Step does what there is to do, and returns when it has to be called again at the latest; sooner whenever a partition or
// the controller told it something.
func (u *ISRUpdates) Step(now time.Time) time.Time {
	u.inbox.Lock()
	wanting, answer := u.inbox.wanting, u.inbox.answer
	u.inbox.wanting, u.inbox.answer = nil, nil
	u.inbox.Unlock()
	if answer != nil {
		u.take(now, answer)
	}
	for _, p := range wanting {
		u.wait(p)
	}
	u.check(now)
	u.send(now)
	switch {
	case len(u.unchecked) > 0:
		return now
	case len(u.waiting) > 0 && u.sent == nil && u.controller != nil && u.notBefore.Before(u.nextCheck):
		return u.notBefore
	}
	return u.nextCheck
}

func (u *ISRUpdates) wait(p *Partition) {
	if !u.waits[p] {
		u.waits[p] = true
		u.waiting = append(u.waiting, p)
	}
}

// take gives an answer to the partitions. Those that have no definite one ask again, but not at once.
func (u *ISRUpdates) take(now time.Time, a *isrAnswer) {
	sent, err := u.sent, a.err
	u.sent = nil
	if err == nil && len(a.results) != len(sent) {
		err = fmt.Errorf("%d answers to %d proposals", len(a.results), len(sent))
	}
	if err != nil {
		u.logger.Warn("the controller could not be asked for other in-sync replicas; it is asked again", "partitions", len(sent), "error", err)
	}
	failed := false
	for i, s := range sent {
		result := ISRResult{Code: kafka.UnknownServerError}
		if err == nil {
			result = a.results[i]
			u.log(s.partition, result)
		}
		u.count(s.of, result)
		if s.partition.proposed(s.of, result) {
			failed = true
			u.wait(s.partition)
		}
	}
	if !failed {
		u.backoff = 0
		return
	}
	u.backoff = min(max(2*u.backoff, minISRBackoff), maxISRBackoff)
	u.notBefore = now.Add(u.backoff)
}

// ISRCounts are what became of the ISRs that leaders on this broker wanted since it started.
type ISRCounts struct {
	Expands, Shrinks int64 // that the controller made
	Failed           int64 // that it refused, or did not answer; asked again, one counts again
}

// Counts may be called from anywhere.
func (u *ISRUpdates) Counts() ISRCounts {
	return ISRCounts{Expands: u.counts.expands.Value(), Shrinks: u.counts.shrinks.Value(), Failed: u.counts.failed.Value()}
}

func (u *ISRUpdates) count(of tracker.Proposal, r ISRResult) {
	switch {
	case r.Code != kafka.None && r.Code != kafka.NewLeaderElected:
		u.counts.failed.Inc()
	case of.Growth > 0:
		u.counts.expands.Inc()
	case of.Growth < 0:
		u.counts.shrinks.Inc()
	}
}

func (u *ISRUpdates) log(p *Partition, r ISRResult) {
	switch r.Code {
	case kafka.None:
		u.logger.Info("the in-sync replicas changed", "partition", p.tp, "isr", r.ISR, "partition_epoch", r.PartitionEpoch)
	case kafka.NewLeaderElected: // the last replica that a reassignment waited for is in sync, and this broker is none of them
		u.logger.Info("the in-sync replicas changed, which completes a reassignment: another broker leads", "partition", p.tp)
	default:
		u.logger.Info("the controller refused other in-sync replicas", "partition", p.tp, "code", r.Code)
	}
}

// check looks at all partitions when that is due, some in each step.
func (u *ISRUpdates) check(now time.Time) {
	if !now.Before(u.nextCheck) && len(u.unchecked) == 0 {
		u.unchecked, u.nextCheck = u.partitions(), now.Add(u.checkEvery)
	}
	n := min(len(u.unchecked), maxISRChecks)
	for _, p := range u.unchecked[:n] {
		if p.check(now) {
			u.wait(p)
		}
	}
	if u.unchecked = u.unchecked[n:]; len(u.unchecked) == 0 {
		u.unchecked = nil // what is deleted meanwhile is not kept
	}
}

// send asks for what waits, unless a request is under way.
func (u *ISRUpdates) send(now time.Time) {
	if u.sent != nil || u.controller == nil || now.Before(u.notBefore) {
		return
	}
	var asked []ISRProposal
	n := 0
	for _, p := range u.waiting {
		if len(asked) == maxISRProposals {
			break
		}
		n++
		delete(u.waits, p)
		of, proposal, ok := p.proposal()
		if !ok {
			continue // the metadata was faster, or it leads no more
		}
		u.logger.Debug("asking the controller for other in-sync replicas", "partition", p.tp, "isr", proposal.ISR, "partition_epoch", proposal.PartitionEpoch)
		asked = append(asked, proposal)
		u.sent = append(u.sent, sentProposal{p, of})
	}
	u.waiting = slices.Delete(u.waiting, 0, n)
	if len(asked) > 0 {
		u.controller.AlterISR(asked, u.answered)
	}
}
