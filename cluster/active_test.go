package cluster

import (
	"fmt"
	"testing"

	"weir/cluster/controller"
)

// A heartbeat that waits behind the decision to fence is heard before it.
func TestFencingIsDecidedLast(t *testing.T) {
	for _, c := range []struct {
		queue []controller.Command
		want  string
	}{
		{nil, ""},
		{[]controller.Command{controller.FenceBrokers{}}, "F"},
		{[]controller.Command{controller.FenceBrokers{}, controller.BrokerHeartbeat{Broker: 1}, controller.BrokerHeartbeat{Broker: 2}}, "12F"},
		{[]controller.Command{controller.BrokerHeartbeat{Broker: 1}, controller.FenceBrokers{}, controller.BrokerHeartbeat{Broker: 2}}, "12F"},
	} {
		var a active
		for _, cmd := range c.queue {
			a.queue = append(a.queue, &submission{cmd: cmd})
		}
		a.fenceLast()
		got := ""
		for _, s := range a.queue {
			if h, is := s.cmd.(controller.BrokerHeartbeat); is {
				got += fmt.Sprint(h.Broker)
			} else {
				got += "F"
			}
		}
		if got != c.want {
			t.Errorf("%+v is decided as %s", c.queue, got)
		}
	}
}
