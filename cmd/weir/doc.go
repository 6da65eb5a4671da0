// Command weir is a message broker that speaks Apache Kafka's wire protocol, and a client for any broker that does.
//
// main.go picks the verb and is the only place that exits; every verb has a file of its own. serve.go and its wiring
// are the server, and quorum_recover.go works on the data directory of a node that is stopped; all other verbs are clients that speak
// Kafka's protocol and nothing else, so they work against any Kafka-compatible broker. Of the broker they use the table of settings
// (broker/config), to explain and to check names.
// Only they import a client library, which calls a group member's functions from goroutines of its own (consume_group.go);
// produce.go has two, one that reads and one that watches.
//
// Beside the broker, where that is asked for, http.go serves metrics, health and profiles: a goroutine for each address and
// those of net/http, which all end before the process does. http_metrics.go and http_kafka.go are one collector, which
// makes Prometheus' metrics of broker.Stats and of what the broker counts (docs/metrics.md). HTTP is there before the broker
// is open and until it has stopped. Locks guard a few fields each (the producer's progress, what --exit waits for, lines that
// were said), and are held while nothing else is done.
//
// Exit codes: 0 the verb did what was asked; 1 it failed; 2 the command line or the configuration is wrong, and
// nothing was done.
package main
