package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clusterStatus is the line of `weir cluster status -o json`.
type clusterStatus struct {
	Cluster    string         `json:"cluster"`
	Controller int32          `json:"controller"` // -1 where there is none
	Voters     []int32        `json:"voters"`     // null where the brokers do not tell
	Learners   []int32        `json:"learners"`
	Partitions partitionCount `json:"partitions"`
	Healthy    bool           `json:"healthy"`
	Problems   []string       `json:"problems"`
	Nodes      []*clusterNode `json:"nodes"`
}

type partitionCount struct {
	All             int `json:"all"`
	Offline         int `json:"offline"`         // nobody leads them
	UnderReplicated int `json:"underReplicated"` // fewer in sync than there are replicas
	BelowMinISR     int `json:"belowMinIsr"`     // they take no records with acks=all
	Moving          int `json:"moving"`          // replicas are being added or removed
}

func newClusterStatusCommand(flags *clientFlags) *cobra.Command {
	var output outputFormat
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Print how the cluster is, and what is wrong with it",
		Args:  positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.request(cmd, func(ctx context.Context, client *kgo.Client) error {
				v, s, err := statusOf(ctx, client)
				if err != nil {
					return err
				}
				v.addDisks(ctx, kadm.NewClient(client))
				if output == outputJSON {
					return writeJSON(cmd.OutOrStdout(), s)
				}
				s.write(cmd.OutOrStdout())
				return v.writeNodes(cmd)
			})
		},
	}
	output.register(cmd)
	return cmd
}

func statusOf(ctx context.Context, client *kgo.Client) (*clusterView, *clusterStatus, error) {
	v, err := viewCluster(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	admin := kadm.NewClient(client)
	moving, err := listMoves(ctx, client)
	if err != nil {
		return nil, nil, err
	}
	needed, err := minInSync(ctx, admin, v.topics)
	if err != nil {
		return nil, nil, err
	}
	return v, v.status(needed, len(moving)), nil
}

// minInSync returns min.insync.replicas of the topics that have partitions with replicas out of sync; of others it makes no
// difference.
func minInSync(ctx context.Context, admin *kadm.Client, topics kadm.TopicDetails) (map[string]int, error) {
	var names []string
	for _, t := range topics.Sorted() {
		for _, p := range t.Partitions {
			if len(p.ISR) < len(p.Replicas) && !slices.Contains(names, t.Topic) {
				names = append(names, t.Topic)
			}
		}
	}
	needed := make(map[string]int)
	if len(names) == 0 {
		return needed, nil
	}
	resources, err := admin.DescribeTopicConfigs(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("describing configs: %w", firstError(err))
	}
	for _, r := range resources {
		for _, c := range r.Configs {
			if c.Key == "min.insync.replicas" {
				needed[r.Name], _ = strconv.Atoi(c.MaybeValue()) // a broker that has no number there has no minimum
			}
		}
	}
	return needed, nil
}

// status sums up. needed is min.insync.replicas by topic.
func (v *clusterView) status(needed map[string]int, moving int) *clusterStatus {
	s := &clusterStatus{Cluster: v.id, Controller: v.controller, Nodes: v.nodes, Learners: []int32{}, Problems: []string{}}
	for _, n := range v.nodes {
		switch n.Role {
		case roleController, roleVoter:
			s.Voters = append(s.Voters, n.Node)
		case roleLearner:
			s.Learners = append(s.Learners, n.Node)
		}
		if n.State == stateFenced {
			s.problem("node %d is fenced: the controller does not hear it", n.Node)
		}
		if n.voteLost {
			s.problem("node %d came with another data directory, and does not vote yet", n.Node)
		}
	}
	s.Partitions.Moving = moving
	v.topics.EachPartition(func(p kadm.PartitionDetail) {
		s.Partitions.All++
		if p.Leader < 0 {
			s.Partitions.Offline++
		}
		if len(p.ISR) < len(p.Replicas) {
			s.Partitions.UnderReplicated++
		}
		if p.Leader >= 0 && len(p.ISR) < min(needed[p.Topic], len(p.Replicas)) {
			s.Partitions.BelowMinISR++
		}
	})
	if v.controller < 0 {
		s.problem("no controller is active: nothing can be created, changed or elected, and what else is told here may be old. " +
			"A majority of the voters has to live; where it is gone for good, see `weir quorum recover`")
	}
	for _, c := range []struct {
		count      int
		what, then string
	}{
		{s.Partitions.Offline, "offline", "nobody leads them, and they take and give no records"},
		{s.Partitions.BelowMinISR, "below min.insync.replicas", "they take no records with acks=all"},
		{s.Partitions.UnderReplicated, "under-replicated", "they have replicas that are not in sync"},
	} {
		if c.count > 0 {
			s.problem("partitions %s: %d; %s", c.what, c.count, c.then)
		}
	}
	s.Healthy = len(s.Problems) == 0
	return s
}

func (s *clusterStatus) problem(format string, args ...any) {
	s.Problems = append(s.Problems, fmt.Sprintf(format, args...))
}

func (s *clusterStatus) write(w io.Writer) {
	controller := "none"
	if s.Controller >= 0 {
		controller = fmt.Sprintf("node %d", s.Controller)
	}
	fmt.Fprintf(w, "Cluster:     %s\n", orDash(s.Cluster))
	fmt.Fprintf(w, "Controller:  %s\n", controller)
	if s.Voters != nil {
		fmt.Fprintf(w, "Quorum:      voters %s; learners %s\n", joinIDs(s.Voters), orDash(joinIDs(s.Learners)))
	}
	p := s.Partitions
	fmt.Fprintf(w, "Partitions:  %d; offline %d, below min.insync.replicas %d, under-replicated %d, moving %d\n", p.All, p.Offline, p.BelowMinISR, p.UnderReplicated, p.Moving)
	if s.Healthy {
		fmt.Fprint(w, "Health:      nothing is wrong\n\n")
		return
	}
	for i, problem := range s.Problems {
		label := "Health:"
		if i > 0 {
			label = ""
		}
		fmt.Fprintf(w, "%-12s %s\n", label, problem)
	}
	fmt.Fprintln(w)
}

func newClusterWaitHealthyCommand(flags *clientFlags) *cobra.Command {
	var limit time.Duration
	var nodes int
	cmd := &cobra.Command{
		Use:   "wait-healthy",
		Short: "Wait until nothing is wrong with the cluster",
		Long: `Wait until every node is up and every partition has all its replicas in sync: between two steps of a rolling restart, say.
What is still wrong is said when that changes.`,
		Example: "  weir cluster wait-healthy --nodes 3 --limit 2m",
		Args:    positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.waitHealthy(cmd, limit, nodes)
		},
	}
	cmd.Flags().DurationVar(&limit, "limit", 5*time.Minute, "give up after this time")
	cmd.Flags().IntVar(&nodes, "nodes", 0, "wait until this many nodes are up too")
	return cmd
}

