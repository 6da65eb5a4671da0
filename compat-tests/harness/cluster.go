package harness

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Ports of a cluster's nodes. Each node has an address of its own, so they need not be chosen.
const (
	clusterClientPort = 9092
	clusterPeerPort   = 9192
	clusterGossipPort = 9292
)

// ClusterOptions say what a cluster is made of.
type ClusterOptions struct {
	Nodes      int  // 0 is three
	Namespaces bool // each node in a network namespace of its own, so that links can be cut; needs root
	Disks      bool // each node on a file system of its own, that a power cut can be made of; needs root
	Racks      bool // each node in a rack of its own, which Rack names
	Alone      bool // a node that was started without a thought, on loopback; others come by Join
	Args       []string
}

// Cluster is a cluster of real brokers that belongs to one case.
type Cluster struct {
	t      *testing.T
	nodes  []*ClusterNode
	net    *network // nil without namespaces
	binary string
	dir    string
	prefix string // of addresses: "127.x.y."
}

// ClusterNode is one of its brokers. Its id is its place, from 1 on: also of one that joins, if one joins after the other.
type ClusterNode struct {
	ID        int
	IP        string
	Bootstrap string // host:port of the client listener

	process *Process
	options Options
	disk    *disk // nil without a file system of its own
}

// StartCluster founds a cluster and returns when all its nodes are ready. The case is skipped where the broker is the
// user's, and where it needs root and has it not.
func StartCluster(t *testing.T, o ClusterOptions) *Cluster {
	t.Helper()
	if External() != "" {
		t.Skip("needs a cluster of its own, and WEIR_COMPAT_BOOTSTRAP names a broker")
	}
	if (o.Namespaces || o.Disks) && os.Geteuid() != 0 {
		t.Skip("not run: needs root")
	}
	binary, err := Binary()
	if err != nil {
		t.Fatal(err)
	}
	if o.Nodes == 0 {
		o.Nodes = 3
	}
	if o.Alone {
		o.Nodes = 1
	}
	c := &Cluster{t: t, binary: binary, dir: t.TempDir(), prefix: loopbackPrefix()}
	if o.Namespaces {
		c.net = newNetwork(t, o.Nodes)
		c.prefix = c.net.prefix
	}
	var args []string
	if !o.Alone {
		var voters []string
		for id := 1; id <= o.Nodes; id++ {
			voters = append(voters, fmt.Sprintf("%d@%s%d:%d", id, c.prefix, id, clusterPeerPort))
		}
		args = []string{"--override", fmt.Sprint("weir.peer.port=", clusterPeerPort), "--override", fmt.Sprint("weir.gossip.port=", clusterGossipPort),
			"--override", "controller.quorum.voters=" + strings.Join(voters, ",")}
	}
	for id := 1; id <= o.Nodes; id++ {
		n := c.add(slices.Concat(args, o.Args)...)
		if !o.Alone {
			n.options.Args = append(n.options.Args, "--override", fmt.Sprint("node.id=", id))
		}
		if o.Racks {
			n.options.Args = append(n.options.Args, "--override", "broker.rack="+Rack(id))
		}
		if o.Namespaces {
			n.options.Namespace = c.net.namespace(id)
		}
		if o.Disks {
			n.disk = newDisk(t, filepath.Dir(n.options.LogFile))
			n.options.DataDir = filepath.Join(n.disk.mount, "data")
		}
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			if n.process != nil {
				n.process.Resume() // a paused process is killed all the same, but its parent waits until it is reaped
				n.process.Kill()
			}
		}
	})
	c.launch(c.nodes...)
	return c
}

// Rack is the rack of a node of a cluster with Racks.
func Rack(id int) string { return fmt.Sprint("rack", id) }

// add makes another node, which is not started yet.
func (c *Cluster) add(args ...string) *ClusterNode {
	c.t.Helper()
	n := &ClusterNode{ID: len(c.nodes) + 1}
	n.IP = fmt.Sprintf("%s%d", c.prefix, n.ID)
	n.Bootstrap = fmt.Sprintf("%s:%d", n.IP, clusterClientPort)
	home := filepath.Join(c.dir, fmt.Sprint("node", n.ID))
	if err := os.MkdirAll(home, 0o755); err != nil {
		c.t.Fatal(err)
	}
	n.options = Options{Binary: c.binary, Listen: n.Bootstrap, DataDir: filepath.Join(home, "data"), LogFile: filepath.Join(home, "log"),
		Args: slices.Concat(quickGroups, args)}
	showLogIfFailed(c.t, n.options.LogFile)
	c.nodes = append(c.nodes, n)
	return n
}

