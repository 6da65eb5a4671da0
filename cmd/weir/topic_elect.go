package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

func newTopicElectLeadersCommand(flags *clientFlags) *cobra.Command {
	var unclean bool
	cmd := &cobra.Command{
		Use:   "elect-leaders TOPIC[:PARTITION,...]...",
		Short: "Give the lead to the preferred replicas, or to any where nobody leads",
		Long: `Elect the preferred leader of partitions, the first one of their replicas: after nodes were away, without waiting until the
controller does it.

With --unclean, partitions that nobody leads get any replica that is there as their leader, though it may lack records that were
acknowledged: these are lost then, on the other replicas too. That is for replicas that will never be back.`,
		Example: `  weir topic elect-leaders orders
  weir topic elect-leaders orders:0,3 --unclean`,
		Args:              positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: flags.completeTopics,
		RunE: func(cmd *cobra.Command, args []string) error {
			partitions, err := parseTopicPartitions(args)
			if err != nil {
				return usageError(err)
			}
			return flags.ask(cmd, func(ctx context.Context, admin *kadm.Client) error {
				return electLeaders(ctx, cmd.OutOrStdout(), admin, partitions, unclean)
			})
		},
	}
	cmd.Flags().BoolVar(&unclean, "unclean", false, "where nobody leads, take any replica; what it lacks is lost")
	return cmd
}

func electLeaders(ctx context.Context, w io.Writer, admin *kadm.Client, partitions topicPartitions, unclean bool) error {
	if err := partitions.expand(ctx, admin, "electing leaders of topic"); err != nil {
		return err
	}
	how := kadm.ElectPreferredReplica
	if unclean {
		how = kadm.ElectLiveReplica
	}
	wanted := make(kadm.TopicsSet)
	partitions.each(func(topic string, id int32) { wanted.Add(topic, id) })
	results, err := admin.ElectLeaders(ctx, how, wanted)
	if err != nil {
		return fmt.Errorf("electing leaders: %w", err)
	}
	var failed []error
	elected, needless := 0, 0
	partitions.each(func(topic string, id int32) {
		switch r := results[topic][id]; {
		case r.Err == nil:
			elected++
		case errors.Is(r.Err, kerr.ElectionNotNeeded):
			needless++
		default:
			failed = append(failed, brokerError(fmt.Sprintf("electing a leader of %s[%d]", topic, id), r.Err, r.ErrMessage))
		}
	})
	fmt.Fprintf(w, "Leaders elected: %d; not needed: %d; failed: %d.\n", elected, needless, len(failed))
	return errors.Join(failed...)
}
