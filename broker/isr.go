package broker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"weir/broker/replica"
	"weir/cluster/controller"
	"weir/internal/clock"
	"weir/internal/kafka"
)

// isrTimeout is how long an answer to proposals is waited for (request.timeout.ms). Leaders ask again after that.
const isrTimeout = 30 * time.Second

// isrController is replica.ISRController over the active controller, wherever that is. Goroutines: one for each call, ended
// by Close.
type isrController struct {
	self   kafka.BrokerID
	epoch  func() kafka.BrokerEpoch
	submit func(context.Context, controller.Command) (controller.Reply, error)
	clock  clock.Clock

	ctx    context.Context // until Close
	cancel context.CancelFunc
	mu     struct {
		sync.Mutex
		closed bool
		calls  sync.WaitGroup
	}
}

var _ replica.ISRController = (*isrController)(nil)

// newISRController speaks for the broker self, whose epoch is the one of its registration. submit is cluster.Node.Submit.
func newISRController(self kafka.BrokerID, epoch func() kafka.BrokerEpoch, c clock.Clock,
	submit func(context.Context, controller.Command) (controller.Reply, error)) *isrController {
	i := &isrController{self: self, epoch: epoch, submit: submit, clock: c}
	i.ctx, i.cancel = context.WithCancel(context.Background())
	return i
}

// AlterISR implements replica.ISRController.
func (i *isrController) AlterISR(proposals []replica.ISRProposal, done func([]replica.ISRResult, error)) {
	cmd := controller.AlterPartition{Broker: i.self, Epoch: i.epoch()}
	for j := range proposals {
		cmd.Partitions = append(cmd.Partitions, isrChange(&proposals[j]))
	}
	if !i.start(func() { done(i.ask(cmd)) }) {
		done(nil, context.Canceled)
	}
}

// start runs f in a goroutine, unless it is too late for that.
func (i *isrController) start(f func()) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !i.mu.closed {
		i.mu.calls.Go(f)
	}
	return !i.mu.closed
}

// Close ends what waits for the controller, and returns when that was told.
func (i *isrController) Close() {
	i.mu.Lock()
	i.mu.closed = true
	i.mu.Unlock()
	i.cancel()
	i.mu.calls.Wait()
}

func (i *isrController) ask(cmd controller.AlterPartition) ([]replica.ISRResult, error) {
	ctx, cancel := context.WithCancel(i.ctx)
	defer cancel()
	timer := i.clock.AfterFunc(isrTimeout, cancel)
	defer timer.Stop()
	reply, err := i.submit(ctx, cmd)
	if err != nil {
		return nil, err
	}
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
