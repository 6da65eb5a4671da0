package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// valueLayout prints what `weir produce` reads when neither is told otherwise.
const valueLayout = `%v\n`

type consumeFlags struct {
	clientFlags
	member     memberFlags
	output     outputFormat
	layout     string
	offset     offsetSpec
	partitions []int32
	count      int64
	exit       bool
	isolation  string
	verbose    bool
}

func newConsumeCommand() *cobra.Command {
	flags := new(consumeFlags)
	cmd := &cobra.Command{
		Use:   "consume TOPIC...",
		Short: "Print records of topics, alone or as a member of a consumer group",
		Long: `Print records of topics, and go on as they come, until interrupted or until --count or --exit says enough.

The offset to start at is the same for every partition:
` + offsetForms + `

With --group the members of the group share the partitions. Each prints what it is given, commits what it has printed
every second, before a partition is taken from it and when it ends, and leaves the group then. A partition starts where
the group's last commit is; --offset counts only where there is none. If a member dies, another one takes over after
--session-timeout, from the last commit on: records may be printed twice, and none is left out.

--format takes the layouts of franz-go's RecordFormatter: %k key, %v value, %h{...} headers, %t topic, %p partition,
%o offset, %d{strftime[%F]} timestamp, %v{hex}, and so on.`,
		Example: `  weir consume orders --offset end
  weir consume orders --count 10 --format '%p/%o %k = %v\n'
  weir consume orders --output json --exit > orders.jsonl
  weir consume orders --group billing --session-timeout 10s --verbose`,
		Args:              positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: flags.completeTopics,
		RunE:              func(cmd *cobra.Command, topics []string) error { return flags.consume(cmd, topics) },
	}
	flags.clientFlags.register(cmd)
	flags.member.register(cmd)
	flags.output.register(cmd)
	f := cmd.Flags()
	f.StringVarP(&flags.layout, "format", "f", valueLayout, "print records by this `layout`")
	f.VarP(&flags.offset, "offset", "O", "where to start; with --group, where nothing is committed")
	f.Int32SliceVarP(&flags.partitions, "partition", "p", nil, "only these `partitions`; by default all")
	f.Int64VarP(&flags.count, "count", "n", 0, "stop after so many records; 0 for no limit")
	f.BoolVarP(&flags.exit, "exit", "e", false, "stop at the end that each partition has at the start")
	f.StringVar(&flags.isolation, "isolation-level", "read_uncommitted", "`read_uncommitted|read_committed`: with the latter, no records of open or aborted transactions")
	f.BoolVarP(&flags.verbose, "verbose", "v", false, "tell on standard error which partitions a group gives and takes")
	completeWords(cmd, "isolation-level", "read_uncommitted", "read_committed")
	completeWords(cmd, "group-protocol", "classic", "consumer")
	_ = cmd.RegisterFlagCompletionFunc("group", flags.completeGroups) // fails only for a flag that does not exist
	return cmd
}

func (f *consumeFlags) consume(cmd *cobra.Command, topics []string) error {
	write, err := f.recordWriter(cmd)
	if err != nil {
		return err
	}
	if f.count < 0 {
		return usageErrorf("--count %d is negative", f.count)
	}
	opts, err := f.options()
	if err != nil {
		return err
	}
	c := &consumer{flags: f, stderr: cmd.ErrOrStderr(), out: bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16), write: write}
	if f.member.group != "" {
		memberOpts, err := f.member.options(cmd, c, topics)
		if err != nil {
			return err
		}
		opts = append(opts, memberOpts...)
	}
	if c.client, err = f.connect(cmd, opts...); err != nil {
		return err
	}
	defer c.client.CloseAllowingRebalance()
	list, err := f.locate(cmd.Context(), kadm.NewClient(c.client), topics)
	if err != nil {
		return f.explain(err)
	}
	c.located = list
	if f.member.group != "" {
		return c.runMember(cmd.Context(), topics)
	}
	return c.runAlone(cmd.Context())
}

func (f *consumeFlags) options() ([]kgo.Opt, error) {
	opts := []kgo.Opt{kgo.KeepControlRecords()} // they move the position, which --exit needs to see
	switch f.isolation {
	case "read_uncommitted":
	case "read_committed":
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	default:
		return nil, usageErrorf("--isolation-level %q: must be read_uncommitted or read_committed", f.isolation)
	}
	return opts, nil
}

