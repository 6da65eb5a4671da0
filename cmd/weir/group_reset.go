package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// resetFlags say which offsets a group gets, and for which partitions.
type resetFlags struct {
	topics    []string
	allTopics bool

	to      offsetSpec
	shiftBy int64
	toGroup string
	file    string

	dryRun bool
	output outputFormat
}

func newGroupResetCommand(flags *clientFlags) *cobra.Command {
	reset := new(resetFlags)
	cmd := &cobra.Command{
		Use:   "reset GROUP (--topic TOPIC[:PARTITION,...] | --all-topics) (--to OFFSET | --shift-by N | --to-group GROUP | --from-file FILE)",
		Short: "Set a group's offsets",
		Long: `Set a group's offsets, and print the old and the new ones. The group must have no members; one that does not exist is
made. --to takes one place for every partition:
` + offsetForms + `

--from-file reads lines of topic, partition and offset, with commas or blanks between them; "-" is standard input. With
it, and with --to-group, --topic narrows what is taken, and may be left out. An offset that a partition does not hold is
replaced by the nearest one that it does, with a warning.`,
		Example: `  weir group reset billing --all-topics --to start --dry-run
  weir group reset billing --topic orders --to @2026-01-02T03:04:05Z
  weir group reset billing --topic orders:0,1 --shift-by -100
  weir group reset billing-2 --to-group billing`,
		Args:              positional(cobra.ExactArgs(1)),
		ValidArgsFunction: completeFirst(flags.completeGroups),
		RunE: func(cmd *cobra.Command, args []string) error {
			chosen, err := reset.check(cmd)
			if err != nil {
				return err
			}
			listed, err := reset.readFile(cmd.InOrStdin())
			if err != nil {
				return err
			}
			return flags.ask(cmd, func(ctx context.Context, admin *kadm.Client) error {
				return reset.run(ctx, cmd, admin, args[0], chosen, listed)
			})
		},
	}
	registerTopicFlag(cmd, flags, &reset.topics)
	f := cmd.Flags()
	f.BoolVar(&reset.allTopics, "all-topics", false, "all partitions for which the group has committed something")
	f.Var(&reset.to, "to", "the new offset: a place in each partition")
	f.Lookup("to").DefValue = "" // there is none
	f.Int64Var(&reset.shiftBy, "shift-by", 0, "move what is committed by so many records, back if negative")
	f.StringVar(&reset.toGroup, "to-group", "", "take what another `group` has committed")
	f.StringVar(&reset.file, "from-file", "", "take the offsets from a `file`")
	f.BoolVar(&reset.dryRun, "dry-run", false, "only print what would be set")
	reset.output.register(cmd)
	_ = cmd.RegisterFlagCompletionFunc("to-group", flags.completeGroups)
	return cmd
}

// check looks at the flags together.
func (f *resetFlags) check(cmd *cobra.Command) (topicPartitions, error) {
	var given []string
	for _, name := range []string{"to", "shift-by", "to-group", "from-file"} {
		if cmd.Flags().Changed(name) {
			given = append(given, name)
		}
	}
	if len(given) != 1 {
		return nil, usageErrorf("give one of --to, --shift-by, --to-group and --from-file")
	}
	narrows := given[0] == "to-group" || given[0] == "from-file"
	switch {
	case f.allTopics && len(f.topics) > 0:
		return nil, usageErrorf("--topic and --all-topics exclude each other")
	case f.allTopics && narrows:
		return nil, usageErrorf("--all-topics is what --%s does without --topic", given[0])
	case !f.allTopics && len(f.topics) == 0 && !narrows:
		return nil, usageErrorf("name the topics with --topic, or all of them with --all-topics")
	}
	chosen, err := parseTopicPartitions(f.topics)
	if err != nil {
		return nil, usageErrorf("--topic: %w", err)
	}
	return chosen, nil
}

// newOffsets are those that a group is to get, by topic and partition, before anybody has looked at what the partitions
// hold.
type newOffsets map[string]map[int32]int64

func (n newOffsets) set(topic string, partition int32, offset int64) {
	if n[topic] == nil {
		n[topic] = make(map[int32]int64)
	}
	n[topic][partition] = offset
}

