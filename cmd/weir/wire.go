package main

import (
	"log/slog"

	"weir/cluster"
	"weir/cluster/gossip"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/metrics"
)

// What only this program links, and programs that embed a broker do without, is handed to the broker from here.

// nodeGossip is cluster.Gossip by memberlist. The two packages do not know each other.
type nodeGossip struct{ *gossip.Gossip }

var _ cluster.Gossip = nodeGossip{}

func newGossip(logger *slog.Logger, registry *metrics.Registry) cluster.Gossip {
	return nodeGossip{gossip.New(gossip.Options{Clock: clock.System(), Logger: logger, Metrics: registry})}
}

// Start implements cluster.Gossip.
func (g nodeGossip) Start(self cluster.GossipSelf, key []byte, hear func(cluster.Gossiped)) (uint16, error) {
	m := self.Member
	return g.Gossip.Start(gossip.Self{
		ClusterID: self.ClusterID,
		Member: gossip.Member{Node: m.Node, RaftID: m.RaftID, Directory: m.Directory, Controller: m.Controller,
			Host: m.Host, Port: m.Port},
		Incarnation: self.Incarnation, BindHost: self.BindHost, BindPort: self.BindPort,
	}, key, func(n gossip.News) { hear(gossiped(n)) })
}

func gossiped(n gossip.News) cluster.Gossiped {
	m := n.Member
	return cluster.Gossiped{
		Member: metadata.QuorumMember{RaftID: m.RaftID, Node: m.Node, Directory: m.Directory, Host: m.Host, Port: m.Port,
			GossipPort: m.GossipPort, Controller: m.Controller},
		Incarnation: n.Incarnation, Gone: n.Gone, Leader: n.Leader, Term: n.Term,
	}
}