// recordWriter returns what appends a record to the output.
func (f *consumeFlags) recordWriter(cmd *cobra.Command) (func(io.Writer, *kgo.FetchPartition, *kgo.Record) error, error) {
	if f.output == outputJSON {
		if cmd.Flags().Changed("format") {
			return nil, usageErrorf("--output json and --format exclude each other")
		}
		return func(w io.Writer, _ *kgo.FetchPartition, r *kgo.Record) error { return writeJSON(w, newJSONRecord(r)) }, nil
	}
	formatter, err := kgo.NewRecordFormatter(f.layout)
	if err != nil {
		return nil, usageErrorf("--format: %w", err)
	}
	var buf []byte
	return func(w io.Writer, p *kgo.FetchPartition, r *kgo.Record) error {
		buf = formatter.AppendPartitionRecord(buf[:0], p, r)
		_, err := w.Write(buf)
		return err
	}, nil
}

// locate finds the partitions to read, and their offsets.
func (f *consumeFlags) locate(ctx context.Context, admin *kadm.Client, topics []string) (offsetList, error) {
	ctx, cancel := f.deadline(ctx)
	defer cancel()
	partitions := make(topicPartitions)
	for _, topic := range topics {
		partitions[topic] = f.partitions
	}
	if err := partitions.expand(ctx, admin, "consuming topic"); err != nil {
		return nil, err
	}
	return locate(ctx, admin, partitions, f.offset, f.isolation == "read_committed")
}

// consumer prints records until it has enough.
type consumer struct {
	flags   *consumeFlags
	client  *kgo.Client
	located offsetList // all partitions, as they were at the start
	stderr  io.Writer
	out     *bufio.Writer
	write   func(io.Writer, *kgo.FetchPartition, *kgo.Record) error

	left     *unread // with --exit
	finished func()  // ends the polling of a member that has nothing left to read
	rejoins  repeats // of a member's reasons
	printed  int64
}

// runAlone reads partitions that no group hands out.
func (c *consumer) runAlone(ctx context.Context) error {
	ranges := rangesFrom(c.flags.offset, c.located)
	if c.flags.exit {
		c.left = new(unread)
		if c.left.add(ranges) {
			return nil
		}
	}
	c.client.AddConsumePartitions(ranges.starts())
	return c.poll(ctx, func([]*kgo.Record) {}, func(kgo.FetchError) bool { return false })
}

// poll prints what comes, and hands the last record of each partition to done as soon as it is printed. It ends when
// there is enough, at an interrupt, and at the first error that is not transient.
func (c *consumer) poll(ctx context.Context, done func(last []*kgo.Record), transient func(kgo.FetchError) bool) error {
	for {
		fetches := c.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil // interrupted: not a failure
		}
		last, enough, err := c.print(fetches)
		if err = cmp.Or(err, c.out.Flush()); err != nil {
			return err
		}
		done(last)
		for _, e := range fetches.Errors() {
			if !transient(e) {
				return fetchError(e)
			}
		}
		if enough {
			return nil
		}
	}
}

// fetchError says what an error of a poll was about. The client itself waits for those to pass that may.
func fetchError(e kgo.FetchError) error {
	if e.Topic == "" {
		return e.Err
	}
	return fmt.Errorf("%s[%d]: %w", e.Topic, e.Partition, e.Err)
}

// print writes what was fetched, and returns the last record of each partition that counts as read and whether that is
// enough.
func (c *consumer) print(fetches kgo.Fetches) (last []*kgo.Record, enough bool, err error) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		var read *kgo.Record
		for _, r := range p.Records {
			if enough || err != nil || c.left.isPast(r) {
				break
			}
			if !r.Attrs.IsControl() {
				err = c.write(c.out, &p.FetchPartition, r)
				c.printed++
			}
			read = r
			enough = c.printed == c.flags.count && c.flags.count > 0 || c.left.read(r)
		}
		if read != nil {
			last = append(last, read)
		}
	})
	return last, enough, err
}
