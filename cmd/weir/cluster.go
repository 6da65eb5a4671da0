package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
)

func newClusterCommand() *cobra.Command {
	flags := new(clientFlags)
	cmd := group(&cobra.Command{
		Use:   "cluster",
		Short: "See how a cluster is, drain nodes and remove them",
	},
		newClusterStatusCommand(flags),
		newClusterNodesCommand(flags),
		newClusterWaitHealthyCommand(flags),
		newClusterDrainCommand(flags),
		newClusterRemoveCommand(flags),
	)
	flags.register(cmd)
	return cmd
}

// clusterNode is a line of `weir cluster nodes -o json`.
type clusterNode struct {
	Node     int32  `json:"node"`
	Address  string `json:"address"` // of the listener that was asked; "" for a controller alone, or where nothing is registered
	Rack     string `json:"rack,omitempty"`
	Role     string `json:"role"`  // in the quorum: controller (the active one), voter or learner; "" where it is no member
	State    string `json:"state"` // up, fenced, or unregistered
	Leaders  int    `json:"leaders"`
	Replicas int    `json:"replicas"`
	// UnderReplicated counts its replicas that are not in sync.
	UnderReplicated int `json:"underReplicated"`
	// MetadataLag is how many entries of the metadata log it lacks; null where that is not known.
	MetadataLag *int64   `json:"metadataLag"`
	DiskUsed    *float64 `json:"diskUsed"` // of its fullest data directory, 0 to 1; null where it does not tell

	directory [16]byte // of its metadata log
	voteLost  bool     // directory is one that it had; that it has now has no vote yet
}

func (n *clusterNode) up() bool { return n.State == stateUp }

const (
	stateUp           = "up"
	stateFenced       = "fenced"
	stateUnregistered = "unregistered"

	roleController = "controller"
	roleVoter      = "voter"
	roleLearner    = "learner"
)

// clusterView is what a cluster says of itself.
type clusterView struct {
	id         string
	controller int32
	nodes      []*clusterNode // in order of their ids
	topics     kadm.TopicDetails
}

func (v *clusterView) node(id int32) *clusterNode {
	i, found := slices.BinarySearchFunc(v.nodes, id, func(n *clusterNode, id int32) int { return int(n.Node) - int(id) })
	if !found {
		return nil
	}
	return v.nodes[i]
}

// getOrAdd finds a node, or makes one of which nothing is known but its id.
func (v *clusterView) getOrAdd(id int32) *clusterNode {
	if n := v.node(id); n != nil {
		return n
	}
	n := &clusterNode{Node: id, State: stateUnregistered}
	v.nodes = append(v.nodes, n)
	slices.SortFunc(v.nodes, func(a, b *clusterNode) int { return int(a.Node) - int(b.Node) })
	return n
}

// viewCluster asks for brokers, the quorum and the partitions. A broker that knows nothing of a quorum is no reason to hide the
// rest.
func viewCluster(ctx context.Context, client *kgo.Client) (*clusterView, error) {
	ask := kmsg.NewPtrDescribeClusterRequest()
	ask.IncludeFencedBrokers = true
	described, err := ask.RequestWith(ctx, client)
	if err == nil {
		err = errorOf(described.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("describing the cluster: %w", err)
	}
	v := &clusterView{id: described.ClusterID, controller: described.ControllerID}
	for _, b := range described.Brokers {
		n := v.getOrAdd(b.NodeID)
		n.Address, n.Rack, n.State = fmt.Sprintf("%s:%d", b.Host, b.Port), textOf(b.Rack), stateUp
		if b.IsFenced {
			n.State = stateFenced
		}
	}
	switch err := v.addQuorum(ctx, client); {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil, errors.Is(err, kerr.RequestTimedOut):
		v.controller = -1 // what else is there was known before, and is told
	case err != nil && !errors.Is(err, kerr.UnsupportedVersion):
		return nil, fmt.Errorf("describing the quorum: %w", err)
	}
	if v.topics, err = kadm.NewClient(client).ListTopicsWithInternal(ctx); err != nil {
		return nil, fmt.Errorf("listing topics: %w", err)
	}
	v.countReplicas()
	return v, nil
}

func errorOf(code int16) error {
	if code == 0 {
		return nil
	}
	return kerr.ErrorForCode(code)
}

// lookTimeout is how long a single node is waited for, of which something is to be told: the leader of the quorum, or one that has
// disks. It answers in milliseconds if it is there, and an election takes a second or two.
const lookTimeout = 3 * time.Second

func (v *clusterView) addQuorum(ctx context.Context, client *kgo.Client) error {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	ask := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = kafka.ClusterMetadataTopic
	topic.Partitions = append(topic.Partitions, kmsg.NewDescribeQuorumRequestTopicPartition())
	ask.Topics = append(ask.Topics, topic)
	answer, err := ask.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if err := errorOf(answer.ErrorCode); err != nil {
		return err
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			if err := errorOf(p.ErrorCode); err != nil {
				return err
			}
			v.addMembers(roleVoter, p.CurrentVoters, p)
			v.addMembers(roleLearner, p.Observers, p)
			v.controller = p.LeaderID // Kafka names any broker as the controller elsewhere, since that passes on what it is asked
			if p.LeaderID >= 0 {
				v.getOrAdd(p.LeaderID).Role = roleController
			}
		}
	}
	return nil
}

