package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// replication is what `weir topic alter-replication` is told.
type replication struct {
	mover
	output outputFormat
	topics []string
	factor int
	dryRun bool
}

func newTopicAlterReplicationCommand(flags *clientFlags) *cobra.Command {
	r := &replication{mover: mover{flags: flags}}
	cmd := &cobra.Command{
		Use:   "alter-replication TOPIC... -r N",
		Short: "Give topics more or fewer replicas",
		Long: `Give every partition of topics the same number of replicas, a few partitions at a time, while clients go on. More go to nodes
in racks that have none of the partition, where there are such, and to those that hold the fewest. Fewer are left by dropping the last
ones of a partition, those that are not in sync first. When a partition has no place to go to, nobody leads it, or it is being moved,
nothing is changed.

With more replicas, a node that is preferred as the leader of more partitions than another one passes some on. The controller has
the preferred ones lead after a while, "weir topic elect-leaders" at once.

The command waits until all has arrived. Interrupted, what is under way goes on; run it again to go on with the rest.`,
		Example: `  weir topic alter-replication orders bills -r 3 --dry-run
  weir topic alter-replication __consumer_offsets -r 3`,
		Args:              positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: flags.completeTopics,
		RunE: func(cmd *cobra.Command, topics []string) error {
			if r.factor < 1 {
				return usageErrorf("say with --replication-factor how many replicas there are to be, at least 1")
			}
			r.cmd, r.topics = cmd, topics
			client, err := flags.connect(cmd)
			if err != nil {
				return err
			}
			defer client.Close()
			return r.run(client)
		},
	}
	cmd.Flags().IntVarP(&r.factor, "replication-factor", "r", 0, "copies of each partition")
	cmd.Flags().BoolVar(&r.dryRun, "dry-run", false, "only print what would be changed")
	r.throttle.register(cmd)
	r.output.register(cmd)
	return cmd
}

func (r *replication) run(client *kgo.Client) error {
	v, moving, err := r.look(client)
	if err != nil {
		return err
	}
	moves, err := v.planReplication(r.topics, r.factor, moving)
	if err != nil {
		return err
	}
	if !r.dryRun {
		if err := r.limited(client, v, moves, func() error { return r.moveAll(client, moves) }); err != nil {
			return err
		}
	}
	return r.print(moves)
}

func (r *replication) moveAll(client *kgo.Client, moves []move) error {
	interrupted := errors.New("interrupted: what is under way goes on; run the command again to go on with the rest")
	done := 0
	for wave := range slices.Chunk(moves, moveWave) {
		if err := r.reassign(client, wave); err != nil {
			return err
		}
		err := r.await(client, interrupted, func(v *clusterView, moving []kadm.ListPartitionReassignmentsResponse) (string, bool) {
			left := v.countPending(wave, moving)
			return fmt.Sprintf("%d of %d partitions changed, %d under way", done+len(wave)-left, len(moves), left), left == 0
		})
		if err != nil {
			return err
		}
		done += len(wave)
	}
	return nil
}

// countPending counts the partitions that do not have the replicas yet that they are to have: new ones are listed from the beginning,
// and have arrived when the partition is not moving any more. One that was deleted meanwhile is none.
func (v *clusterView) countPending(moves []move, moving []kadm.ListPartitionReassignmentsResponse) (count int) {
	for _, m := range moves {
		p, found := v.topics[m.Topic].Partitions[m.Partition]
		if found && (!slices.Equal(p.Replicas, m.To) || isMoving(moving, m.Topic, m.Partition)) {
			count++
		}
	}
	return count
}

func isMoving(moving []kadm.ListPartitionReassignmentsResponse, topic string, partition int32) bool {
	return slices.ContainsFunc(moving, func(r kadm.ListPartitionReassignmentsResponse) bool {
		return r.Topic == topic && r.Partition == partition
	})
}

func (r *replication) print(moves []move) error {
	out := r.cmd.OutOrStdout()
	if r.output == outputJSON {
		return writeJSONLines(out, moves)
	}
	if len(moves) == 0 {
		fmt.Fprintf(out, "All partitions have %d replicas.\n", r.factor)
		return nil
	}
	return writeMoves(out, moves)
}

// planReplication says how all partitions of topics come to have so many replicas. Nothing is planned at all where one of them
// cannot: the error says why.
func (v *clusterView) planReplication(topics []string, factor int, moving []kadm.ListPartitionReassignmentsResponse) ([]move, error) {
	load, preferred := make(map[int32]int), make(map[int32]int)
	v.topics.EachPartition(func(p kadm.PartitionDetail) {
		if len(p.Replicas) > 0 {
			preferred[p.Replicas[0]]++
		}
	})
	up := 0
	for _, n := range v.nodes {
		load[n.Node] = n.Replicas
		if n.up() {
			up++
		}
	}
	var moves []move
	var stuck []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(topics))) {
		t, found := v.topics[name]
		if !found {
			return nil, topicError("altering the replication of topic", name, kerr.UnknownTopicOrPartition, "")
		}
		for _, p := range t.Partitions.Sorted() {
			target := v.withFactor(p, factor, load)
			switch at := fmt.Sprintf("%s[%d]", name, p.Partition); {
			case isMoving(moving, name, p.Partition):
				stuck = append(stuck, at+" is being moved")
			case len(p.Replicas) == factor:
			case p.Leader < 0:
				stuck = append(stuck, "nobody leads "+at)
			case len(target) < factor:
				stuck = append(stuck, fmt.Sprintf("%s can have %d replicas", at, len(target)))
			default:
				if factor > len(p.Replicas) {
					spreadPreferred(target, preferred)
				}
				moves = append(moves, move{name, p.Partition, p.Replicas, target})
			}
		}
	}
	if stuck != nil {
		return nil, fmt.Errorf("nothing was changed: %d nodes are up, and %s", up, strings.Join(stuck, ", "))
	}
	return moves, nil
}

// withFactor is what replicas a partition is to have: as many as wanted, or as there are nodes for. It books them in load.
func (v *clusterView) withFactor(p kadm.PartitionDetail, factor int, load map[int32]int) []int32 {
	p.Replicas = slices.Clone(p.Replicas)
	for len(p.Replicas) > factor {
		last := len(p.Replicas) - 1
		for i, id := range slices.Backward(p.Replicas) {
			if !slices.Contains(p.ISR, id) {
				last = i
				break
			}
		}
		load[p.Replicas[last]]--
		p.Replicas = slices.Delete(p.Replicas, last, last+1)
	}
	for len(p.Replicas) < factor {
		to, found := v.place(p, -1, load)
		if !found {
			break
		}
		load[to]++
		p.Replicas = append(p.Replicas, to)
	}
	return p.Replicas
}

// spreadPreferred puts the replica first whose node is preferred as a leader the least, if that makes it more even.
func spreadPreferred(replicas []int32, preferred map[int32]int) {
	best := 0
	for i, id := range replicas {
		if preferred[id] < preferred[replicas[best]] {
			best = i
		}
	}
	if preferred[replicas[best]]+1 < preferred[replicas[0]] {
		preferred[replicas[best]]++
		preferred[replicas[0]]--
		replicas[0], replicas[best] = replicas[best], replicas[0]
	}
}
