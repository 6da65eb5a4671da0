package main

import (
	"bufio"
	"context"
	"errors"
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
	output     outputFormat
	layout     string
	offset     offsetSpec
	partitions []int32
	count      int64
	exit       bool
	isolation  string
}

func newConsumeCommand() *cobra.Command {
	flags := new(consumeFlags)
	cmd := &cobra.Command{
		Use:   "consume TOPIC...",
		Short: "Print records of topics",
		Long: `Print records of topics, and go on as they come, until interrupted or until --count or --exit says enough.

The offset to start at is the same for every partition:
  start, end      the first record that is kept; the next one to come
  5               this offset, or the nearest that is kept
  -10, +10        ten records before the end; ten after the start
  @1767323045000, @2026-01-02T03:04:05Z, @-15m
                  the first record at or after this time: milliseconds since 1970, a date, or so long ago

--format takes the layouts of franz-go's RecordFormatter: %k key, %v value, %h{...} headers, %t topic, %p partition,
%o offset, %d{strftime[%F]} timestamp, %v{hex}, and so on.`,
		Example: `  weir consume orders --offset end
  weir consume orders --count 10 --format '%p/%o %k = %v\n'
  weir consume orders --output json --exit > orders.jsonl`,
		Args: positional(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, topics []string) error { return flags.consume(cmd, topics) },
	}
	flags.register(cmd)
	flags.output.register(cmd)
	f := cmd.Flags()
	f.StringVarP(&flags.layout, "format", "f", valueLayout, "print records by this `layout`")
	f.VarP(&flags.offset, "offset", "O", "where to start")
	f.Int32SliceVarP(&flags.partitions, "partition", "p", nil, "only these partitions; by default all")
	f.Int64VarP(&flags.count, "count", "n", 0, "stop after so many records; 0 for no limit")
	f.BoolVarP(&flags.exit, "exit", "e", false, "stop at the end that each partition has at the start")
	f.StringVar(&flags.isolation, "isolation-level", "read_uncommitted", "`read_uncommitted|read_committed`: with the latter, no records of open or aborted transactions")
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
	client, err := f.connect(cmd, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	parts, err := f.locate(cmd.Context(), kadm.NewClient(client), topics)
	if err != nil {
		return f.explain(err)
	}
	c := consumer{flags: f, client: client, parts: parts, out: bufio.NewWriterSize(cmd.OutOrStdout(), 1<<16), write: write}
	return c.run(cmd.Context())
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

// consumer prints records until it has enough.
type consumer struct {
	flags  *consumeFlags
	client *kgo.Client
	parts  partitionRanges
	out    *bufio.Writer
	write  func(io.Writer, *kgo.FetchPartition, *kgo.Record) error

	printed int64
}

func (c *consumer) run(ctx context.Context) error {
	if c.flags.exit && c.parts.dropRead() == 0 {
		return nil
	}
	c.client.AddConsumePartitions(c.parts.starts())
	for {
		fetches := c.client.PollFetches(ctx)
		if ctx.Err() != nil {
			return c.out.Flush() // interrupted: not a failure
		}
		if err := fetchError(fetches); err != nil {
			return errors.Join(err, c.out.Flush())
		}
		enough, err := c.print(fetches)
		if err == nil {
			err = c.out.Flush()
		}
		if err != nil || enough {
			return err
		}
	}
}

// fetchError returns the first error that waiting will not mend; the client itself waits for the others to pass.
func fetchError(fetches kgo.Fetches) error {
	failed := fetches.Errors()
	if len(failed) == 0 {
		return nil
	}
	e := failed[0]
	if e.Topic == "" {
		return e.Err
	}
	return fmt.Errorf("%s[%d]: %w", e.Topic, e.Partition, e.Err)
}

// print writes what was fetched and reports whether that is enough.
func (c *consumer) print(fetches kgo.Fetches) (enough bool, err error) {
	fetches.EachPartition(func(p kgo.FetchTopicPartition) {
		for _, r := range p.Records {
			if enough || err != nil {
				return
			}
			if c.flags.exit && c.parts.isPast(r) {
				break
			}
			if !r.Attrs.IsControl() {
				err = c.write(c.out, &p.FetchPartition, r)
				c.printed++
			}
			enough = c.printed == c.flags.count && c.flags.count > 0 || c.flags.exit && c.parts.read(r)
		}
	})
	return enough, err
}
