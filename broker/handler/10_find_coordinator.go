package handler

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// FindCoordinator: v0–6
//   - v1: a type of key. v4: many keys (KIP-699). v6: share groups.
//
// The coordinator of a group leads the partition of __consumer_offsets that the group's id belongs to. Where that topic does not
// exist it is made first, so that the very first consumer needs not ask again. Coordinators of transactions and of share
// groups do not exist here; the answer is one that no client repeats.

// Types of key.
const (
	groupCoordinator       int8 = 0
	transactionCoordinator int8 = 1
	shareCoordinator       int8 = 2
)

// Texts of Kafka. Before v4 it names even the code that says that all is well; from there on it is silent, but for types
// that do not exist.
const (
	textNone         = "NONE"
	textNotAvailable = "The coordinator is not available."
)

func (h *Handlers) findCoordinator(r *Request, req *kmsg.FindCoordinatorRequest) Reply {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if req.CoordinatorType == groupCoordinator && byName(h.Image(), kafka.ConsumerOffsetsTopic) == nil {
		h.autoCreate(r, []string{kafka.ConsumerOffsetsTopic})
	}
	if req.Version < 4 {
		c := h.coordinatorOf(r, req.CoordinatorType, req.CoordinatorKey)
		resp.ErrorCode, resp.NodeID, resp.Host, resp.Port = c.ErrorCode, c.NodeID, c.Host, c.Port
		texts := map[kafka.Code]string{kafka.None: textNone, kafka.CoordinatorNotAvailable: textNotAvailable, kafka.InvalidRequest: invalidRequestText}
		resp.ErrorMessage = nullable(texts[kafka.Code(c.ErrorCode)])
		return Now(resp)
	}
	resp.Coordinators = make([]kmsg.FindCoordinatorResponseCoordinator, len(req.CoordinatorKeys))
	for i, key := range req.CoordinatorKeys {
		resp.Coordinators[i] = h.coordinatorOf(r, req.CoordinatorType, key)
		resp.Coordinators[i].Key = key
	}
	return Now(resp)
}

func (h *Handlers) coordinatorOf(r *Request, kind int8, key string) kmsg.FindCoordinatorResponseCoordinator {
	c := kmsg.NewFindCoordinatorResponseCoordinator()
	c.NodeID, c.Port, c.ErrorMessage = int32(kafka.NoBroker), -1, new("")
	if kind != groupCoordinator {
		c.ErrorCode = int16(kafka.InvalidRequest)
		if kind != transactionCoordinator && kind != shareCoordinator {
			c.ErrorMessage = new(invalidRequestText)
		}
		return c
	}
	e, leader, ok := h.groupCoordinator(r, key)
	if !ok {
		c.ErrorCode = int16(kafka.CoordinatorNotAvailable)
		return c
	}
	c.NodeID, c.Host, c.Port = int32(leader), e.Host, int32(e.Port)
	return c
}

// groupCoordinator finds who leads the partition of a group, if it is alive and reached by that listener.
func (h *Handlers) groupCoordinator(r *Request, key string) (e address, leader kafka.BrokerID, ok bool) {
	img := h.Image()
	t := byName(img, kafka.ConsumerOffsetsTopic)
	if t == nil {
		return address{}, kafka.NoBroker, false
	}
	leader = t.Partitions[coordinator.PartitionFor(key, int32(len(t.Partitions)))].Leader
	e, ok = liveEndpoint(img, leader, r.Conn.Listener)
	return e, leader, ok
}
