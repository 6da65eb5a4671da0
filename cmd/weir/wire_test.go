package main

import (
	"bytes"
	"log/slog"
	"net"
	"strconv"
	"testing"
	"time"

	"weir/cluster"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/internal/metrics"
)

// What a node says of itself arrives as it was said.
func TestGossipOfTwoNodes(t *testing.T) {
	key := bytes.Repeat([]byte{1}, metadata.GossipKeySize)
	var heard [2]chan cluster.Gossiped
	var nodes [2]cluster.Gossip
	var selves [2]cluster.GossipSelf
	for i := range nodes {
		selves[i] = cluster.GossipSelf{ClusterID: "cluster", Incarnation: kafka.NewUUID(), BindHost: "127.0.0.1", Member: metadata.QuorumMember{
			RaftID: uint64(100 + i), Node: kafka.BrokerID(i), Directory: kafka.NewUUID(), Host: "127.0.0.1", Port: uint16(9000 + i), Controller: i == 0}}
		heard[i] = make(chan cluster.Gossiped, 100)
		nodes[i] = newGossip(slog.New(slog.DiscardHandler), metrics.NewRegistry())
		nodes[i].Hint(uint64(100+i), 5)
		port, err := nodes[i].Start(selves[i], key, func(g cluster.Gossiped) { heard[i] <- g })
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = nodes[i].Close() }()
		selves[i].Member.GossipPort = port
	}
	nodes[0].Meet([]string{net.JoinHostPort("127.0.0.1", strconv.Itoa(int(selves[1].Member.GossipPort)))})
	for i := range nodes {
		other := selves[1-i]
		want := cluster.Gossiped{Member: other.Member, Incarnation: other.Incarnation, Leader: other.Member.RaftID, Term: 5}
		select {
		case got := <-heard[i]:
			if got != want {
				t.Errorf("heard %+v, want %+v", got, want)
			}
		case <-time.After(time.Minute):
			t.Fatalf("node %d hears nothing", i)
		}
	}
}
