package peer

import (
	"errors"
	"fmt"

	"weir/internal/kafka"
)

// ConnectionError is why a request has no answer: the connection could not be made, ended, or gave none in time.
type ConnectionError struct {
	Address string
	// Sent says that the request may have reached the broker: what became of it is open.
	Sent bool
	Err  error
}

// Error names the address.
func (e *ConnectionError) Error() string { return fmt.Sprintf("broker at %s: %v", e.Address, e.Err) }

// Unwrap returns what happened.
func (e *ConnectionError) Unwrap() error { return e.Err }

// Code is NETWORK_EXCEPTION, or REQUEST_TIMED_OUT where the answer was overdue.
func (e *ConnectionError) Code() kafka.Code {
	if errors.Is(e.Err, errOverdue) {
		return kafka.RequestTimedOut
	}
	return kafka.NetworkException
}

// Why connections end, or requests are not taken.
var (
	ErrClosed    = errors.New("the connections to other brokers are closed")
	ErrQueueFull = errors.New("too much waits to be sent to the broker already")
	ErrNoAddress = errors.New("no address of the broker is known")

	errOverdue    = errors.New("the answer is overdue")
	errMoved      = errors.New("its address changed")
	errPeerClosed = errors.New("it closed the connection")
	errUnasked    = errors.New("it sent an answer that nobody waits for")
)

// frameError is an answer that cannot be one. The connection ends: where the next begins is unknown.
type frameError struct {
	size, limit int
}

func (e *frameError) Error() string {
	return fmt.Sprintf("it sent an answer of %d bytes, where there can be 4 to %d", e.size, e.limit)
}

// orderError is an answer to another request than the one whose turn it is.
type orderError struct{ got, want int32 }

func (e *orderError) Error() string {
	return fmt.Sprintf("it answered request %d, and request %d was its turn", e.got, e.want)
}
