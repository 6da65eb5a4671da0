package peer

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"syscall"
	"time"
)

// Dialer opens a connection to an address (host:port). It returns when ctx ends.
type Dialer func(ctx context.Context, address string) (net.Conn, error)

// Dial is the Dialer of TCP. There are no keepalives: requests have their own time, and an idle connection is to cost
// nothing.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	d := net.Dialer{KeepAlive: -1}
	return d.DialContext(ctx, "tcp", address)
}

const (
	connectTimeout = 3 * time.Second // one lost SYN is sent again after 1 s
	backoffMin     = 50 * time.Millisecond
	backoffMax     = time.Second
)

// backoff is how long to wait after so many failures in a row: none before the first.
func backoff(failures int) time.Duration {
	if failures == 0 {
		return 0
	}
	return min(backoffMin<<min(failures-1, 10), backoffMax)
}

// jittered takes up to a fifth off, so that brokers that lost one at the same time do not come back at the same time.
func jittered(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return d - rand.N(d/5+1)
}

// Error numbers of Windows, which has others for sockets than syscall's.
const (
	wsaConnectionReset   = syscall.Errno(10054)
	wsaConnectionRefused = syscall.Errno(10061)
)

// isRefused reports whether the host answered that nobody listens there.
func isRefused(err error) bool {
	return errors.Is(err, syscall.ECONNREFUSED) || runtime.GOOS == "windows" && errors.Is(err, wsaConnectionRefused)
}

// isClosedByHost reports whether a read ended because the other host's kernel said so: the process closed the connection,
// or is gone.
func isClosedByHost(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || runtime.GOOS == "windows" && errors.Is(err, wsaConnectionReset)
}
