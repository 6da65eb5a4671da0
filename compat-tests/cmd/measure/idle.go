package main

import (
	"context"
	"fmt"
	"time"

	"weir/compat-tests/harness"
)

const (
	silence = 10 * time.Second // while nothing is sent
	sending = 30 * time.Second // while heartbeats are sent
	usually = 10               // of a hundred ticks: a heartbeat each three seconds, as clients send them
)

// measureIdle prints what members take that do nothing: memory, and processor time with heartbeats and between them.
func measureIdle(p *harness.Process) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	empty, err := processorTime(p, silence)
	if err != nil {
		return err
	}
	row("processor time without members, ms/s", []float64{ms(empty) / silence.Seconds()})
	if err := measureLoop(ctx, p); err != nil {
		return err
	}
	before, err := p.RSS()
	if err != nil {
		return err
	}
	conns, err := dial(p.Address, groupMembers)
	if err != nil {
		return err
	}
	connected, err := p.RSS()
	if err != nil {
		return err
	}
	row(fmt.Sprintf("resident per connection, of %d, KiB", groupMembers), []float64{mib(connected-before) * 1024 / groupMembers})
	c := newCrowd("measure-idle", sparse)
	return c.join(ctx, p.Address, conns, func() error {
		joined, err := p.RSS()
		if err != nil {
			return err
		}
		row("resident per member besides, after the rebalances, KiB", []float64{mib(joined-connected) * 1024 / groupMembers})
		c.often.Store(0)
		time.Sleep(2 * sparse) // for those that are on their way
		silent, err := processorTime(p, silence)
		if err != nil {
			return err
		}
		row(fmt.Sprintf("processor time of %d members between heartbeats, ms/s", groupMembers), []float64{ms(silent) / silence.Seconds()})
		c.often.Store(usually)
		return c.measureBeats(p, fmt.Sprintf("of %d members, each every 3 s", groupMembers))
	})
}

// measureLoop has one member send heartbeats one after the other.
func measureLoop(ctx context.Context, p *harness.Process) error {
	conns, err := dial(p.Address, 1)
	if err != nil {
		return err
	}
	c := newCrowd("measure-loop", 0)
	return c.join(ctx, p.Address, conns, func() error { return c.measureBeats(p, "of one member without a pause") })
}

// measureBeats prints what a heartbeat of the crowd takes.
func (c *crowd) measureBeats(p *harness.Process, whose string) error {
	sent := c.beats.Load()
	took, err := processorTime(p, sending)
	if err != nil {
		return err
	}
	sent = c.beats.Load() - sent
	row(fmt.Sprintf("processor time per heartbeat %s (%d), µs", whose, sent), []float64{ms(took) * 1000 / float64(sent)})
	return nil
}

// processorTime is what the broker takes of it during so long a time.
func processorTime(p *harness.Process, during time.Duration) (time.Duration, error) {
	before, err := harness.CPU(p.PID())
	if err != nil {
		return 0, err
	}
	time.Sleep(during)
	after, err := harness.CPU(p.PID())
	return after - before, err
}
