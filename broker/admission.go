package broker

import (
	"net/netip"
	"sync"
	"time"
)

// refusal is the limit that a new connection met.
type refusal string

const (
	admitted          refusal = ""
	refusedByTotal    refusal = "total"
	refusedByListener refusal = "listener"
	refusedByAddress  refusal = "address"
	refusedByRate     refusal = "rate"
)

var refusals = []refusal{refusedByTotal, refusedByListener, refusedByAddress, refusedByRate}

// admission counts connections against the limits of Limits.
type admission struct {
	rate int // Limits.ConnectionRate
	mu   struct {
		sync.Mutex
		limits     ConnectionLimits
		total      int
		byListener map[string]int
		byAddress  map[netip.Addr]int
		// next is when the next connection may begin: a bucket of one second's connections, as a point of time.
		next time.Time
	}
}

func newAdmission(l Limits) *admission {
	a := &admission{rate: l.ConnectionRate}
	a.mu.limits = ConnectionLimits{Total: l.Connections, PerAddress: l.ConnectionsPerAddress}
	a.mu.byListener, a.mu.byAddress = make(map[string]int), make(map[netip.Addr]int)
	return a
}

func (a *admission) setLimits(l ConnectionLimits) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.limits = l
}

// admit counts one connection, which is served after delay. What is admitted leaves by leave.
func (a *admission) admit(from netip.Addr, listener string, now time.Time) (delay time.Duration, why refusal) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.mu.total >= a.mu.limits.Total {
		return 0, refusedByTotal
	}
	if most, ok := a.mu.limits.ByListener[listener]; ok && a.mu.byListener[listener] >= most {
		return 0, refusedByListener
	}
	if from.IsValid() && !from.IsLoopback() { // what has no address comes from this host, too
		if a.mu.byAddress[from] >= a.mu.limits.PerAddress {
			return 0, refusedByAddress
		}
		if delay = a.delayLocked(now); delay > maxRateDelay {
			return 0, refusedByRate
		}
	}
	a.mu.total++
	a.mu.byListener[listener]++
	a.mu.byAddress[from]++
	return delay, admitted
}

// delayLocked says how long the next connection is held back: not at all for as many as a second may have, and then one
// after the other. What would be held too long does not count.
func (a *admission) delayLocked(now time.Time) time.Duration {
	if a.rate <= 0 {
		return 0
	}
	each := time.Second / time.Duration(a.rate)
	if full := now.Add(each - time.Second); a.mu.next.Before(full) {
		a.mu.next = full
	}
	delay := max(0, a.mu.next.Sub(now))
	if delay <= maxRateDelay {
		a.mu.next = a.mu.next.Add(each)
	}
	return delay
}

func (a *admission) leave(from netip.Addr, listener string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.total--
	a.mu.byListener[listener]--
	if a.mu.byAddress[from]--; a.mu.byAddress[from] == 0 {
		delete(a.mu.byAddress, from)
	}
}
