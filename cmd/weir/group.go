package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
)

func newGroupCommand() *cobra.Command {
	flags := new(clientFlags)
	cmd := group(&cobra.Command{
		Use:   "group",
		Short: "List, describe, reset and delete consumer groups",
	},
		newGroupListCommand(flags),
		newGroupDescribeCommand(flags),
		newGroupResetCommand(flags),
		newGroupDeleteCommand(flags),
		newGroupDeleteOffsetsCommand(flags),
	)
	flags.register(cmd)
	return cmd
}

// The states and types that brokers know, in the order in which groups come to them.
var (
	groupStates = []string{"Empty", "NotReady", "PreparingRebalance", "Assigning", "CompletingRebalance", "Reconciling", "Stable", "Dead"}
	groupTypes  = []string{"classic", "consumer", "share", "streams"}
)

// groupSummary is a line of `weir group list -o json`.
type groupSummary struct {
	Group        string `json:"group"`
	Type         string `json:"type"`         // "" where the broker is too old to tell
	ProtocolType string `json:"protocolType"` // "consumer" for consumers of whatever type, "connect" for Connect's workers
	State        string `json:"state"`
	Coordinator  int32  `json:"coordinator"`
}

func newGroupListCommand(flags *clientFlags) *cobra.Command {
	var output outputFormat
	var states, types []string
	var long bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print the names of all groups",
		Example: `  weir group list --long
  weir group list --state Stable,Empty --type consumer`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if states, err = oneOfWords("--state", states, groupStates); err != nil {
				return err
			}
			if types, err = oneOfWords("--type", types, groupTypes); err != nil {
				return err
			}
			return flags.ask(cmd, func(ctx context.Context, admin *kadm.Client) error {
				listed, err := admin.ListGroupsByType(ctx, types, states...)
				if err != nil {
					err = fmt.Errorf("listing groups: %w", firstError(err))
				}
				groups := filterGroups(listed, states, types)
				if output == outputJSON {
					return errors.Join(err, writeJSONLines(cmd.OutOrStdout(), groups))
				}
				return errors.Join(err, writeGroups(cmd, groups, long))
			})
		},
	}
	output.register(cmd)
	f := cmd.Flags()
	f.StringSliceVar(&states, "state", nil, "only groups in these `states`, separated by commas: "+strings.Join(groupStates, ", "))
	f.StringSliceVar(&types, "type", nil, "only groups of these `types`, separated by commas: "+strings.Join(groupTypes, ", "))
	f.BoolVarP(&long, "long", "l", false, "print type, protocol, state and coordinator too")
	completeWords(cmd, "state", groupStates...)
	completeWords(cmd, "type", groupTypes...)
	return cmd
}

// oneOfWords returns the words as they are spelled in the list; the case does not matter.
func oneOfWords(flag string, words, list []string) ([]string, error) {
	var spelled []string
	for _, word := range words {
		i := slices.IndexFunc(list, func(known string) bool { return strings.EqualFold(known, word) })
		if i < 0 {
			return nil, usageErrorf("%s %q: must be one of %s", flag, word, strings.Join(list, ", "))
		}
		spelled = append(spelled, list[i])
	}
	return spelled, nil
}

// filterGroups sorts the groups. It filters too: brokers before 2.6 know no states to filter by, before 3.8 no types.
func filterGroups(listed kadm.ListedGroups, states, types []string) []groupSummary {
	var groups []groupSummary
	for _, g := range listed.Sorted() {
		if len(states) > 0 && !slices.Contains(states, g.State) || len(types) > 0 && !slices.Contains(types, g.GroupType) {
			continue
		}
		groups = append(groups, groupSummary{g.Group, g.GroupType, g.ProtocolType, g.State, g.Coordinator})
	}
	return groups
}

func writeGroups(cmd *cobra.Command, groups []groupSummary, long bool) error {
	if !long {
		for _, g := range groups {
			if _, err := fmt.Fprintln(cmd.OutOrStdout(), g.Group); err != nil {
				return err
			}
		}
		return nil
	}
	var rows [][]string
	for _, g := range groups {
		rows = append(rows, []string{g.Group, orDash(g.Type), orDash(g.ProtocolType), orDash(g.State), strconv.Itoa(int(g.Coordinator))})
	}
	return writeTable(cmd.OutOrStdout(), []string{"GROUP", "TYPE", "PROTOCOL", "STATE", "COORDINATOR"}, rows)
}

