package broker

import (
	"weir/broker/config"
)

// limitsOf puts the operator's settings into the edge's terms. memory is what the process may use in bytes, 0 if that is
// not known.
func limitsOf(c *config.Server, memory int64) Limits {
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
	dynamic := c.Dynamic(nil, nil)
	l.Connections, l.ConnectionsPerAddress = int(dynamic.MaxConnections), int(dynamic.MaxConnectionsPerIP)
	return l
}
