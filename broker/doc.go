// Package broker composes one broker: it owns the network edge and wires everything below it together.
//
// Start, in this order, each step undone by the later ones' reverse if one fails: bind the listeners (a port in use must
// cost nothing), open the logs, start the node of the cluster (which replays the metadata log and, by publish, opens the
// partitions), register this broker, wait a while for the coordinators to load, accept connections. A socket is bound
// before it is served, so a client that comes early waits in the backlog and is answered when the broker is usable.
//
// Stop: whoever waits for records or for the members of a group is answered, connections are drained, the node stops, the
// logs are flushed and marked clean.
//
// A change of the metadata is told in one order (node.go): replicas, coordinators, the broker's own settings. All three
// follow the image and nothing else.
//
// Stats may be asked for at any time from Open on; that is what metrics are made of.
//
// Goroutines: one Serve for each listener, one reader for each connection and what Server says of them, the tasks of
// log.Store, the loops of cluster.Node and the actors of coordinator.Runtime. Close ends and awaits all of them.
//
// Locks: those of Server and its parts alone (see Server), none of which is held while another is taken.
package broker
