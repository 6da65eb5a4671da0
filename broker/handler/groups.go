package handler

import (
	"encoding/binary"
	"net/netip"
	"strconv"
	"sync"

	"weir/cluster/metadata"
	"weir/coordinator"
	"weir/internal/kafka"
	"weir/protocol"
)

// Groups is the coordinator of groups on this broker; *coordinator.Runtime is one.
type Groups interface {
	Submit(group string, c *coordinator.Call)
	SubmitTo(partition int32, c *coordinator.Call)
	Owned() []int32
}

// askGroup has a group's coordinator answer, now or later. Where it does not, refused makes the answer. That the client
// leaves changes nothing for the group, as in Kafka: it may have asked for its last will.
func (h *Handlers) askGroup(r *Request, group string, body any, refused func(kafka.Code) protocol.Body) Reply {
	return h.askGroupFor(r, group, body, func(answer any, err error) protocol.Body {
		if err != nil {
			return refused(kafka.CodeOf(err))
		}
		return answer.(protocol.Body)
	})
}

// askGroupFor is askGroup where the coordinator's answer is not yet that of the request.
func (h *Handlers) askGroupFor(r *Request, group string, body any, reply func(answer any, err error) protocol.Body) Reply {
	p := NewPending()
	h.Groups.Submit(group, groupCall(r, body, func(answer any, err error) { p.Complete(reply(answer, err)) }))
	return Later(p)
}

func groupCall(r *Request, body any, done func(any, error)) *coordinator.Call {
	c := &coordinator.Call{Body: body, ClientHost: clientHost(r.Conn.Remote.Addr()), Done: done}
	if r.Header.ClientID != nil {
		c.ClientID = *r.Header.ClientID
	}
	return c
}

// maxAskedTogether bounds what one request has in the coordinators' mailboxes.
const maxAskedTogether = 64

// askAll asks n things of the coordinators and returns when all are answered, which is soon: none of them waits for
// somebody else. done(i) is told the answer to the question i, by any goroutine, for different i at the same time.
func askAll(n int, ask func(i int, done func(any, error)), done func(i int, answer any, err error)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, maxAskedTogether)
	all.Add(n)
	for i := range n {
		slots <- struct{}{}
		ask(i, func(answer any, err error) {
			done(i, answer, err)
			<-slots
			all.Done()
		})
	}
	all.Wait()
}

// clientHost is an address as Java's InetAddress writes it: that is how members are described.
func clientHost(a netip.Addr) string {
	a = a.Unmap()
	if a.Is4() || !a.IsValid() {
		return "/" + a.String()
	}
	b := a.As16()
	out := make([]byte, 0, 48)
	for i := 0; i < len(b); i += 2 {
		out = append(out, "/:"[min(i, 1)])
		out = strconv.AppendUint(out, uint64(binary.BigEndian.Uint16(b[i:])), 16)
	}
	if zone := a.Zone(); zone != "" {
		out = append(append(out, '%'), zone...)
	}
	return string(out)
}

// partitionExists reports whether a request may name that partition.
func partitionExists(t *metadata.Topic, partition int32) bool {
	return t != nil && t.Partition(partition) != nil
}
