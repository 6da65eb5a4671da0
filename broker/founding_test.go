package broker

import (
	"testing"

	"weir/broker/config"
	"weir/cluster"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

func TestVotersAreWhoTheySayTheyAre(t *testing.T) {
	heard := map[string]*cluster.Hello{"h:1": {Member: metadata.QuorumMember{Node: 1}}, "h:2": nil}
	for _, c := range []struct {
		voters []config.Voter
		want   kafka.Code
	}{
		{[]config.Voter{{ID: 1, Host: "h", Port: 1}, {ID: 2, Host: "h", Port: 2}}, kafka.None},
		{[]config.Voter{{ID: kafka.NoBroker, Host: "h", Port: 1}}, kafka.None},
		{[]config.Voter{{ID: 1, Host: "h", Port: 1}, {ID: 2, Host: "h", Port: 1}}, kafka.InvalidConfig},
	} {
		if err := checkIDs(c.voters, heard); err != nil && kafka.CodeOf(err) != c.want || err == nil && c.want != kafka.None {
			t.Errorf("%v: %v", c.voters, err)
		}
	}
}
