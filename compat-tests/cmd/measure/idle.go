package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
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

// processorTime is what the broker takes of it, user and system, during so long a time.
func processorTime(p *harness.Process, during time.Duration) (time.Duration, error) {
	before, err := processorTicks(p)
	if err != nil {
		return 0, err
	}
	time.Sleep(during)
	after, err := processorTicks(p)
	return time.Duration(after-before) * time.Second / 100, err // USER_HZ is 100 on every architecture of Linux that Go knows
}

func processorTicks(p *harness.Process) (int64, error) {
	name := fmt.Sprintf("/proc/%d/stat", p.PID())
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // the process's name may have blanks
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s is %q", name, text)
	}
	var sum int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		sum += n
	}
	return sum, nil
}
