package broker

import (
	"weir/broker/config"
)

// limitsOf puts the operator's settings into the edge's terms. memory is what the process may use in bytes, and most how
// many connections it may have; 0 if that is not known.
func limitsOf(c *config.Server, memory int64, most int) Limits {
	l := DefaultLimits(memory)
	l.MaxRequestBytes = c.Network.RequestMaxBytes
	if bytes := c.Limits.InFlightBytes(0); bytes > 0 { // else it goes by the memory there is
		l.InFlightBytes = bytes
	}
	l.FrameTime = c.Limits.FrameRead
	l.MinFrameRate = int64(c.Limits.FrameReadBytesPerSecond)
	l.WriteTime = c.Limits.Write
	l.IdleTime = c.Network.MaxIdle
	l.ConnectionRate = int(c.Limits.ConnectionsPerSecond)
	connections := connectionLimits(c.Dynamic(nil, nil), most)
	l.Connections, l.ConnectionsPerAddress = connections.Total, connections.PerAddress
	return l
}

// leastConnections is what each kind of limit leaves at least, so that its setting can be undone: an admin client has a
// connection to the address that it was given, and one more to the broker that it finds there.
const leastConnections = 2

// connectionLimits is what the settings mean for a process that may have most connections, 0 for any number.
func connectionLimits(d config.Dynamic, most int) ConnectionLimits {
	l := ConnectionLimits{Total: max(leastConnections, int(d.MaxConnections)), PerAddress: max(leastConnections, int(d.MaxConnectionsPerIP))}
	if most > 0 { // one more would take the descriptor of a segment that is to be opened
		l.Total = max(leastConnections, min(l.Total, most))
	}
	if len(d.MaxListenerConnections) > 0 {
		l.ByListener = make(map[string]int, len(d.MaxListenerConnections))
		for listener, n := range d.MaxListenerConnections {
			l.ByListener[listener] = max(leastConnections, int(n))
		}
	}
	return l
}
