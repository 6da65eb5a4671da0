package cluster

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

var founderAddresses = []string{"h1:1", "h2:1", "h3:1"}

func founder(id kafka.BrokerID, change ...func(*Hello)) *Hello {
	h := &Hello{Controller: true, Voters: founderAddresses,
		Member: metadata.QuorumMember{RaftID: uint64(100 * id), Node: id, Directory: kafka.UUID{byte(id)}, Host: fmt.Sprintf("h%d", id), Port: 1}}
	for _, f := range change {
		f(h)
	}
	return h
}

func heardFrom(hellos ...*Hello) map[string]*Hello {
	heard := map[string]*Hello{}
	for i, h := range hellos {
		if h != nil {
			heard[founderAddresses[i]] = h
		}
	}
	return heard
}

func (f Founding) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cluster=%s", f.ClusterID)
	for _, m := range f.Founders {
		fmt.Fprintf(&b, " founder=%d", m.Node)
	}
	for _, m := range f.Join {
		fmt.Fprintf(&b, " via=%d", m.Node)
	}
	if f.Wait != "" {
		return "wait " + f.Wait
	}
	return b.String()
}

func TestDecideFounding(t *testing.T) {
	named := func(id string) func(*Hello) { return func(h *Hello) { h.ClusterID = id } }
	founded := func(by ...*Hello) func(*Hello) {
		return func(h *Hello) {
			h.ClusterID, h.Founded = "c", true
			for _, f := range by {
				h.Founders = append(h.Founders, f.Member)
			}
		}
	}
	knows := func(others ...*Hello) func(*Hello) {
		return func(h *Hello) {
			for _, o := range others {
				h.Members = append(h.Members, o.Member)
			}
		}
	}
	brokerOnly := func(h *Hello) { h.Controller = false }
	otherDisk := func(h *Hello) { h.Member.RaftID, h.Member.Directory = 999, kafka.UUID{99} }
	one, two, three := founder(1), founder(2), founder(3)
	for name, c := range map[string]struct {
		self  *Hello
		heard map[string]*Hello
		want  string
	}{
		"nobody answers":                      {one, nil, "wait for an answer from h1:1, h2:1, h3:1"},
		"one is missing":                      {one, heardFrom(one, nil, three), "wait for an answer from h2:1"},
		"the lowest id founds":                {one, heardFrom(one, two, three), "cluster= founder=1 founder=2 founder=3"},
		"by id, not by address":               {two, heardFrom(three, two, founder(7)), "cluster= founder=2 founder=3 founder=7"},
		"the others wait for it":              {three, heardFrom(one, two, three), "wait for node 1 at h1:1 to found the cluster"},
		"one of them has a name":              {one, heardFrom(one, founder(2, named("n")), three), "cluster=n founder=1 founder=2 founder=3"},
		"two names":                           {one, heardFrom(one, founder(2, named("n")), founder(3, named("m"))), "error INCONSISTENT_CLUSTER_ID: node 3 at h3:1 is of cluster m, and this node 1 of cluster n"},
		"a founder comes late":                {three, heardFrom(founder(1, founded(one, two, three)), nil, three), "cluster=c founder=1 founder=2 founder=3"},
		"its disk was lost":                   {founder(3, otherDisk), heardFrom(founder(1, founded(one, two, three)), nil, nil), "cluster=c via=1 via=2 via=3"},
		"a stranger joins":                    {founder(9), heardFrom(nil, founder(2, founded(one, two, three)), nil), "cluster=c via=2 via=1 via=3"},
		"a stranger waits":                    {founder(9), heardFrom(one, two, three), "wait for h1:1, h2:1, h3:1 to found the cluster"},
		"a broker joins":                      {founder(9, brokerOnly), heardFrom(nil, nil, founder(3, founded(one, two, three))), "cluster=c via=3 via=1 via=2"},
		"by a founder that was started again": {founder(9), heardFrom(founder(1, founded()), nil, founder(3, founded())), "cluster=c via=1 via=3"},
		"by one that knows more":              {founder(9), heardFrom(founder(1, founded(), knows(two, founder(5))), nil, nil), "cluster=c via=1 via=2 via=5"},
		"another cluster":                     {founder(9, named("d")), heardFrom(founder(1, founded(one)), nil, nil), "error INCONSISTENT_CLUSTER_ID: node 1 at h1:1 is of cluster c, and this node 9 of cluster d"},
		"other voters":                        {one, heardFrom(one, founder(2, func(h *Hello) { h.Voters = []string{"h2:1"} }), nil), "error INVALID_CONFIG: the nodes that found a cluster must all name the same voters: node 2 at h2:1 names h2:1, and this node 1 names h1:1,h2:1,h3:1"},
		"a broker among the voters":           {one, heardFrom(one, founder(2, brokerOnly), nil), "error INVALID_CONFIG: node 2 at h2:1 is among the voters h1:1,h2:1,h3:1, and its process.roles is broker alone"},
		"an id twice":                         {one, heardFrom(one, two, founder(2, otherDisk)), "error INVALID_CONFIG: the nodes at h2:1 and h2:1 both have the id 2; every node needs a node.id of its own"},
		"this node's id":                      {one, heardFrom(one, founder(1, otherDisk), nil), "error INVALID_CONFIG: the node at h2:1 has the id 1, as this node has; every node needs a node.id of its own"},
		"one node by two addresses":           {one, heardFrom(one, one, two), "cluster= founder=1 founder=2"},
		"founders are asked in order":         {three, heardFrom(nil, founder(2, founded(one, two, three)), nil), "cluster=c founder=1 founder=2 founder=3"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := DecideFounding(*c.self, c.heard)
			got := f.String()
			if err != nil {
				got = fmt.Sprintf("error %v: %v", kafka.CodeOf(err), err)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Whatever answers reach whom, in whatever order and however often a node begins anew, at most one cluster is founded,
// and all end in it once everybody reaches everybody.
func TestOnlyOneClusterIsFounded(t *testing.T) {
	type node struct {
		hello *Hello
		heard map[string]*Hello
	}
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		var nodes []*node
		for i := range 3 {
			nodes = append(nodes, &node{hello: founder(kafka.BrokerID(i + 1)), heard: map[string]*Hello{}})
		}
		foundings := 0
		step := func(n *node) {
			f, err := DecideFounding(*n.hello, n.heard)
			if err != nil {
				t.Fatal(err)
			}
			if f.Wait != "" || n.hello.Founded {
				return
			}
			if f.ClusterID == "" {
				foundings++
				f.ClusterID = fmt.Sprintf("c%d", foundings)
			}
			n.hello.Founded, n.hello.ClusterID, n.hello.Founders = true, f.ClusterID, f.Founders
		}
		ask := func(n, other *node) {
			answer := *other.hello
			answer.Founders = slices.Clone(answer.Founders)
			n.heard[address(other.hello.Member)] = &answer
		}
		for range 40 {
			n, other := nodes[random.IntN(3)], nodes[random.IntN(3)]
			switch random.IntN(5) {
			case 0: // the process begins anew; what is on its disk stays
				n.heard = map[string]*Hello{}
			case 1, 2, 3:
				ask(n, other)
			default:
				step(n)
			}
		}
		for range 3 {
			for _, n := range nodes {
				for _, other := range nodes {
					ask(n, other)
				}
				step(n)
			}
		}
		for _, n := range nodes {
			if !n.hello.Founded || n.hello.ClusterID != "c1" || foundings != 1 || len(n.hello.Founders) != 3 {
				t.Fatalf("seed %d: %d foundings, node %d: %+v", seed, foundings, n.hello.Member.Node, n.hello)
			}
		}
	}
}
