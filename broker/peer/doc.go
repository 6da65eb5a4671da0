// Package peer is how a broker talks to the others of its cluster, and how it notices that one of them is gone.
//
// A Client is one connection to one broker for one purpose: requests are written in the order of Send, and answers come in
// that order (both are Kafka's), matched by correlation id. Send never blocks: it encodes, queues, and refuses what does
// not fit. A connection is made when there is something to send, closed when an answer is overdue, and made anew after a
// pause that grows from 50 ms to 1 s, or at once when the broker's address changes. What was on its way is not sent again:
// only whoever asked knows whether that is safe. A Pool has the clients of all brokers.
//
// Purposes do not share connections: a fetch of 10 MiB must not stand before a Raft message, nor a command that waits
// before a heartbeat. Versions are not negotiated: both ends are Weirs, and speak what the callers chose.
//
// What peers send is not trusted: frames are bounded, memory follows what arrives and not what is claimed, every decoder
// ends with its input. A peer that breaks the protocol loses the connection.
//
// A Watcher keeps one idle connection to every broker. When that is closed by the broker's own host and a new one is
// refused, the process is gone; whatever is merely silent is not. Witness is the rule, without sockets.
//
// Answers of Fetch are read into memory that the caller lends and uses again, and are decoded in place (FetchResponse):
// records are copied once, from the socket.
//
// Goroutines: two for each Client, one of which runs only while there is a connection (Client.run, connection.read); two
// for each watched broker likewise (watch.run, watch.attempt). Close of Pool and Watcher waits for them. Callbacks (done,
// Observe) run in them and must not block, nor call Close.
//
// Locks: Pool's, Client's and Watcher's. Pool's is taken before a Client's; none is held across a call of the network or a
// callback.
package peer
