// Package gossip is hashicorp/memberlist made a source of hints: which nodes of this cluster are heard, where, and who of them is
// not heard any more. It decides nothing, and nothing that it says needs to be true: whoever has the key can say anything of
// anybody.
//
// A process gossips under a name of its own (node id and incarnation), because memberlist refuses a name that comes back from
// another address for most of a minute. What a node tells of itself is in its meta (meta.go). The roster (roster.go) makes of
// what memberlist says of processes what is said of nodes: of two processes of one node the one that began later counts.
//
// Packets and streams are encrypted with the cluster's key and bound to the cluster's id; without them nothing gets past the
// transport but a line in the log (stdlog.go). What an outsider can make this node do is bounded by the transport: it takes a
// limited number of streams at a time and of packets what fits a buffer (transport.go). What an insider can do is bounded by
// the roster: it has a limited number of names.
//
// Goroutines: memberlist's; two of the transport; one that tells the news and spreads the hint of who leads, and one that looks
// for nodes that are not heard, again and again: two halves of a cluster that were cut from each other would never meet again
// by themselves (gossip.go). Start begins them, Close ends them. Close does not wait for what memberlist itself has under way,
// a probe, which ends within seconds and touches nothing.
//
// Locks: memberlist calls the delegates while it holds its own lock, so they only take Gossip.mu, change the roster and return.
// Nothing of memberlist is called while that is held, nor is hear.
package gossip
