package harness

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
)

// network is a bridge with a network namespace for each node on it. This process has the address 254 on the bridge, so
// that clients outside reach the nodes.
type network struct {
	name   string // of the bridge, and the beginning of all other names
	prefix string // of addresses: "10.x.y."
	nodes  int
}

const networkNames = "weir" // followed by the process's id, so that what a killed run left can be told

// networks counts those of this process: the system takes a moment until a name is free again.
var networks atomic.Int32

func newNetwork(t *testing.T, nodes int) *network {
	t.Helper()
	Tool(t, "ip", "iproute2")
	Tool(t, "nft", "nftables")
	removeAbandoned()
	n := &network{name: fmt.Sprintf("%s%dx%d", networkNames, os.Getpid(), networks.Add(1)%100), // names of links are short
		prefix: fmt.Sprintf("10.%d.%d.", 128+rand.IntN(120), rand.IntN(250)), nodes: nodes}
	t.Cleanup(n.remove)
	n.run(t, "ip link add %s type bridge", n.name)
	n.run(t, "ip addr add %s254/24 dev %s", n.prefix, n.name)
	n.run(t, "ip link set %s up", n.name)
	for id := 1; id <= nodes; id++ {
		ns, link := n.namespace(id), fmt.Sprintf("%sv%d", n.name, id)
		n.run(t, "ip netns add %s", ns)
		n.run(t, "ip link add %s type veth peer name eth0 netns %s", link, ns)
		n.run(t, "ip link set %s master %s up", link, n.name)
		n.run(t, "ip -n %s addr add %s%d/24 dev eth0", ns, n.prefix, id)
		n.run(t, "ip -n %s link set eth0 up", ns)
		n.run(t, "ip -n %s link set lo up", ns)
		n.nft(t, id, "add table ip faults")
		n.nft(t, id, "add chain ip faults in { type filter hook input priority 0 ; }")
	}
	return n
}

func (n *network) namespace(id int) string { return fmt.Sprintf("%sn%d", n.name, id) }

func (n *network) run(t *testing.T, format string, args ...any) {
	t.Helper()
	words := strings.Fields(fmt.Sprintf(format, args...))
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", strings.Join(words, " "), err, out)
	}
}

func (n *network) nft(t *testing.T, id int, rule string) {
	t.Helper()
	n.run(t, "ip netns exec %s nft %s", n.namespace(id), rule)
}

// remove takes the network away. The nodes' processes are gone by then.
func (n *network) remove() {
	for id := 1; id <= n.nodes; id++ {
		_ = exec.Command("ip", "netns", "del", n.namespace(id)).Run()
	}
	_ = exec.Command("ip", "link", "del", n.name).Run()
}

// removeAbandoned takes away the networks of runs that were killed.
func removeAbandoned() {
	out, _ := exec.Command("ip", "-o", "link", "show", "type", "bridge").Output()
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		name := strings.TrimSuffix(fields[1], ":")
		rest, ours := strings.CutPrefix(name, networkNames)
		id, _, _ := strings.Cut(rest, "x")
		if pid, err := strconv.Atoi(id); ours && err == nil {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", pid)); err != nil {
				(&network{name: name, nodes: 9}).remove()
			}
		}
	}
}

// Cut drops all packets from some nodes to others, silently and in that direction only.
func (c *Cluster) Cut(from, to []int) {
	c.t.Helper()
	c.drop(from, to, "")
}

// CutBoth drops all packets between two sets of nodes.
func (c *Cluster) CutBoth(a, b []int) {
	c.t.Helper()
	c.Cut(a, b)
	c.Cut(b, a)
}

// CutGossip drops what nodes gossip with each other, and nothing else.
func (c *Cluster) CutGossip(a, b []int) {
	c.t.Helper()
	for _, port := range []string{"sport", "dport"} {
		match := fmt.Sprintf("meta l4proto { tcp, udp } th %s %d", port, clusterGossipPort)
		c.drop(a, b, match)
		c.drop(b, a, match)
	}
}

// CutAllButGossip drops all packets between two sets of nodes but what they gossip.
func (c *Cluster) CutAllButGossip(a, b []int) {
	c.t.Helper()
	match := fmt.Sprintf("meta l4proto { tcp, udp } th sport != %[1]d th dport != %[1]d", clusterGossipPort)
	c.drop(a, b, match)
	c.drop(b, a, match)
}

// drop drops the packets from some nodes to others that match; all for "".
func (c *Cluster) drop(from, to []int, match string) {
	c.t.Helper()
	for _, receiver := range to {
		for _, sender := range from {
			if sender != receiver {
				c.net.nft(c.t, receiver, fmt.Sprintf("add rule ip faults in ip saddr %s%d %s drop", c.net.prefix, sender, match))
			}
		}
	}
}

// Heal lets all packets through again.
func (c *Cluster) Heal() {
	c.t.Helper()
	for _, n := range c.nodes {
		c.net.nft(c.t, n.ID, "flush chain ip faults in")
	}
}
