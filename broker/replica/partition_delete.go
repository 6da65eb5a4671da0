package replica

import (
	"weir/internal/kafka"
	"weir/log"
)

// DeletedRecords is what DeleteRecords did.
type DeletedRecords struct {
	// Offset is where the log begins from here on, at least.
	Offset int64
	// LowWatermark is where the replica's log begins that begins first, of those on active brokers. The records are gone when
	// it has come to Offset: a replica that has them still may lead next.
	LowWatermark int64
}

// DeleteRecords moves the log's start up to offset, or to the high watermark for -1. Followers hear of it with what they
// fetch; AwaitLowWatermark waits for them.
func (p *Partition) DeleteRecords(offset int64) (DeletedRecords, error) {
	if _, err := p.requireLeader(kafka.NoLeaderEpoch); err != nil {
		return DeletedRecords{}, err
	}
	config := p.config.Load().Log
	if config.CompactPolicy && !config.DeletePolicy {
		return DeletedRecords{}, &Error{code: kafka.PolicyViolation, TP: p.tp, detail: "records of a topic that is only compacted cannot be deleted"}
	}
	hw := p.log.HighWatermark()
	if offset == -1 {
		offset = hw
	}
	if offset < 0 || offset > hw {
		return DeletedRecords{}, log.ErrOffsetOutOfRange{TP: p.tp, Offset: offset, Start: p.log.StartOffset(), End: hw}
	}
	if offset > p.log.StartOffset() {
		if err := p.log.AdvanceStartOffset(offset); err != nil {
			return DeletedRecords{}, err
		}
	}
	low, err := p.LowWatermark()
	return DeletedRecords{Offset: offset, LowWatermark: low}, err
}

// LowWatermark returns where the replica's log begins that begins first, of those on active brokers.
func (p *Partition) LowWatermark() (int64, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lowWatermarkLocked()
}

func (p *Partition) lowWatermarkLocked() (int64, error) {
	if p.mu.tracker == nil {
		return -1, p.notLeaderLocked()
	}
	return p.mu.tracker.LowWatermark(p.log.StartOffset()), nil
}

// AwaitLowWatermark waits until the low watermark has come to offset: parked says that it has not yet, and that to will be
// told.
func (p *Partition) AwaitLowWatermark(offset int64, to Acker, index int) (parked bool, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	low, err := p.lowWatermarkLocked()
	if err != nil || low >= offset {
		return false, err
	}
	p.mu.byLow.Park(offset, ack{to, index})
	return true, nil
}
