package broker

import (
	"net/netip"
	"sync"
	"time"
)

// refusal is the limit that a new connection met.
type refusal string

const (
	admitted         refusal = ""
	refusedByTotal   refusal = "total"
	refusedByAddress refusal = "address"
	refusedByRate    refusal = "rate"
)

var refusals = []refusal{refusedByTotal, refusedByAddress, refusedByRate}

// admission counts connections against the limits of Limits.
type admission struct {
	limits Limits
	mu     struct {
		sync.Mutex
		total     int
		byAddress map[netip.Addr]int
		// next is when the next connection may begin: a bucket of one second's connections, as a point of time.
		next time.Time
	}
}

func newAdmission(l Limits) *admission {
	a := &admission{limits: l}
	a.mu.byAddress = make(map[netip.Addr]int)
	return a
}

// admit counts one connection, which is served after delay. What is admitted leaves by leave.
func (a *admission) admit(from netip.Addr, now time.Time) (delay time.Duration, why refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.total >= a.limits.Connections {
		return 0, refusedByTotal
	}
	if from.IsValid() && !from.IsLoopback() { // what has no address comes from this host, too
		if a.mu.byAddress[from] >= a.limits.ConnectionsPerAddress {
			return 0, refusedByAddress
		}
		if delay = a.delayLocked(now); delay > maxRateDelay {
			return 0, refusedByRate
		}
	}
	a.mu.total++
	a.mu.byAddress[from]++
	return delay, admitted
}

// delayLocked says how long the next connection is held back: not at all for as many as a second may have, and then one
// after the other. What would be held too long does not count.
func (a *admission) delayLocked(now time.Time) time.Duration {
	if a.limits.ConnectionRate <= 0 {
		return 0
	}
	each := time.Second / time.Duration(a.limits.ConnectionRate)
	if full := now.Add(each - time.Second); a.mu.next.Before(full) {
		a.mu.next = full
	}
	delay := max(0, a.mu.next.Sub(now))
	if delay <= maxRateDelay {
		a.mu.next = a.mu.next.Add(each)
	}
	return delay
}

func (a *admission) leave(from netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.total--
	if a.mu.byAddress[from]--; a.mu.byAddress[from] == 0 {
		delete(a.mu.byAddress, from)
	}
}
