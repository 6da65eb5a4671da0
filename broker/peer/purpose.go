package peer

import "time"

// Purpose is what a connection is for. Connections of one broker are told apart by it.
type Purpose struct {
	Traffic Traffic
	Shard   int // numbers several of one kind, such as a broker's fetchers
}

// Traffic is a kind of requests that go over a connection of their own.
type Traffic uint8

// The kinds.
const (
	Raft       Traffic = iota // small and urgent
	Snapshots                 // pieces of 1 MiB
	Heartbeats                // must not stand behind what waits for a decision
	Commands                  // what the active controller is to decide
	Fetches                   // one connection for each fetcher
	Queries                   // about what another broker leads
)

// limits bound a connection.
type limits struct {
	name             string        // of the client, in the other broker's logs
	timeout          time.Duration // from writing a request to its answer; then the connection is closed
	maxResponseBytes int
	maxQueuedBytes   int // that wait to be written; one request always may
	maxRequests      int // that wait to be written or answered
}

const maxPeerResponseBytes = 32 << 20

// The timeout of Raft is a few elections: the answer comes as soon as the messages are taken, and a connection that leads
// nowhere any more must not outlive that. That of heartbeats is half a broker's session (broker.session.timeout.ms), so
// that a second one may come in time. That of commands is a few of the tries that package cluster makes of one: after that
// the way is lost, not the answer. Fetches do not wait for replica.socket.timeout.ms (30 s): a follower whose request a cut
// link has swallowed is back in the ISR soon after, by other partitions, and must not hold the high watermark back then.
var trafficLimits = [...]limits{
	Raft:       {name: "raft", timeout: 5 * time.Second, maxResponseBytes: 64 << 10, maxQueuedBytes: 32 << 20, maxRequests: 1024},
	Snapshots:  {name: "snapshot", timeout: 30 * time.Second, maxResponseBytes: 64 << 10, maxQueuedBytes: 4 << 20, maxRequests: 16},
	Heartbeats: {name: "heartbeat", timeout: 4500 * time.Millisecond, maxResponseBytes: maxPeerResponseBytes, maxQueuedBytes: 1 << 20, maxRequests: 16},
	Commands:   {name: "command", timeout: 10 * time.Second, maxResponseBytes: maxPeerResponseBytes, maxQueuedBytes: 64 << 20, maxRequests: 10_000},
	Fetches:    {name: "fetcher", timeout: 10 * time.Second, maxResponseBytes: maxPeerResponseBytes, maxQueuedBytes: 16 << 20, maxRequests: 16},
	Queries:    {name: "query", timeout: 10 * time.Second, maxResponseBytes: maxPeerResponseBytes, maxQueuedBytes: 16 << 20, maxRequests: 10_000},
}
