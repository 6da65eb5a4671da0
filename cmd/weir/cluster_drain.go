package main

import (
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// drain is what `weir cluster drain` is told.
type drain struct {
	mover
	output outputFormat
	node   int32
	dryRun bool
	// leaveOffline says that partitions which nobody leads stay where they are.
	leaveOffline bool
}

// drainResult is the line of `weir cluster drain -o json`.
type drainResult struct {
	Node  int32  `json:"node"`
	Moved []move `json:"moved"` // or to be moved, with --dry-run
	Left  int    `json:"left"`  // replicas that it still holds: of partitions that nobody leads
}

func newClusterDrainCommand(flags *clientFlags) *cobra.Command {
	d := &drain{mover: mover{flags: flags}}
	var cancel bool
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
	d.throttle.register(cmd)
	cmd.MarkFlagsMutuallyExclusive("dry-run", "cancel")
	return cmd
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
	result := &drainResult{Node: d.node, Moved: []move{}}
	if d.dryRun {
		result.Moved = append(result.Moved, moves...)
		return d.print(result)
	}
	return d.limited(client, v, moves, func() error { return d.moveAll(client, result) })
}

func (d *drain) print(r *drainResult) error {
	out := d.cmd.OutOrStdout()
	if d.output == outputJSON {
		return writeJSON(out, r)
	}
	if d.dryRun {
		if len(r.Moved) == 0 {
			fmt.Fprintf(out, "Node %d holds no replicas.\n", r.Node)
			return nil
		}
		return writeMoves(out, r.Moved)
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
		wave := moves[:min(len(moves), moveWave)]
		if err := d.reassign(client, wave); err != nil {
			return err
		}
		result.Moved = append(result.Moved, wave...)
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

// await waits until nothing is leaving the node any more, and all brokers may know it.
func (d *drain) await(client *kgo.Client, wave []move, moved, later int) error {
	interrupted := fmt.Errorf("interrupted: partitions on their way from node %d go on; `weir cluster drain %d --cancel` takes them back", d.node, d.node)
	return d.mover.await(client, interrupted, func(v *clusterView, moving []kadm.ListPartitionReassignmentsResponse) (string, bool) {
		left := countLeaving(moving, d.node)
		done := left == 0 && !v.holdsAny(d.node, wave) // a broker that was asked may be behind
		return fmt.Sprintf("%d of %d moved, %d under way", moved-left, moved+later, left), done
	})
}

// holdsAny reports whether a node has a replica of a partition that was moved away from it.
func (v *clusterView) holdsAny(node int32, moves []move) bool {
	return slices.ContainsFunc(moves, func(m move) bool {
		return slices.Contains(v.topics[m.Topic].Partitions[m.Partition].Replicas, node)
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
