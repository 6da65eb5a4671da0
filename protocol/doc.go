// Package protocol is Kafka's wire without sockets.
//
// kmsg encodes and decodes the messages. What it lacks is here: THE table of API keys (apis.go), which nothing else may
// repeat a version of; length-prefixed frames with limits (frame.go) in pooled buffers (buffer.go); request and response
// headers (header.go, response.go); the answer to ApiVersions (apiversions.go); the response of Fetch (fetchencode.go),
// written by hand because its records go out from files without passing through memory; and the one key that is not
// Kafka's, by which the nodes of a cluster talk to each other (peer.go).
//
// Order of use, which is what makes hostile bytes cheap: size of the frame, key and version against the table, limit of
// that key, body as it arrives, cost of decoding, decoding. kmsg checks none of the first three and allocates by the
// counts that a message claims (DecodeCost bounds that).
//
// A frame's buffer is owned by its request until the reply is written: kmsg aliases byte fields always, and the strings
// of Produce too. Encoding copies.
//
// No goroutines, and no state but the buffer pools; everything but a FrameReader is safe for concurrent use.
package protocol