func newGroupDeleteCommand(flags *clientFlags) *cobra.Command {
	return &cobra.Command{
		Use:               "delete GROUP...",
		Short:             "Delete groups with all their offsets",
		Long:              "Delete groups with all their offsets. A group that has members is not deleted.",
		Args:              positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: flags.completeGroups,
		RunE: func(cmd *cobra.Command, names []string) error {
			return flags.ask(cmd, func(ctx context.Context, admin *kadm.Client) error {
				responses, err := admin.DeleteGroups(ctx, names...)
				if err != nil {
					err = fmt.Errorf("deleting groups: %w", firstError(err))
				}
				failed := []error{err}
				for _, r := range responses.Sorted() {
					if r.Err != nil {
						failed = append(failed, brokerError("deleting group "+r.Group, r.Err, r.ErrMessage))
						continue
					}
					fmt.Fprintf(cmd.OutOrStdout(), "Deleted group %s.\n", r.Group)
				}
				return errors.Join(failed...)
			})
		},
	}
}

func newGroupDeleteOffsetsCommand(flags *clientFlags) *cobra.Command {
	var topics []string
	cmd := &cobra.Command{
		Use:   "delete-offsets GROUP --topic TOPIC[:PARTITION,...]",
		Short: "Forget what a group has committed for topics",
		Long: `Forget what a group has committed for topics. Members that read such a topic then start anew, as their own setting says.
The broker refuses while a member subscribes to the topic.`,
		Example: `  weir group delete-offsets billing --topic orders
  weir group delete-offsets billing --topic orders:0,1 --topic returns`,
		Args:              positional(cobra.ExactArgs(1)),
		ValidArgsFunction: completeFirst(flags.completeGroups),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := parseTopicPartitions(topics)
			if err != nil {
				return usageErrorf("--topic: %w", err)
			}
			if len(chosen) == 0 {
				return usageErrorf("name the topics with --topic")
			}
			return flags.ask(cmd, func(ctx context.Context, admin *kadm.Client) error {
				return deleteOffsets(ctx, cmd, admin, args[0], chosen)
			})
		},
	}
	registerTopicFlag(cmd, flags, &topics)
	return cmd
}

// registerTopicFlag adds --topic, which does not split at commas: they stand between partitions.
func registerTopicFlag(cmd *cobra.Command, flags *clientFlags, topics *[]string) {
	cmd.Flags().StringArrayVarP(topics, "topic", "t", nil, "a `topic`, or some of its partitions as topic:0,1; repeatable")
	_ = cmd.RegisterFlagCompletionFunc("topic", flags.completeTopics)
}

func deleteOffsets(ctx context.Context, cmd *cobra.Command, admin *kadm.Client, name string, chosen topicPartitions) error {
	committed, err := committedOffsets(ctx, admin, name)
	if err != nil {
		return err
	}
	set := make(kadm.TopicsSet)
	for topic, partitions := range chosen {
		if len(partitions) == 0 {
			for id := range committed[topic] {
				partitions = append(partitions, id)
			}
		}
		if len(partitions) == 0 {
			return fmt.Errorf("group %s has committed nothing for topic %s", name, topic)
		}
		set.Add(topic, partitions...)
	}
	doing := "deleting offsets of group " + name
	responses, err := admin.DeleteOffsets(ctx, name, set)
	if err != nil {
		return brokerError(doing, err, "")
	}
	var failed []error
	for _, topic := range set.Sorted() {
		for _, id := range topic.Partitions {
			if err, _ := responses.Lookup(topic.Topic, id); err != nil {
				failed = append(failed, fmt.Errorf("%s: %s[%d]: %w", doing, topic.Topic, id, err))
				continue
			}
			fmt.Fprintf(cmd.OutOrStdout(), "Deleted the offset of %s[%d] in group %s.\n", topic.Topic, id, name)
		}
	}
	return errors.Join(failed...)
}

// committedOffsets returns what a group has committed. A group that does not exist has committed nothing.
func committedOffsets(ctx context.Context, admin *kadm.Client, name string) (kadm.OffsetResponses, error) {
	fetched := admin.FetchManyOffsets(ctx, name)[name]
	if err := fetched.Err; err != nil {
		return nil, fmt.Errorf("fetching offsets of group %s: %w", name, err)
	}
	fetched.Fetched.KeepFunc(func(o kadm.OffsetResponse) bool { return o.At >= 0 })
	for _, o := range fetched.Fetched.Sorted() {
		if o.Err != nil {
			return nil, fmt.Errorf("fetching offsets of group %s: %s[%d]: %w", name, o.Topic, o.Partition, o.Err)
		}
	}
	return fetched.Fetched, nil
}
