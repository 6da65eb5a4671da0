package controller

import (
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// Testimony replaces what the active controller's own node, self, saw of other brokers' processes. Where that node is a
// broker too, its heartbeats say the same, and it is one witness.
func (l *Leases) Testimony(img *metadata.Image, self kafka.BrokerID, gone []UnreachableBroker) {
	l.testimony(img, self, gone)
}
