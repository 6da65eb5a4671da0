package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

type deleteRecordsFlags struct {
	before     offsetSpec
	partitions []int32
	dryRun     bool
	output     outputFormat
}

func newTopicDeleteRecordsCommand(flags *clientFlags) *cobra.Command {
	trim := new(deleteRecordsFlags)
	cmd := &cobra.Command{
		Use:     "delete-records TOPIC... --before OFFSET",
		Aliases: []string{"trim"},
		Short:   "Delete a topic's oldest records",
		Long: `Delete the records before an offset, for good, and print where each partition starts now. The offset is a place that is
the same for every partition:
` + offsetForms,
		Example: `  weir topic delete-records orders --before @-24h
  weir topic delete-records orders --partition 0 --before -1000 --dry-run`,
		Args:              positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: flags.completeTopics,
		RunE: func(cmd *cobra.Command, topics []string) error {
			if trim.before.text == "" {
				return usageErrorf("say with --before which records to delete; \"end\" is all of them")
			}
			return flags.ask(cmd, func(ctx context.Context, admin *kadm.Client) error {
				return trim.run(ctx, cmd.OutOrStdout(), admin, topics)
			})
		},
	}
	f := cmd.Flags()
	f.Var(&trim.before, "before", "the first `offset` to keep")
	f.Lookup("before").DefValue = "" // there is none
	f.Int32SliceVarP(&trim.partitions, "partition", "p", nil, "only these `partitions`; by default all")
	f.BoolVar(&trim.dryRun, "dry-run", false, "only print where the partitions would start")
	trim.output.register(cmd)
	return cmd
}

// trimmedPartition is a line of `weir topic delete-records -o json`.
type trimmedPartition struct {
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	StartOffset int64  `json:"startOffset"`
	OldStart    int64  `json:"oldStartOffset"`
}

func (f *deleteRecordsFlags) run(ctx context.Context, w io.Writer, admin *kadm.Client, topics []string) error {
	partitions := make(topicPartitions)
	for _, topic := range topics {
		partitions[topic] = f.partitions
	}
	if err := partitions.expand(ctx, admin, "deleting records of topic"); err != nil {
		return err
	}
	list, err := locate(ctx, admin, partitions, f.before, false)
	if err != nil {
		return err
	}
	var trimmed []trimmedPartition
	offsets := make(kadm.Offsets)
	partitions.each(func(topic string, id int32) {
		p := list[topic][id]
		before := p.clamp(f.before.in(p))
		offsets.AddOffset(topic, id, before, -1)
		trimmed = append(trimmed, trimmedPartition{topic, id, before, p.start})
	})
	if !f.dryRun {
		trimmed, err = deleteRecords(ctx, admin, offsets, trimmed)
	}
	return errors.Join(err, writeTrimmed(w, f.output, trimmed))
}

// deleteRecords returns the partitions of the plan that were trimmed, with the start that the broker tells.
func deleteRecords(ctx context.Context, admin *kadm.Client, offsets kadm.Offsets, plan []trimmedPartition) ([]trimmedPartition, error) {
	responses, err := admin.DeleteRecords(ctx, offsets)
	if err != nil {
		err = fmt.Errorf("deleting records: %w", firstError(err))
	}
	failed := []error{err}
	var done []trimmedPartition
	for _, p := range plan {
		r, ok := responses[p.Topic][p.Partition]
		switch {
		case !ok: // told above
		case r.Err != nil:
			failed = append(failed, fmt.Errorf("deleting records of %s[%d]: %w", p.Topic, p.Partition, r.Err))
		default:
			p.StartOffset = r.LowWatermark
			done = append(done, p)
		}
	}
	return done, errors.Join(failed...)
}

func writeTrimmed(w io.Writer, output outputFormat, trimmed []trimmedPartition) error {
	if output == outputJSON {
		return writeJSONLines(w, trimmed)
	}
	if len(trimmed) == 0 {
		return nil
	}
	var rows [][]string
	for _, p := range trimmed {
		rows = append(rows, []string{p.Topic, strconv.Itoa(int(p.Partition)), strconv.FormatInt(p.StartOffset, 10), strconv.FormatInt(p.OldStart, 10)})
	}
	return writeTable(w, []string{"TOPIC", "PARTITION", "START-OFFSET", "OLD-START-OFFSET"}, rows)
}