func (v *clusterView) addMembers(role string, members []kmsg.DescribeQuorumResponseTopicPartitionReplicaState, p kmsg.DescribeQuorumResponseTopicPartition) {
	for _, m := range members {
		n := v.getOrAdd(m.ReplicaID)
		if n.Role == roleVoter { // a node that came with a new directory: the old one still has its vote
			n.voteLost = true
			continue
		}
		n.Role, n.directory = role, m.ReplicaDirectoryID
		if m.LogEndOffset >= 0 {
			lag := max(p.HighWatermark-m.LogEndOffset, 0)
			n.MetadataLag = &lag
		}
	}
}

func (v *clusterView) countReplicas() {
	v.topics.EachPartition(func(p kadm.PartitionDetail) {
		if n := v.node(p.Leader); n != nil {
			n.Leaders++
		}
		for _, id := range p.Replicas {
			n := v.node(id)
			if n == nil {
				continue
			}
			n.Replicas++
			if !slices.Contains(p.ISR, id) {
				n.UnderReplicated++
			}
		}
	})
}

// addDisks asks each broker how full its directories are. One that does not answer leaves a blank.
func (v *clusterView) addDisks(ctx context.Context, admin *kadm.Client) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	all, err := admin.DescribeAllLogDirs(ctx, kadm.TopicsSet{})
	if all == nil && err != nil {
		return
	}
	all.Each(func(d kadm.DescribedLogDir) {
		n := v.node(d.Broker)
		if n == nil || d.Err != nil || d.TotalBytes <= 0 || d.UsableBytes < 0 {
			return
		}
		used := 1 - float64(d.UsableBytes)/float64(d.TotalBytes)
		if n.DiskUsed == nil || used > *n.DiskUsed {
			n.DiskUsed = &used
		}
	})
}

func newClusterNodesCommand(flags *clientFlags) *cobra.Command {
	var output outputFormat
	cmd := &cobra.Command{
		Use:   "nodes",
		Short: "Print a line for every node",
		Long: `Print a line for every node: what it does in the quorum, whether it is up, and what it holds. NOT IN SYNC counts its replicas
that lack something, BEHIND the entries of the metadata log that it has not got yet. DISK is its fullest data directory's disk.`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return flags.request(cmd, func(ctx context.Context, client *kgo.Client) error {
				v, err := viewCluster(ctx, client)
				if err != nil {
					return err
				}
				v.addDisks(ctx, kadm.NewClient(client))
				if output == outputJSON {
					return writeJSONLines(cmd.OutOrStdout(), v.nodes)
				}
				return v.writeNodes(cmd)
			})
		},
	}
	output.register(cmd)
	return cmd
}

func (v *clusterView) writeNodes(cmd *cobra.Command) error {
	var rows [][]string
	for _, n := range v.nodes {
		disk := "-"
		if n.DiskUsed != nil {
			disk = fmt.Sprintf("%.0f %%", *n.DiskUsed*100)
		}
		rows = append(rows, []string{strconv.Itoa(int(n.Node)), orDash(n.Address), orDash(n.Rack), orDash(n.Role), n.State,
			strconv.Itoa(n.Leaders), strconv.Itoa(n.Replicas), strconv.Itoa(n.UnderReplicated), offsetOrDash(n.MetadataLag), disk})
	}
	header := []string{"NODE", "ADDRESS", "RACK", "ROLE", "STATE", "LEADERS", "REPLICAS", "NOT IN SYNC", "BEHIND", "DISK"}
	return writeTable(cmd.OutOrStdout(), header, rows)
}

// parseNode reads the id of a node that a verb is about.
func parseNode(arg string) (int32, error) {
	id, err := strconv.ParseInt(arg, 10, 32)
	if err != nil || id < 0 {
		return 0, usageErrorf("%q is no node id: a number is wanted, as in the first column of `weir cluster nodes`", arg)
	}
	return int32(id), nil
}

// known says which node ids there are, for whoever named another one.
func (v *clusterView) known() string {
	ids := make([]int32, 0, len(v.nodes))
	for _, n := range v.nodes {
		ids = append(ids, n.Node)
	}
	return strings.ReplaceAll(joinIDs(ids), ",", ", ")
}
