package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// drainWave is how many partitions move at a time: what is under way can be taken back, and what comes later is planned
	// by what is then.
	drainWave = 50
	// drainInterval is the time between two looks at what has arrived.
	drainInterval = 500 * time.Millisecond
	// drainReport is the time between two lines about it.
	drainReport = 5 * time.Second
)

// drain is what `weir cluster drain` is told.
type drain struct {
	flags  *clientFlags
	cmd    *cobra.Command
	output outputFormat
	node   int32
	dryRun bool
	// leaveOffline says that partitions which nobody leads stay where they are.
	leaveOffline bool
	throttle     int64 // bytes a second; 0: none
}

// drainResult is the line of `weir cluster drain -o json`.
type drainResult struct {
	Node  int32       `json:"node"`
	Moved []drainMove `json:"moved"` // or to be moved, with --dry-run
	Left  int         `json:"left"`  // replicas that it still holds: of partitions that nobody leads
}

type drainMove struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	From      []int32 `json:"from"`
	To        []int32 `json:"to"`
}

func newClusterDrainCommand(flags *clientFlags) *cobra.Command {
	d := &drain{flags: flags}
	var cancel bool
	var throttle string
	cmd := &cobra.Command{
		Use:   "drain NODE",
		Short: "Move all replicas away from a node",
		Long: `Move all replicas away from a node to the others, a few partitions at a time, while clients go on; records are copied before
anything is given up. Racks stay apart where there are racks enough. When a partition has no place to go to, or nobody leads it, nothing is moved.

The command waits until all has arrived. Interrupted, what is under way goes on; run it again to go on with the rest, or with
--cancel to take back what is under way. New topics may be placed on the node all the same, so stop and remove it soon.`,
		Example: `  weir cluster drain 3
  weir cluster drain 3 --dry-run
  weir cluster drain 3 --throttle 50000000`,
		Args: positional(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			d.cmd = cmd
			if d.node, err = parseNode(args[0]); err != nil {
				return err
			}
			if throttle != "" {
				if d.throttle, err = strconv.ParseInt(throttle, 10, 64); err != nil || d.throttle <= 0 {
					return usageErrorf("--throttle %s: must be a number of bytes a second, more than 0", throttle)
				}
			}
			client, err := flags.connect(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			if cancel {
				return d.cancel(client)
			}
			return d.run(client)
		},
	}
	d.output.register(cmd)
	cmd.Flags().BoolVar(&d.dryRun, "dry-run", false, "only print what would be moved")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "take back the moves away from the node that are under way")
	cmd.Flags().BoolVar(&d.leaveOffline, "leave-offline", false, "move the rest where nobody leads some of the partitions")
	cmd.Flags().StringVar(&throttle, "throttle", "", "copy no more than so many `bytes` a second to and from each node")
	cmd.MarkFlagsMutuallyExclusive("dry-run", "cancel")
	return cmd
}

// look asks for the state of the cluster, within the timeout of one question.
func (d *drain) look(client *kgo.Client) (v *clusterView, moving []kadm.ListPartitionReassignmentsResponse, err error) {
	ctx, cancel := d.flags.deadline(d.cmd.Context())
	defer cancel()
	if v, err = viewCluster(ctx, client); err != nil {
		return nil, nil, d.flags.explain(err)
	}
	if moving, err = listMoves(ctx, client); err != nil {
		return nil, nil, d.flags.explain(err)
	}
	return v, moving, nil
}