func (n newOffsets) partitions() topicPartitions {
	all := make(topicPartitions)
	for topic, partitions := range n {
		for id := range partitions {
			all.add(topic, id)
		}
	}
	return all
}

// keep drops what was not chosen. Nothing chosen is everything.
func (n newOffsets) keep(chosen topicPartitions) {
	if len(chosen) == 0 {
		return
	}
	for topic, partitions := range n {
		some, ok := chosen[topic]
		if !ok {
			delete(n, topic)
			continue
		}
		for id := range partitions {
			if len(some) > 0 && !slices.Contains(some, id) {
				delete(partitions, id)
			}
		}
	}
}

// readFile reads --from-file, before any broker is asked.
func (f *resetFlags) readFile(stdin io.Reader) (newOffsets, error) {
	switch f.file {
	case "":
		return nil, nil
	case "-":
		return parseOffsets(stdin)
	}
	file, err := os.Open(f.file)
	if err != nil {
		return nil, usageError(err)
	}
	defer file.Close()
	offsets, err := parseOffsets(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.file, err)
	}
	return offsets, nil
}

// parseOffsets reads "topic,partition,offset" as kafka-consumer-groups exports it, and the same with blanks as rpk does.
func parseOffsets(r io.Reader) (newOffsets, error) {
	offsets := make(newOffsets)
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		fields := strings.FieldsFunc(lines.Text(), func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\r' || r == '"' })
		if len(fields) == 0 {
			continue
		}
		bad := usageErrorf("line %d: %q is not of the form topic,partition,offset", n, lines.Text())
		if len(fields) != 3 {
			return nil, bad
		}
		partition, err := strconv.ParseInt(fields[1], 10, 32)
		offset, offsetErr := parseCount(fields[2])
		if err != nil || offsetErr != nil || partition < 0 {
			return nil, bad
		}
		offsets.set(fields[0], int32(partition), offset)
	}
	return offsets, lines.Err()
}

// run plans, commits unless that is not wanted, and prints.
func (f *resetFlags) run(ctx context.Context, cmd *cobra.Command, admin *kadm.Client, name string, chosen topicPartitions, listed newOffsets) error {
	if err := refuseWithMembers(ctx, admin, name); err != nil {
		return err
	}
	committed, err := committedOffsets(ctx, admin, name)
	if err != nil {
		return err
	}
	wanted, err := f.wanted(ctx, admin, name, chosen, committed, listed)
	if err != nil {
		return err
	}
	partitions := wanted.partitions()
	if len(partitions) == 0 {
		return fmt.Errorf("resetting group %s: no offsets were found to set", name)
	}
	list, err := locate(ctx, admin, partitions, offsetSpec{}, false)
	if err != nil {
		return err
	}
	plan := planReset(name, wanted, committed, list)
	for _, p := range plan {
		if p.wanted != p.NewOffset {
			fmt.Fprintf(cmd.ErrOrStderr(), "weir: %s[%d] does not hold offset %d; %d is the nearest\n", p.Topic, p.Partition, p.wanted, p.NewOffset)
		}
	}
	if !f.dryRun {
		if err := commitPlan(ctx, admin, name, plan); err != nil {
			return err
		}
	}
	return writePlan(cmd.OutOrStdout(), f.output, plan)
}

