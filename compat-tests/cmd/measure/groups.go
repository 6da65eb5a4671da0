package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/compat-tests/harness"
)

// measureGroups prints what groups take: on Weir and, where WEIR_COMPAT_BOOTSTRAP names another broker, on that.
func measureGroups(binary string) error {
	dir, err := os.MkdirTemp("", "weir-measure-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	options := func(delay string) harness.Options {
		return harness.Options{
			Binary: binary, DataDir: filepath.Join(dir, "data-"+delay), LogFile: filepath.Join(dir, "log"),
			Args: []string{"--override", "group.initial.rebalance.delay.ms=" + delay},
		}
	}
	fmt.Println()
	head("groups")
	for _, delay := range []string{"3000", "0"} { // the first is the default
		if err := withBroker(options(delay), func(_ time.Time, p *harness.Process, _ *kgo.Client) error {
			return measureMembers(p.Address, ", initial delay "+delay)
		}); err != nil {
			return err
		}
	}
	if address := harness.External(); address != "" {
		if err := measureMembers(address, ", WEIR_COMPAT_BOOTSTRAP"); err != nil {
			return err
		}
	}
	if err := withBroker(options("0"), func(_ time.Time, p *harness.Process, _ *kgo.Client) error { return measureIdle(p) }); err != nil {
		return err
	}
	return measureOffsets(options("0"))
}

const (
	firstPolls   = 3
	groupMembers = 1000
)

func measureMembers(address, where string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DisableClientMetrics(), kgo.AllowAutoTopicCreation())
	if err != nil {
		return err
	}
	defer client.Close()
	topic := fmt.Sprint("measure-", time.Now().UnixNano())
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("x")}).FirstErr(); err != nil {
		return err
	}
	defer kadm.NewClient(client).DeleteTopic(context.Background(), topic)
	var polls []time.Duration
	for i := range firstPolls {
		took, err := firstPoll(ctx, address, topic, fmt.Sprint(topic, "-", i))
		if err != nil {
			return err
		}
		polls = append(polls, took)
	}
	row("first record of a new group, ms"+where, column(polls, ms))
	start := time.Now()
	conns, err := dial(address, groupMembers)
	if err != nil {
		return err
	}
	return newCrowd(topic+"-members", sparse).join(ctx, address, conns, func() error {
		row(fmt.Sprintf("%d members of one group join and are stable, ms%s", groupMembers, where), []float64{ms(time.Since(start))})
		return nil
	})
}

// firstPoll is what an application waits for when it starts: from nothing to its first record.
func firstPoll(ctx context.Context, address, topic, group string) (time.Duration, error) {
	start := time.Now()
	client, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DisableClientMetrics(), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return 0, err
		}
		if fetches.NumRecords() > 0 {
			return time.Since(start), nil
		}
	}
}

const (
	offsetGroups     = 100
	offsetPartitions = 1000
)

// measureOffsets commits many offsets and starts the broker again: how long after the start of the process it knows them.
func measureOffsets(options harness.Options) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	const topic = "measure-offsets"
	group := func(i int) string { return fmt.Sprint("group-", i) }
	if err := withBroker(options, func(_ time.Time, _ *harness.Process, client *kgo.Client) error {
		admin := kadm.NewClient(client)
		if _, err := admin.CreateTopic(ctx, offsetPartitions, 1, nil, topic); err != nil {
			return err
		}
		var offsets kadm.Offsets
		for partition := range int32(offsetPartitions) {
			offsets.AddOffset(topic, partition, 1, -1)
		}
		for i := range offsetGroups {
			if err := admin.CommitAllOffsets(ctx, group(i), offsets); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return withBroker(options, func(start time.Time, p *harness.Process, client *kgo.Client) error {
		admin := kadm.NewClient(client)
		known, first := 0, time.Duration(0)
		for i := range offsetGroups {
			fetched, err := admin.FetchOffsets(ctx, group(i)) // the client tries again while they are being loaded
			if err != nil {
				return err
			}
			known += len(fetched[topic])
			if i == 0 {
				first = time.Since(start)
			}
		}
		if known != offsetGroups*offsetPartitions {
			return fmt.Errorf("%d offsets are known after the start, want %d", known, offsetGroups*offsetPartitions)
		}
		row(fmt.Sprintf("start to the first %d of %d committed offsets, ms", offsetPartitions, known), []float64{ms(first)})
		row(fmt.Sprintf("start to %d committed offsets fetched, ms", known), []float64{ms(time.Since(start))})
		return nil
	})
}
