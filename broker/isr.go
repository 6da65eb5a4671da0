package broker

import (
	"fmt"

	"weir/broker/replica"
	"weir/cluster/controller"
	"weir/internal/kafka"
)

// isrController is replica.ISRController over the active controller, wherever that is.
type isrController struct {
	self   kafka.BrokerID
	epoch  func() kafka.BrokerEpoch // of the registration of self
	submit func(controller.Command, func(controller.Reply, error))
}

var _ replica.ISRController = isrController{}

// AlterISR implements replica.ISRController. It is for the node to end what waits in vain.
func (i isrController) AlterISR(proposals []replica.ISRProposal, done func([]replica.ISRResult, error)) {
	cmd := controller.AlterPartition{Broker: i.self, Epoch: i.epoch()}
	for j := range proposals {
		cmd.Partitions = append(cmd.Partitions, isrChange(&proposals[j]))
	}
	i.submit(cmd, func(reply controller.Reply, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(isrResults(cmd, reply))
	})
}

func isrResults(cmd controller.AlterPartition, reply controller.Reply) ([]replica.ISRResult, error) {
	r, ok := reply.(controller.AlterPartitionReply)
	if !ok || len(r.Partitions) != len(cmd.Partitions) {
		return nil, fmt.Errorf("the controller answers %d changes of ISRs with %+v", len(cmd.Partitions), reply)
	}
	results := make([]replica.ISRResult, len(r.Partitions))
	for j := range r.Partitions {
		a, c := &r.Partitions[j], &cmd.Partitions[j]
		if a.TopicID != c.TopicID || a.Partition != c.Partition {
			return nil, fmt.Errorf("the controller answers partition %d of topic %v where partition %d of %v was asked", a.Partition, a.TopicID, c.Partition, c.TopicID)
		}
		results[j] = replica.ISRResult{Code: a.Code, Leader: a.Leader, LeaderEpoch: a.LeaderEpoch, PartitionEpoch: a.PartitionEpoch, ISR: a.ISR, RecoveryState: a.RecoveryState}
	}
	return results, nil
}

func isrChange(p *replica.ISRProposal) controller.ISRChange {
	c := controller.ISRChange{TopicID: p.TopicID, Partition: p.Partition, LeaderEpoch: p.LeaderEpoch, PartitionEpoch: p.PartitionEpoch, RecoveryState: p.RecoveryState}
	for _, m := range p.ISR {
		c.ISR = append(c.ISR, controller.ISRMember{Broker: m.Broker, Epoch: m.Epoch})
	}
	return c
}
