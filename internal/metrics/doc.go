// Package metrics counts what a broker does: counters, gauges and histograms of fixed buckets, in families that have a
// name and labels as Prometheus knows them. It depends on nothing and exports nothing over the network; cmd/weir turns
// Families into text.
//
// A metric is found once, by name and labels, and kept where it is counted; counting is one atomic add and never
// allocates. Everything is safe for concurrent use. No goroutines.
package metrics
