package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicDescription is a line of `weir topic describe -o json`.
type topicDescription struct {
	Topic             string                 `json:"topic"`
	ID                string                 `json:"id,omitempty"`
	Internal          bool                   `json:"internal"`
	ReplicationFactor int                    `json:"replicationFactor"`
	Configs           map[string]string      `json:"configs"` // those that are not the default; null if unknown
	Partitions        []partitionDescription `json:"partitions"`
}

type partitionDescription struct {
	Partition       int32   `json:"partition"`
	Leader          int32   `json:"leader"` // -1 where there is none
	LeaderEpoch     int32   `json:"leaderEpoch"`
	Replicas        []int32 `json:"replicas"`
	ISR             []int32 `json:"isr"`
	OfflineReplicas []int32 `json:"offlineReplicas"`
	StartOffset     *int64  `json:"startOffset"` // null where no leader could be asked
	EndOffset       *int64  `json:"endOffset"`
}

func newTopicDescribeCommand(flags *clientFlags) *cobra.Command {
	var output outputFormat
	cmd := &cobra.Command{
		Use:   "describe TOPIC...",
		Short: "Print a topic's settings and where its partitions are",
		Long: `Print a topic's settings and where its partitions are. Settings that have their default are left out. The end
offset is that of the next record; the number of records may be smaller than the distance from the start offset.`,
		Args: positional(cobra.MinimumNArgs(1)),

		ValidArgsFunction: flags.completeTopics,
		RunE: func(cmd *cobra.Command, names []string) error {
			return flags.ask(cmd, func(ctx context.Context, admin *kadm.Client) error {
				described, err := describeTopics(ctx, admin, names, cmd.ErrOrStderr())
				for _, d := range described {
					if err := d.write(cmd.OutOrStdout(), output); err != nil {
						return err
					}
				}
				return err
			})
		},
	}
	output.register(cmd)
	return cmd
}

// describeTopics returns what could be described, and an error that names the rest. Settings and offsets that cannot be
// had (a broker that does not offer them, no permission, no leader) are no reason to hide where the partitions are.
func describeTopics(ctx context.Context, admin *kadm.Client, names []string, warnings io.Writer) ([]topicDescription, error) {
	topics, err := admin.ListTopicsWithInternal(ctx, names...)
	if err != nil {
		return nil, err
	}
	var failed []error
	var found []string
	for _, t := range topics.Sorted() {
		if t.Err != nil {
			failed = append(failed, topicError("describing topic", t.Topic, t.Err, ""))
			continue
		}
		found = append(found, t.Topic)
	}
	if len(found) == 0 {
		return nil, errors.Join(failed...)
	}
	configs, err := topicConfigs(ctx, admin, found)
	if err != nil {
		fmt.Fprintln(warnings, "weir:", err)
	}
	starts, _ := admin.ListStartOffsets(ctx, found...)
	ends, _ := admin.ListEndOffsets(ctx, found...)
	var described []topicDescription
	for _, name := range found {
		described = append(described, describeTopic(topics[name], configs[name], starts, ends))
	}
	return described, errors.Join(failed...)
}

// topicConfigs returns the settings of each topic that are not the default.
func topicConfigs(ctx context.Context, admin *kadm.Client, names []string) (map[string]map[string]string, error) {
	resources, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describing configs: %w", err)
	}
	configs := make(map[string]map[string]string, len(names))
	for _, r := range resources {
		if r.Err != nil {
			return nil, topicError("describing configs of", r.Name, r.Err, r.ErrMessage)
		}
		set := make(map[string]string)
		for _, c := range r.Configs {
			if c.Source != kmsg.ConfigSourceDefaultConfig {
				set[c.Key] = c.MaybeValue()
			}
		}
		configs[r.Name] = set
	}
	return configs, nil
}

func describeTopic(t kadm.TopicDetail, configs map[string]string, starts, ends kadm.ListedOffsets) topicDescription {
	d := topicDescription{
		Topic: t.Topic, ID: topicID(t), Internal: t.IsInternal,
		ReplicationFactor: t.Partitions.NumReplicas(), Configs: configs,
	}
	for _, p := range t.Partitions.Sorted() {
		d.Partitions = append(d.Partitions, partitionDescription{
			Partition: p.Partition, Leader: p.Leader, LeaderEpoch: p.LeaderEpoch,
			Replicas: p.Replicas, ISR: p.ISR, OfflineReplicas: emptyNotNil(p.OfflineReplicas),
			StartOffset: knownOffset(starts, t.Topic, p.Partition), EndOffset: knownOffset(ends, t.Topic, p.Partition),
		})
	}
	return d
}

func knownOffset(offsets kadm.ListedOffsets, topic string, partition int32) *int64 {
	o, ok := offsets.Lookup(topic, partition)
	if !ok || o.Err != nil {
		return nil
	}
	return &o.Offset
}

func (d topicDescription) write(w io.Writer, output outputFormat) error {
	if output == outputJSON {
		return writeJSON(w, d)
	}
	return d.writeText(w)
}

// writeText prints the words and tabs that kafka-topics --describe prints, for scripts that look for them, and two
// columns more.
func (d topicDescription) writeText(w io.Writer) error {
	var settings []string
	for _, name := range slices.Sorted(maps.Keys(d.Configs)) {
		settings = append(settings, name+"="+d.Configs[name])
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Topic: %s\tTopicId: %s\tPartitionCount: %d\tReplicationFactor: %d\tConfigs: %s\n",
		d.Topic, d.ID, len(d.Partitions), d.ReplicationFactor, strings.Join(settings, ","))
	for _, p := range d.Partitions {
		leader := "none"
		if p.Leader >= 0 {
			leader = strconv.Itoa(int(p.Leader))
		}
		fmt.Fprintf(&b, "\tTopic: %s\tPartition: %d\tLeader: %s\tReplicas: %s\tIsr: %s\tStart: %s\tEnd: %s\n",
			d.Topic, p.Partition, leader, joinIDs(p.Replicas), joinIDs(p.ISR), offsetText(p.StartOffset), offsetText(p.EndOffset))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func offsetText(o *int64) string {
	if o == nil {
		return "unknown"
	}
	return strconv.FormatInt(*o, 10)
}
