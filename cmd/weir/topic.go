package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"weir/internal/kafka"
)

func newTopicCommand() *cobra.Command {
	flags := new(clientFlags)
	cmd := group(&cobra.Command{
		Use:   "topic",
		Short: "List, create, describe, grow, replicate, trim and delete topics",
	},
		newTopicListCommand(flags),
		newTopicCreateCommand(flags),
		newTopicDescribeCommand(flags),
		newTopicAddPartitionsCommand(flags),
		newTopicAlterReplicationCommand(flags),
		newTopicElectLeadersCommand(flags),
		newTopicDeleteRecordsCommand(flags),
		newTopicDeleteCommand(flags),
	)
	flags.register(cmd)
	return cmd
}

func newTopicListCommand(flags *clientFlags) *cobra.Command {
	var output outputFormat
	var excludeInternal bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print the names of all topics",
		Args:  positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.ask(cmd, func(ctx context.Context, admin *kadm.Client) error {
				topics, err := admin.ListTopicsWithInternal(ctx)
				if err != nil {
					return fmt.Errorf("listing topics: %w", err)
				}
				for _, t := range topics.Sorted() {
					if t.IsInternal && excludeInternal {
						continue
					}
					if err := writeTopicSummary(cmd.OutOrStdout(), output, t); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	output.register(cmd)
	cmd.Flags().BoolVar(&excludeInternal, "exclude-internal", false, "leave out the topics that brokers themselves write")
	return cmd
}

// topicSummary is a line of `weir topic list -o json`.
type topicSummary struct {
	Topic             string `json:"topic"`
	ID                string `json:"id,omitempty"`
	Internal          bool   `json:"internal"`
	Partitions        int    `json:"partitions"`
	ReplicationFactor int    `json:"replicationFactor"`
}

func writeTopicSummary(w io.Writer, output outputFormat, t kadm.TopicDetail) error {
	if output == outputJSON {
		return writeJSON(w, topicSummary{
			Topic: t.Topic, ID: topicID(t), Internal: t.IsInternal,
			Partitions: len(t.Partitions), ReplicationFactor: t.Partitions.NumReplicas(),
		})
	}
	_, err := fmt.Fprintln(w, t.Topic)
	return err
}

// topicID is empty where the broker is too old to have any.
func topicID(t kadm.TopicDetail) string {
	id := kafka.TopicID(t.ID)
	if id.IsZero() {
		return ""
	}
	return id.String()
}

func newTopicCreateCommand(flags *clientFlags) *cobra.Command {
	var (
		partitions   int32
		replication  int16
		settings     []string
		ifNotExists  bool
		validateOnly bool
	)
	cmd := &cobra.Command{
		Use:   "create TOPIC...",
		Short: "Create topics",
		Example: `  weir topic create orders --partitions 6
  weir topic create state --config cleanup.policy=compact --config segment.ms=60000`,
		Args: positional(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, names []string) error {
			configs, err := parseConfigs(settings)
			if err != nil {
				return usageError(err)
			}
			return flags.ask(cmd, func(ctx context.Context, admin *kadm.Client) error {
				create, done := admin.CreateTopics, "Created topic %s.\n"
				if validateOnly {
					create, done = admin.ValidateCreateTopics, "Topic %s could be created.\n"
				}
				responses, err := create(ctx, partitions, replication, configs, names...)
				if err != nil {
					return fmt.Errorf("creating topics: %w", err)
				}
				var failed []error
				for _, r := range responses.Sorted() {
					switch {
					case r.Err == nil:
						fmt.Fprintf(cmd.OutOrStdout(), done, r.Topic)
					case ifNotExists && errors.Is(r.Err, kerr.TopicAlreadyExists):
					default:
						failed = append(failed, topicError("creating topic", r.Topic, r.Err, r.ErrMessage))
					}
				}
				return errors.Join(failed...)
			})
		},
	}
	f := cmd.Flags()
	f.Int32VarP(&partitions, "partitions", "p", -1, "number of partitions; -1 for the broker's num.partitions")
	f.Int16VarP(&replication, "replication-factor", "r", -1, "copies of each partition; -1 for the broker's default.replication.factor")
	f.StringArrayVarP(&settings, "config", "c", nil, "a setting of the topic, `name=value`; repeatable")
	f.BoolVar(&ifNotExists, "if-not-exists", false, "succeed, and change nothing, where a topic exists")
	f.BoolVar(&validateOnly, "validate-only", false, "ask the broker whether it would, and create nothing")
	return cmd
}

// parseConfigs reads name=value settings; the value may be empty and may hold further equals signs.
func parseConfigs(settings []string) (map[string]*string, error) {
	configs := make(map[string]*string, len(settings))
	for _, s := range settings {
		name, value, ok := strings.Cut(s, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--config %q is not of the form name=value", s)
		}
		configs[name] = &value
	}
	return configs, nil
}

func newTopicAddPartitionsCommand(flags *clientFlags) *cobra.Command {
	var add, total int
	cmd := &cobra.Command{
		Use:   "add-partitions TOPIC... (--add N | --total N)",
		Short: "Give topics more partitions",
		Long: `Give topics more partitions. Records stay where they are, but a key may map to another partition from now on.
A topic never gets fewer partitions.`,
		Example: `  weir topic add-partitions orders --total 12`,
		Args:    positional(cobra.MinimumNArgs(1)),

		ValidArgsFunction: flags.completeTopics,
		RunE: func(cmd *cobra.Command, names []string) error {
			if (add > 0) == (total > 0) {
				return usageErrorf("give either --add or --total, with a positive number")
			}
			return flags.ask(cmd, func(ctx context.Context, admin *kadm.Client) error {
				grow, count, done := admin.UpdatePartitions, total, "Topic %s now has %d partitions.\n"
				if add > 0 {
					grow, count, done = admin.CreatePartitions, add, "Topic %s has %d more partitions.\n"
				}
				responses, err := grow(ctx, count, names...)
				if err != nil {
					return fmt.Errorf("adding partitions: %w", err)
				}
				var failed []error
				for _, r := range responses.Sorted() {
					if r.Err != nil {
						failed = append(failed, topicError("adding partitions to topic", r.Topic, r.Err, r.ErrMessage))
						continue
					}
					fmt.Fprintf(cmd.OutOrStdout(), done, r.Topic, count)
				}
				return errors.Join(failed...)
			})
		},
	}
	cmd.Flags().IntVar(&add, "add", 0, "how many to add")
	cmd.Flags().IntVar(&total, "total", 0, "how many there are to be")
	return cmd
}

func newTopicDeleteCommand(flags *clientFlags) *cobra.Command {
	var ifExists bool
	cmd := &cobra.Command{
		Use:   "delete TOPIC...",
		Short: "Delete topics with all their records",
		Args:  positional(cobra.MinimumNArgs(1)),

		ValidArgsFunction: flags.completeTopics,
		RunE: func(cmd *cobra.Command, names []string) error {
			return flags.ask(cmd, func(ctx context.Context, admin *kadm.Client) error {
				responses, err := admin.DeleteTopics(ctx, names...)
				if err != nil {
					return fmt.Errorf("deleting topics: %w", err)
				}
				var failed []error
				for _, r := range responses.Sorted() {
					switch {
					case r.Err == nil:
						fmt.Fprintf(cmd.OutOrStdout(), "Deleted topic %s.\n", r.Topic)
					case ifExists && errors.Is(r.Err, kerr.UnknownTopicOrPartition):
					default:
						failed = append(failed, topicError("deleting topic", r.Topic, r.Err, r.ErrMessage))
					}
				}
				return errors.Join(failed...)
			})
		},
	}
	cmd.Flags().BoolVar(&ifExists, "if-exists", false, "succeed where a topic does not exist")
	return cmd
}

// topicError says in plain words what most often goes wrong: the topic is not there.
func topicError(doing, topic string, err error, message string) error {
	if errors.Is(err, kerr.UnknownTopicOrPartition) {
		return fmt.Errorf("%s %s: there is no such topic (%s)", doing, topic, kerr.UnknownTopicOrPartition.Message)
	}
	return brokerError(doing+" "+topic, err, message)
}
