package controller

import "weir/internal/kafka"

// UnregisterBroker ends the registration of a broker, and its part in every ISR and ELR. It may register again as long as it is
// a member of the quorum. Errors: BROKER_ID_NOT_REGISTERED.
type UnregisterBroker struct{ Broker kafka.BrokerID }

// UnregisterBrokerReply has nothing to say.
type UnregisterBrokerReply struct{}

func (UnregisterBroker) command() {}

func (UnregisterBrokerReply) reply() {}