// Join has another node join by the addresses of those that are there, and returns it when it is ready. The cluster gives it
// its id.
func (c *Cluster) Join() *ClusterNode {
	c.t.Helper()
	n := c.add("--join", strings.Join(c.Bootstrap(), ","))
	c.launch(n)
	return n
}

// loopbackPrefix draws a network of loopback addresses, which need no set-up on Linux and have no port in use.
func loopbackPrefix() string {
	return fmt.Sprintf("127.%d.%d.", 64+rand.IntN(63), 1+rand.IntN(250))
}

// launch starts nodes at the same time: none is ready before the others are there.
func (c *Cluster) launch(nodes ...*ClusterNode) {
	c.t.Helper()
	errs := make(chan error)
	for _, n := range nodes {
		go func() {
			process, err := Launch(n.options)
			if err != nil {
				errs <- fmt.Errorf("node %d: %w", n.ID, err)
				return
			}
			n.process = process
			errs <- nil
		}()
	}
	var failed error
	for range nodes {
		if err := <-errs; err != nil {
			failed = err
		}
	}
	if failed != nil {
		for _, n := range nodes {
			if n.process != nil {
				n.process.Kill()
			}
		}
		c.t.Fatal(failed)
	}
}

// Node returns a node by its id.
func (c *Cluster) Node(id int) *ClusterNode { return c.nodes[id-1] }

// Nodes returns all nodes.
func (c *Cluster) Nodes() []*ClusterNode { return c.nodes }

// Others returns the ids of all nodes but one.
func (c *Cluster) Others(id int) (ids []int) {
	for _, n := range c.nodes {
		if n.ID != id {
			ids = append(ids, n.ID)
		}
	}
	return ids
}

// Bootstrap is the addresses of all nodes.
func (c *Cluster) Bootstrap() []string {
	var all []string
	for _, n := range c.nodes {
		all = append(all, n.Bootstrap)
	}
	return all
}

// Kill crashes nodes (SIGKILL), all at the same time.
func (c *Cluster) Kill(ids ...int) {
	for _, id := range ids {
		_ = c.Node(id).process.cmd.Process.Kill()
	}
	for _, id := range ids {
		<-c.Node(id).process.exited
	}
}

// Stop ends a node (SIGTERM); it must end cleanly.
func (c *Cluster) Stop(id int) {
	c.t.Helper()
	if err := c.Node(id).process.Stop(); err != nil {
		c.t.Fatalf("node %d: %v", id, err)
	}
}

// Restart starts nodes that were killed or stopped, on the same addresses and the same files.
func (c *Cluster) Restart(ids ...int) {
	c.t.Helper()
	var nodes []*ClusterNode
	for _, id := range ids {
		nodes = append(nodes, c.Node(id))
	}
	c.launch(nodes...)
}

// RestartInVain starts a node that was killed, and must end by itself before it is ready, and returns what it says meanwhile.
func (c *Cluster) RestartInVain(id int) string {
	c.t.Helper()
	n := c.Node(id)
	info, err := os.Stat(n.options.LogFile)
	if err != nil {
		c.t.Fatal(err)
	}
	process, err := Launch(n.options)
	if err == nil {
		n.process = process
		c.t.Fatalf("node %d is ready", id)
	}
	return fmt.Sprintf("%s\n%v", logSince(n.options.LogFile, info.Size()), err)
}

// Pause stops a node's process where it is (SIGSTOP), as a machine that swaps or a stopped virtual machine does.
func (c *Cluster) Pause(id int) { _ = c.Node(id).process.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume lets a paused node go on.
func (c *Cluster) Resume(id int) { c.Node(id).process.Resume() }

// Wipe removes all that a killed node has on its disk.
func (c *Cluster) Wipe(id int) {
	c.t.Helper()
	if err := os.RemoveAll(c.Node(id).options.DataDir); err != nil {
		c.t.Fatal(err)
	}
}

// PowerCut crashes nodes with the machines that they run on: what they had not synced is lost. Their file systems are shut
// down without writing anything back, and mounted again.
func (c *Cluster) PowerCut(ids ...int) {
	c.t.Helper()
	for _, id := range ids {
		c.Node(id).disk.cut(c.t)
	}
	c.Kill(ids...)
	for _, id := range ids {
		n := c.Node(id)
		n.disk.remount(c.t)
		n.options.Env = []string{fmt.Sprintf("WEIR_BOOT_ID=%x", rand.Uint64())}
	}
}

// PID is a node's process.
func (c *Cluster) PID(id int) int { return c.Node(id).process.PID() }