// refuseWithMembers fails in Kafka's words for a group that has members. The broker would refuse the commit too, but only
// with UNKNOWN_MEMBER_ID.
func refuseWithMembers(ctx context.Context, admin *kadm.Client, name string) error {
	groups, err := groupStatesOf(ctx, admin, []string{name})
	if errors.Is(err, kerr.GroupIDNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, g := range groups {
		if g.hasMembers() {
			return brokerError("resetting group "+name, kerr.NonEmptyGroup,
				fmt.Sprintf("Assignments can only be reset if the group '%s' is inactive, but the current state is %s.", name, g.State))
		}
	}
	return nil
}

// wanted finds the offsets that the flags mean.
func (f *resetFlags) wanted(ctx context.Context, admin *kadm.Client, name string, chosen topicPartitions, committed kadm.OffsetResponses, listed newOffsets) (newOffsets, error) {
	switch {
	case f.file != "":
		listed.keep(chosen)
		return listed, nil
	case f.toGroup != "":
		others, err := committedOffsets(ctx, admin, f.toGroup)
		if err != nil {
			return nil, err
		}
		offsets := make(newOffsets)
		others.Each(func(o kadm.OffsetResponse) { offsets.set(o.Topic, o.Partition, o.At) })
		offsets.keep(chosen)
		return offsets, nil
	}
	if f.allTopics {
		committed.Each(func(o kadm.OffsetResponse) { chosen.add(o.Topic, o.Partition) })
	} else if err := chosen.expand(ctx, admin, "resetting topic"); err != nil {
		return nil, err
	}
	if f.to.text == "" {
		return shifted(name, chosen, committed, f.shiftBy)
	}
	list, err := locate(ctx, admin, chosen, f.to, false)
	if err != nil {
		return nil, err
	}
	offsets := make(newOffsets)
	chosen.each(func(topic string, id int32) { offsets.set(topic, id, f.to.in(list[topic][id])) })
	return offsets, nil
}

// shifted moves what is committed. There is nothing to move where nothing is.
func shifted(name string, chosen topicPartitions, committed kadm.OffsetResponses, by int64) (newOffsets, error) {
	offsets := make(newOffsets)
	var failed []error
	chosen.each(func(topic string, id int32) {
		o, ok := committed.Lookup(topic, id)
		if !ok {
			failed = append(failed, fmt.Errorf("%s[%d] cannot be shifted: group %s has committed nothing for it", topic, id, name))
			return
		}
		offsets.set(topic, id, o.At+by)
	})
	return offsets, errors.Join(failed...)
}

// plannedOffset is a line of `weir group reset -o json`.
type plannedOffset struct {
	Group     string `json:"group"`
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	NewOffset int64  `json:"newOffset"`
	OldOffset *int64 `json:"oldOffset"` // null where nothing was committed

	wanted int64 // before it was brought into what the partition holds
}

// planReset brings offsets into what the partitions hold, by topic and partition.
func planReset(name string, wanted newOffsets, committed kadm.OffsetResponses, list offsetList) []plannedOffset {
	var plan []plannedOffset
	wanted.partitions().each(func(topic string, id int32) {
		p := plannedOffset{Group: name, Topic: topic, Partition: id, wanted: wanted[topic][id]}
		p.NewOffset = list[topic][id].clamp(p.wanted)
		if o, ok := committed.Lookup(topic, id); ok {
			p.OldOffset = &o.At
		}
		plan = append(plan, p)
	})
	return plan
}

func commitPlan(ctx context.Context, admin *kadm.Client, name string, plan []plannedOffset) error {
	offsets := make(kadm.Offsets)
	for _, p := range plan {
		offsets.AddOffset(p.Topic, p.Partition, p.NewOffset, -1)
	}
	responses, err := admin.CommitOffsets(ctx, name, offsets)
	if err != nil {
		return fmt.Errorf("committing offsets of group %s: %w", name, err)
	}
	var failed []error
	for _, r := range responses.Sorted() {
		if r.Err != nil {
			failed = append(failed, fmt.Errorf("committing offsets of group %s: %s[%d]: %w", name, r.Topic, r.Partition, r.Err))
		}
	}
	return errors.Join(failed...)
}

// writePlan prints the columns of kafka-consumer-groups, and one more.
func writePlan(w io.Writer, output outputFormat, plan []plannedOffset) error {
	if output == outputJSON {
		return writeJSONLines(w, plan)
	}
	var rows [][]string
	for _, p := range plan {
		rows = append(rows, []string{p.Group, p.Topic, strconv.Itoa(int(p.Partition)), strconv.FormatInt(p.NewOffset, 10), offsetOrDash(p.OldOffset)})
	}
	return writeTable(w, []string{"GROUP", "TOPIC", "PARTITION", "NEW-OFFSET", "OLD-OFFSET"}, rows)
}
