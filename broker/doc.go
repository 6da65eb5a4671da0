// Package broker composes one broker: it owns the network edge and wires everything below it together.
//
// Start, in this order, each step undone by the later ones' reverse if one fails: bind the listeners (a port in use must
// cost nothing), answer other nodes, settle with them to which cluster this one belongs (founding.go, join.go), open the logs, start
// the node of the cluster (which replays the metadata log and, by publish, opens the partitions), register this broker,
// wait a while for the coordinators to load, accept clients. A socket is bound before it is served, so a client that comes
// early waits in the backlog and is answered when the broker is usable.
//
// Stop: what this broker leads is given away while it still serves (controlled shutdown), whoever waits for records or for
// the members of a group is answered, connections are drained, the copying of partitions ends, the node stops, the logs
// are flushed and marked clean.
//
// A change of the metadata is told in one order (node.go): the ways to other brokers, replicas, coordinators, the broker's
// own settings. All of them follow the image and nothing else.
//
// What this node has to do with others (others.go) is there on a node that is alone, too, and does nothing: peers carries
// Raft and commands between members of the quorum, brokerLinks fetches and sees whether brokers' processes are there. A listener
// for others is opened when the first of them asks (peerlistener.go), and from then on at every start. Where there
// are others, the gossiper has it tell and hear hints as well (gossip.go).
//
// Stats may be asked for at any time from Open on; that is what metrics are made of.
//
// Goroutines: one Serve for each listener, one reader for each connection and what Server says of them, the tasks of
// log.Store, the loops of cluster.Node, the actors of coordinator.Runtime, those of replica.Fetchers, one for the updates of ISRs
// and one for the moves of replicas between directories, one for a lost lease (selfFence) where the settings say so, those of the
// connections to other nodes (package peer), and one of the gossiper. Close ends and awaits all of them.
//
// Locks: those of Server and its parts (see Server) and of the late listener, none of which is held while another is taken; and
// that of selfFence, before those of coordinator.Runtime.
package broker
