// Package handler answers requests: one numbered file for each API key, headed by its versions and what they changed.
//
// A handler decodes nothing and writes nothing: it gets a request that the edge has checked against the API table and
// decoded, calls the one owner of what is asked (the metadata image, the controller, a partition) and returns a Reply.
// Handlers run in the reader goroutine of their connection, in request order. Those of pipelined keys (Produce) return
// Later when the answer is not there yet; all others may wait in place, watching Request.Conn.Closed.
//
// State: fetch sessions (a bounded cache behind a mutex) and the block of producer ids that the controller gave this
// broker. Both are lost at a crash, by design. Lock order: a session before nothing; no lock is held across a call out.
package handler
