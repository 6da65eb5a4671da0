package cluster

import (
	"fmt"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// Registration is what this broker says of itself.
type Registration struct {
	Incarnation kafka.UUID // random, another one at each start
	Listeners   []metadata.Endpoint
	Rack        string
	Directories []kafka.DirectoryID
	// PreviousEpoch is the epoch of the incarnation whose logs this one has whole; -1 where that is not known.
	PreviousEpoch kafka.BrokerEpoch
}

// register makes this broker a member: the quorum's first step, the first decisions of a new cluster and the registration,
// all in one go, so that they become one entry; when that is published, the heartbeat that unfences it. done is called
// when it is unfenced and that is published, or with why not.
func (n *Node) register(done func(error)) {
	initialize := &submission{controller.Initialize{ClusterID: n.o.ClusterID}, func(_ controller.Reply, err error) {
		if err != nil {
			done(fmt.Errorf("initialize the cluster: %w", err))
		}
	}}
	register := &submission{controller.RegisterBroker{
		ClusterID: n.o.ClusterID, Broker: n.o.Self, Incarnation: n.o.Registration.Incarnation, Listeners: n.o.Registration.Listeners,
		Rack: n.o.Registration.Rack, Directories: n.o.Registration.Directories, PreviousEpoch: n.o.Registration.PreviousEpoch,
	}, func(reply controller.Reply, err error) {
		if err != nil {
			done(fmt.Errorf("register broker %d: %w", n.o.Self, err))
			return
		}
		epoch := reply.(controller.RegisterBrokerReply).Epoch
		n.epoch.Store(int64(epoch))
		n.unfence(epoch, done)
	}}
	n.events.put(event{quorum: quorum.Tick{}}, event{submit: initialize}, event{submit: register})
}

// Registered returns the epoch that this incarnation is registered in. ok is false if it never was; a Start that failed may
// have come so far.
func (n *Node) Registered() (epoch kafka.BrokerEpoch, ok bool) {
	epoch = kafka.BrokerEpoch(n.epoch.Load())
	return epoch, epoch != notRegistered
}

const notRegistered = -1

// unfence runs when the registration is published: its index is what the broker has caught up with.
func (n *Node) unfence(epoch kafka.BrokerEpoch, done func(error)) {
	n.submit(controller.BrokerHeartbeat{Broker: n.o.Self, Epoch: epoch, MetadataOffset: n.Image().Index}, func(reply controller.Reply, err error) {
		if err == nil && reply.(controller.BrokerHeartbeatReply).Fenced {
			err = fmt.Errorf("the controller does not unfence it")
		}
		if err != nil {
			err = fmt.Errorf("unfence broker %d: %w", n.o.Self, err)
		}
		done(err)
	})
}
