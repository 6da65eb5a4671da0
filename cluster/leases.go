package cluster

import (
	"time"

	"weir/cluster/controller"
	"weir/internal/kafka"
)

// leases are the brokers' sessions as the active controller knows them. They are soft: an active controller that is new
// has heard of nobody. Times are monotonic. They belong to the control loop.
type leases struct{ controller.Leases }

func newLeases(timeout time.Duration) leases {
	return leases{controller.Leases{SessionTimeout: timeout, LastContact: map[kafka.BrokerID]time.Time{}}}
}

func (l *leases) reset() { clear(l.LastContact) }

// heard notes what a command that was granted says of its sender.
func (l *leases) heard(cmd controller.Command, now time.Time) {
	switch c := cmd.(type) {
	case controller.RegisterBroker:
		l.LastContact[c.Broker] = now
	case controller.BrokerHeartbeat:
		l.LastContact[c.Broker] = now
	}
}
