// Package handler answers requests: one numbered file for each API key, headed by its versions and what they changed.
//
// A handler decodes nothing and writes nothing: it gets a request that the edge has checked against the API table and
// decoded, calls the one owner of what is asked (the metadata image, the controller, a partition, the coordinator of a
// group) and returns a Reply. Handlers run in the reader goroutine of their connection, in request order.
//
// An answer that is not there yet is Later: whoever knows it completes the Pending, from a goroutine of its own. Produce and
// OffsetCommit are pipelined: the append is done, or the coordinator has the commit, when the handler returns, and the
// connection's next request starts. With all other keys the connection waits: requests of one group are Later too
// (groups.go), JoinGroup and SyncGroup for minutes perhaps. What is soon answered is waited for in place, such as a question
// to every coordinator (askAll), and so is a Fetch, which watches Request.Conn.Closed.
//
// What one request can make the broker hold is bounded: configs that are described, partitions of fetch sessions, groups
// that are told more than once (answer_size.go).
//
// Goroutines: none but one for the length of a controller command, which watches whether its client is still there.
//
// State: fetch sessions (a bounded cache behind a mutex) and the block of producer ids that the controller gave this
// broker. Both are lost at a crash, by design. Lock order: the cache of sessions, then a session; the lock of a produce
// answer stands alone. None is held across a call out, but for the turn to ask for producer ids.
package handler
