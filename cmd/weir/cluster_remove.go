package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func newClusterRemoveCommand(flags *clientFlags) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "remove NODE",
		Short: "Take a node out of the cluster for good",
		Long: `Take a node out of the cluster for good: its registration as a broker, and its place in the quorum. Its data directory is not
welcome again; with an empty one it may join as a new node.

A node that holds replicas, or is up, is not removed: drain it and stop it first. With --force it is all the same: for a
machine that will not come back. Its replicas stay missing then until they are placed elsewhere (` + "`weir cluster drain`" + ` before it is
removed, or a reassignment afterwards).`,
		Args: positional(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, err := parseNode(args[0])
			if err != nil {
				return err
			}
			return flags.request(cmd, func(ctx context.Context, client *kgo.Client) error {
				return removeNode(ctx, cmd, client, node, force)
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "remove it though it holds replicas, or is up")
	return cmd
}

func removeNode(ctx context.Context, cmd *cobra.Command, client *kgo.Client, id int32, force bool) error {
	v, err := viewCluster(ctx, client)
	if err != nil {
		return err
	}
	n := v.node(id)
	if n == nil {
		return fmt.Errorf("there is no node %d; there are %s", id, v.known())
	}
	if err := n.removable(); err != nil && !force {
		return err
	}
	// The quorum first: that may be refused, and then nothing has happened.
	member := n.Role != ""
	if member {
		if err := removeMember(ctx, client, v.id, n); err != nil {
			return fmt.Errorf("removing node %d from the quorum: %w", id, err)
		}
	}
	if err := unregister(ctx, client, id, member); err != nil {
		return fmt.Errorf("unregistering broker %d: %w", id, err)
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Removed node %d.\n", id)
	return nil
}

// removable says why a node is not to be removed without force.
func (n *clusterNode) removable() error {
	switch {
	case n.up() && n.Replicas > 0:
		return fmt.Errorf("node %d is up and holds %d replicas: `weir cluster drain %d` first, then stop it (or --force)", n.Node, n.Replicas, n.Node)
	case n.up():
		return fmt.Errorf("node %d is up: stop it first (or --force)", n.Node)
	case n.Replicas > 0:
		return fmt.Errorf("node %d holds %d replicas: `weir cluster drain %d` first (or --force)", n.Node, n.Replicas, n.Node)
	}
	return nil
}

// removeMember takes a node out of the quorum. Kafka knows only voters there.
func removeMember(ctx context.Context, client *kgo.Client, cluster string, n *clusterNode) error {
	req := kmsg.NewPtrRemoveRaftVoterRequest()
	req.ClusterID, req.VoterID, req.VoterDirectoryID = &cluster, n.Node, n.directory
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if err := errorOf(resp.ErrorCode); err != nil && !(errors.Is(err, kerr.VoterNotFound) && n.Role == roleLearner) {
		return brokerError("the controller refuses", err, textOf(resp.ErrorMessage))
	}
	return nil
}

// unregister ends the registration of a broker; where it went with the member there is none.
func unregister(ctx context.Context, client *kgo.Client, id int32, gone bool) error {
	req := kmsg.NewPtrUnregisterBrokerRequest()
	req.BrokerID = id
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return err
	}
	if err := errorOf(resp.ErrorCode); err != nil && !(errors.Is(err, kerr.BrokerIDNotRegistered) && gone) {
		return brokerError("the controller refuses", err, textOf(resp.ErrorMessage))
	}
	return nil
}