// listMoves lists the reassignments of all topics, which the admin client does not.
func listMoves(ctx context.Context, client *kgo.Client) (moves []kadm.ListPartitionReassignmentsResponse, err error) {
	resp, err := kmsg.NewPtrListPartitionReassignmentsRequest().RequestWith(ctx, client)
	if err == nil {
		err = errorOf(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("listing reassignments: %w", err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			moves = append(moves, kadm.ListPartitionReassignmentsResponse{Topic: t.Topic, Partition: p.Partition,
				Replicas: p.Replicas, AddingReplicas: p.AddingReplicas, RemovingReplicas: p.RemovingReplicas})
		}
	}
	return moves, nil
}

func (d *drain) run(client *kgo.Client) error {
	v, moving, err := d.look(client)
	if err != nil {
		return err
	}
	if v.node(d.node) == nil {
		return fmt.Errorf("there is no node %d; there are %s", d.node, v.known())
	}
	moves, err := v.planDrain(d.node, moving, d.leaveOffline)
	if err != nil {
		return err
	}
	result := &drainResult{Node: d.node, Moved: []drainMove{}}
	if d.dryRun {
		result.add(moves)
		return d.print(result)
	}
	if d.throttle > 0 && len(moves) > 0 {
		limit, err := d.limit(client, v, moves)
		if err != nil {
			return err
		}
		err = d.moveAll(client, result)
		return errors.Join(err, limit.lift())
	}
	return d.moveAll(client, result)
}

func (r *drainResult) add(moves []move) {
	for _, m := range moves {
		r.Moved = append(r.Moved, drainMove{m.topic, m.partition, m.from, m.to})
	}
}

func (d *drain) print(r *drainResult) error {
	out := d.cmd.OutOrStdout()
	if d.output == outputJSON {
		return writeJSON(out, r)
	}
	if d.dryRun {
		var rows [][]string
		for _, m := range r.Moved {
			rows = append(rows, []string{m.Topic, strconv.Itoa(int(m.Partition)), joinIDs(m.From), joinIDs(m.To)})
		}
		if rows == nil {
			fmt.Fprintf(out, "Node %d holds no replicas.\n", r.Node)
			return nil
		}
		return writeTable(out, []string{"TOPIC", "PARTITION", "FROM", "TO"}, rows)
	}
	if r.Left > 0 {
		fmt.Fprintf(out, "%d replicas were moved away from node %d; it still has %d of partitions that nobody leads.\n", len(r.Moved), r.Node, r.Left)
		return nil
	}
	fmt.Fprintf(out, "Node %d holds no replicas; %d were moved away. To take it out: `weir cluster remove %d`, once it is stopped.\n", r.Node, len(r.Moved), r.Node)
	return nil
}

// moveAll moves wave after wave, planned anew each time, until the node holds nothing.
func (d *drain) moveAll(client *kgo.Client, result *drainResult) error {
	for {
		v, moving, err := d.look(client)
		if err != nil {
			return err
		}
		moves, err := v.planDrain(d.node, moving, d.leaveOffline)
		if err != nil {
			return err
		}
		if len(moves) == 0 && countLeaving(moving, d.node) == 0 {
			result.Left = v.node(d.node).Replicas
			return d.print(result)
		}
		wave := moves[:min(len(moves), drainWave)]
		if err := d.reassign(client, wave); err != nil {
			return err
		}
		result.add(wave)
		if err := d.await(client, wave, len(result.Moved), len(moves)-len(wave)); err != nil {
			return err
		}
	}
}

func leaves(moving []kadm.ListPartitionReassignmentsResponse, topic string, partition, node int32) bool {
	return slices.ContainsFunc(moving, func(r kadm.ListPartitionReassignmentsResponse) bool {
		return r.Topic == topic && r.Partition == partition && slices.Contains(r.RemovingReplicas, node)
	})
}

func countLeaving(moving []kadm.ListPartitionReassignmentsResponse, node int32) (count int) {
	for _, r := range moving {
		if slices.Contains(r.RemovingReplicas, node) {
			count++
		}
	}
	return count
}

func (d *drain) reassign(client *kgo.Client, wave []move) error {
	if len(wave) == 0 {
		return nil
	}
	var req kadm.AlterPartitionAssignmentsReq
	for _, m := range wave {
		req.Assign(m.topic, m.partition, m.to)
	}
	return d.alter(client, req, "moving")
}

func (d *drain) alter(client *kgo.Client, req kadm.AlterPartitionAssignmentsReq, doing string) error {
	ctx, cancel := d.flags.deadline(d.cmd.Context())
	defer cancel()
	responses, err := kadm.NewClient(client).AlterPartitionAssignments(ctx, req)
	if err != nil {
		return fmt.Errorf("%s replicas: %w", doing, d.flags.explain(err))
	}
	var failed []error
	for _, r := range responses.Sorted() {
		if r.Err != nil {
			failed = append(failed, brokerError(fmt.Sprintf("%s %s[%d]", doing, r.Topic, r.Partition), r.Err, r.ErrMessage))
		}
	}
	return errors.Join(failed...)
}

// await waits until nothing is leaving the node any more, and all brokers may know it, and says now and then how far that is.
func (d *drain) await(client *kgo.Client, wave []move, moved, later int) error {
	reported, said := time.Now(), ""
	for {
		v, moving, err := d.look(client)
		if err != nil && d.cmd.Context().Err() == nil {
			return err
		}
		left := countLeaving(moving, d.node)
		if err == nil && left == 0 && !v.holdsAny(d.node, wave) { // a broker that was asked may be behind
			return nil
		}
		if line := fmt.Sprintf("%d of %d moved, %d under way", moved-left, moved+later, left); time.Since(reported) >= drainReport && line != said {
			fmt.Fprintln(d.cmd.ErrOrStderr(), "weir:", line)
			reported, said = time.Now(), line
		}
		select {
		case <-time.After(drainInterval):
		case <-d.cmd.Context().Done():
			return fmt.Errorf("interrupted: partitions on their way from node %d go on; `weir cluster drain %d --cancel` takes them back", d.node, d.node)
		}
	}
}

// holdsAny reports whether a node has a replica of a partition that was moved away from it.
func (v *clusterView) holdsAny(node int32, moves []move) bool {
	return slices.ContainsFunc(moves, func(m move) bool {
		return slices.Contains(v.topics[m.topic].Partitions[m.partition].Replicas, node)
	})
}

// cancel takes back what is leaving the node.
func (d *drain) cancel(client *kgo.Client) error {
	_, moving, err := d.look(client)
	if err != nil {
		return err
	}
	var req kadm.AlterPartitionAssignmentsReq
	for _, r := range moving {
		if slices.Contains(r.RemovingReplicas, d.node) {
			req.CancelAssign(r.Topic, r.Partition)
		}
	}
	if err := d.alter(client, req, "taking back"); err != nil {
		return err
	}
	fmt.Fprintf(d.cmd.OutOrStdout(), "Took back %d moves from node %d.\n", countLeaving(moving, d.node), d.node)
	return nil
}
