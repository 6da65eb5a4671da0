// Package handler answers requests: one numbered file for each API key, headed by its versions and what they changed.
//
// A handler decodes nothing and writes nothing: it gets a request that the edge has checked against the API table and
// decoded, calls the one owner of what is asked (the metadata image, the controller, a partition) and returns a Reply.
// Handlers run in the reader goroutine of their connection, in request order. Those of pipelined keys (Produce) return
// Later when the answer is not there yet; all others may wait in place, watching Request.Conn.Closed.
//
// Goroutines: none but one for the length of a controller command, which watches whether its client is still there.
//
// State: fetch sessions (a bounded cache behind a mutex) and the block of producer ids that the controller gave this
// broker. Both are lost at a crash, by design. Lock order: the cache of sessions, then a session; the lock of a produce
// answer stands alone. None is held across a call out, but for the turn to ask for producer ids.
package handler
