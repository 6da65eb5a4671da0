package cluster

import (
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// Peers carries what this node says to others. None of its methods blocks; whatever it carries may be lost, be late, or
// come twice. It is satisfied in package broker, and by simulations.
type Peers interface {
	quorum.Transport
	// SetMembers says who is behind which Raft id, and where; called whenever that changed.
	SetMembers([]metadata.QuorumMember)
	// Submit has another node decide a command, if that is the active controller. done is told once, from any goroutine.
	// Errors: NOT_CONTROLLER, whatever the command's errors are, and those of the connection.
	Submit(to metadata.QuorumMember, cmd controller.Command, done func(Answer, error))
}

// Answer is a command's reply, with the index of the image in which it is true.
type Answer struct {
	Reply controller.Reply
	Index int64
}

// Evidence is what this node saw of another broker's process.
type Evidence struct {
	Broker kafka.BrokerID
	Epoch  kafka.BrokerEpoch
	// Gone: its own host closed the connection and refused a new one. False takes an earlier sighting back.
	Gone bool
}