// healthInterval is the time between two looks.
const healthInterval = 500 * time.Millisecond

func (f *clientFlags) waitHealthy(cmd *cobra.Command, limit time.Duration, nodes int) error {
	if limit <= 0 {
		return usageErrorf("--limit %v: must be more than 0", limit)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), limit)
	defer cancel()
	client, err := f.connect(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	said := ""
	for {
		problem := f.whatIsWrong(ctx, client, nodes)
		if problem == "" {
			fmt.Fprintln(cmd.OutOrStdout(), "Nothing is wrong with the cluster.")
			return nil
		}
		if problem != said && ctx.Err() == nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "weir: waiting: %s\n", problem)
			said = problem
		}
		select {
		case <-time.After(healthInterval):
		case <-ctx.Done():
			if cmd.Context().Err() != nil {
				return errors.New("interrupted")
			}
			return fmt.Errorf("after %v: %s", limit, said)
		}
	}
}

// whatIsWrong is empty where nothing is. That nobody answers is a reason to go on waiting.
func (f *clientFlags) whatIsWrong(ctx context.Context, client *kgo.Client, nodes int) string {
	ctx, cancel := f.deadline(ctx)
	defer cancel()
	v, s, err := statusOf(ctx, client)
	if err != nil {
		return f.explain(err).Error()
	}
	up := 0
	for _, n := range v.nodes {
		if n.up() {
			up++
		}
	}
	if up < nodes {
		s.problem("%d of %d nodes are up", up, nodes)
	}
	return strings.Join(s.Problems, "; ")
}
