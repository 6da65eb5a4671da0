package controller

import (
	"bytes"
	"fmt"
	"strings"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// The commands by which nodes come and go.
func (w *world) nodeCommand(verb string, ws words) Command {
	switch verb {
	case "join": // join [NODE] dir= [cluster=]
		c := JoinNode{ClusterID: ws.get("cluster", "c1"), Directory: directory(ws.get("dir", "0")), Node: kafka.NoBroker}
		if ws.named {
			c.Node = broker(ws.name)
		}
		return c
	case "unregister":
		return UnregisterBroker{Broker: broker(ws.name)}
	case "remove": // remove NODE dir= [cluster=]
		return RemoveMember{ClusterID: ws.get("cluster", "c1"), Node: broker(ws.name), Directory: directory(ws.get("dir", "0"))}
	case "key": // key LETTER [bytes=]
		return SetGossipKey{Key: bytes.Repeat([]byte(ws.name), int(number(ws.get("bytes", fmt.Sprint(metadata.GossipKeySize)))))}
	}
	panic("unknown command " + verb)
}

// nodes lists what is known of them: ids that were given, and the members of the quorum that were replaced.
func (w *world) nodes() string {
	var out strings.Builder
	for n := range w.img.Nodes.All() {
		fmt.Fprintf(&out, "  node %d", n.ID)
		if !n.Directory.IsZero() {
			fmt.Fprintf(&out, " dir=%d", n.Directory[15])
		}
		if n.Removed {
			out.WriteString(" removed")
		}
		out.WriteString("\n")
	}
	for _, m := range Superseded(w.img) {
		fmt.Fprintf(&out, "  superseded %s\n", describeMember(m))
	}
	return out.String()
}

// rumour is what gossip says: BROKER gone=, or BROKER alive=, [of=INCARNATION].
func (w *world) rumour(ws words) string {
	id := broker(ws.name)
	w.leases.Rumour(w.img, id, kafka.UUID{0: 9, 14: byte(number(ws.get("of", "1"))), 15: byte(id)}, ws.has("gone"))
	return ""
}
