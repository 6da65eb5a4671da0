package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
	"weir/internal/vfs"
	"weir/log"
)

// node is a machine for a broker: a disk, and at times a process.
type node struct {
	s          *simulation
	machine    int
	id         kafka.BrokerID
	voter      bool // it founds the cluster
	host       *host
	raftIDs    []uint64 // of its disks
	removed    bool     // it is no part of the cluster any more: an operator removed it, or threw it away
	lost       bool     // there is no such machine any more
	dismissing bool     // an operator is removing a disk that it had before
	removing   bool     // an operator is about to
	voters     []uint64 // of the quorum, as its process knew last
	disk       *vfs.Mem
	disks      int // it has had; a new one has other directory ids
	joined     int // the last of them that the cluster knows
	boots      int
	ends       map[partitionID]int64 // of the logs before the power went
	skew       time.Duration
	dirs       []string
	broken     []vfs.Fault   // of the disk, until it is healed
	hungUntil  time.Duration // what is to be durable is not, till then
	proc       *process      // nil while none runs
	died       time.Duration
	stopped    bool // the last process ended in good order

	// lossy are the partitions of which this node may have lost records, as far as the cluster can tell, and is not yet back
	// in the ISR; true where it has.
	lossy map[partitionID]bool
	// unclean says that the next registration will tell that records may be lost, of whatever there is then.
	unclean     bool
	wiped       bool       // and that it has another disk
	incarnation kafka.UUID // of the last process
	seenEnd     kafka.UUID // the last one that ended while the machine was there to say so
}

func newNode(s *simulation, machine int, id kafka.BrokerID) *node {
	n := &node{s: s, machine: machine, id: id, voter: machine <= s.c.voters, lossy: map[partitionID]bool{}}
	n.host = newHost(s.w, hostID(machine), n.pump)
	s.net.add(n.host)
	for i := range s.c.dirs {
		n.dirs = append(n.dirs, fmt.Sprintf("/d%d", i+1))
	}
	rng := s.w.rng(fmt.Sprintf("node%d", machine))
	n.skew = time.Duration(rng.Int64N(int64(s.c.clockSkew) + 1))
	n.newDisk()
	return n
}

// newDisk gives the node empty directories with ids of their own: the founders know each other's.
func (n *node) newDisk() {
	n.disk = vfs.NewMem()
	n.disks++
	n.voters = nil
	n.raftIDs = append(n.raftIDs, quorum.RaftID(n.directory(0)))
	for i, dir := range n.dirs {
		err := errors.Join(n.disk.MkdirAll(dir, 0o755), n.disk.SyncDir("/"))
		if err == nil {
			err = log.WriteMetaProperties(n.disk, dir, log.MetaProperties{ClusterID: clusterID, NodeID: n.id, DirectoryID: n.directory(i)}, n.s.w.time())
		}
		if err != nil {
			panic(err) // a new disk in memory
		}
	}
}

const clusterID = "simulated-cluster-id-0"

// directory is the id of one of the node's data directories; the metadata log lies in the first.
func (n *node) directory(i int) kafka.DirectoryID {
	return kafka.DirectoryID{0: 0xd1, 1: byte(n.machine), 2: byte(n.disks), 3: byte(i), 15: 200}
}

// bootID changes with every boot of the machine.
func (n *node) bootID() string { return fmt.Sprintf("boot-%d-%d", n.machine, n.boots) }

// pump has the process do what follows from what it was given.
func (n *node) pump() {
	if n.proc != nil {
		n.proc.pump()
	}
}

// start begins a process. Where its disk does not let it, it ends at once, and somebody starts it again later.
func (n *node) start() {
	if n.host.running || n.lost {
		return
	}
	n.proc = nil
	n.host.begin()
	n.stopped = false
	if n.founds() || n.joined == n.disks {
		n.open()
		return
	}
	n.s.w.tracef("n%d starts and asks to join", n.id)
	n.host.do(n.host.life, func() {
		n.join(func() {
			n.joined = n.disks
			n.open()
		})
	})
}

// open opens the logs.
func (n *node) open() {
	p, err := openProcess(n)
	if err != nil {
		n.s.w.tracef("n%d cannot start: %v", n.id, err)
		n.s.rare.count(rareProcessFailed)
		n.host.end(true)
		n.disk = n.disk.Kill()
		n.s.restartLater(n, retryStart)
		return
	}
	n.proc = p
	n.host.listen()
	for _, l := range p.store.Logs() {
		if end, known := n.ends[partitionID{TopicID: l.TopicID(), Partition: l.TP().Partition}]; known && l.EndOffset() < end {
			n.s.rare.count(rareLostRecords)
		}
	}
	n.ends = nil
	n.s.w.tracef("n%d starts, boot %s, incarnation %v", n.id, n.bootID(), n.incarnation)
	n.host.do(n.host.life, func() {})
}

// retryStart is how long whatever supervises a broker waits before it starts it again.
const retryStart = 700 * time.Millisecond

// end takes the process away without a word.
func (n *node) end(power bool) {
	p := n.proc
	n.proc = nil
	n.died = n.s.w.now
	n.host.end(power)
	if p != nil && power {
		n.seenEnd = n.incarnation
		n.s.witness(n, p.brokerEpoch())
	}
}

// kill is kill -9: what was written is there.
func (n *node) kill() {
	n.end(true)
	n.disk = n.disk.Kill()
	n.s.w.tracef("n%d is killed", n.id)
}

// fail is the process's own end, when it cannot go on.
func (n *node) fail(err error) {
	n.s.w.tracef("n%d fails: %v", n.id, err)
	if n.removed {
		n.s.rare.count(rareRemovedStopped)
	} else {
		n.s.rare.count(rareProcessFailed)
	}
	n.end(true)
	n.disk = n.disk.Kill()
	n.s.restartLater(n, retryStart)
}

// powerCut takes the machine's power, and what the loss says of what was not synced.
func (n *node) powerCut(loss vfs.Loss) {
	n.ends = map[partitionID]int64{}
	if n.proc != nil {
		for _, o := range n.proc.parts {
			n.ends[o.id] = o.log.EndOffset()
		}
	}
	n.end(false)
	n.disk = n.disk.Crash(loss)
	n.boots++
	n.s.w.tracef("n%d loses its power", n.id)
}

// wipe takes the disk, and puts an empty one in its place.
func (n *node) wipe() {
	n.end(true)
	n.newDisk()
	n.broken = nil
	n.s.w.tracef("n%d gets an empty disk", n.id)
	n.markLossy(true)
	n.wiped = true
}

// markLossy notes that the node may have lost records of all its replicas, and whether it has.
func (n *node) markLossy(lost bool) {
	n.unclean = true
	for id := range n.replicas(n.s.newest) {
		n.lossy[id] = n.lossy[id] || lost
	}
}

// replicas iterates the partitions that an image assigns to the node.
func (n *node) replicas(img *metadata.Image) func(func(partitionID, *metadata.PartitionRegistration) bool) {
	return func(yield func(partitionID, *metadata.PartitionRegistration) bool) {
		for t := range img.Topics.All() {
			for i := range t.Partitions {
				if p := &t.Partitions[i]; p.HasReplica(n.id) && !yield(partitionID{TopicID: t.ID, Partition: int32(i)}, p) {
					return
				}
			}
		}
	}
}

// settleLossy notes which replicas are back in the ISR by an image, in the incarnation that may have lost something.
func (n *node) settleLossy(img *metadata.Image) {
	if len(n.lossy) == 0 && !n.unclean || n.removing {
		return
	}
	b, known := img.Brokers.ByID(n.id)
	if !known || n.proc == nil || b.Incarnation != n.incarnation || n.proc.dirFailed {
		return
	}
	n.unclean, n.wiped = false, false
	for id := range n.lossy {
		t, there := img.Topics.ByID(id.TopicID)
		if !there || t.Partition(id.Partition) == nil || !t.Partition(id.Partition).HasReplica(n.id) || t.Partition(id.Partition).InISR(n.id) {
			delete(n.lossy, id)
		}
	}
}

// bears reports whether the node may lose records now, of every partition that it has a replica of: with it, fewer replicas
// than min.insync.replicas have lost some.
func (s *simulation) bears(n *node) bool {
	for id := range n.replicas(s.newest) {
		t, _ := s.newest.Topics.ByID(id.TopicID)
		lost := 1
		for _, other := range s.nodes {
			if _, may := other.lossy[id]; other != n && (may || len(other.broken) > 0) {
				lost++
			}
		}
		if lost > s.check.partitions[id].copies-1 && !s.mayLose(t.Name) {
			return false
		}
	}
	return true
}

// nobodyLost reports whether every replica has what it had. Where one has not, no more of them may come back from power cuts
// than may lose records: the controller cannot tell those that lost nothing.
func (s *simulation) nobodyLost() bool {
	for _, n := range s.nodes {
		for _, lost := range n.lossy {
			if lost {
				return false
			}
		}
	}
	return true
}

// breakDisk lets writes to one directory fail, or all syncs.
func (s *simulation) breakDisk(n *node, rng *rand.Rand, length time.Duration) bool {
	if len(n.broken) > 0 || !s.bears(n) && !s.nobodyLost() {
		return false
	}
	dir := pick(rng, n.dirs...)
	n.broken = []vfs.Fault{pick(rng,
		vfs.Fault{Op: vfs.OpWrite, Path: dir, Err: syscall.ENOSPC, Short: pick(rng, 0, 20)},
		vfs.Fault{Op: vfs.OpWrite, Path: dir + "/topic", Err: syscall.EIO},
		vfs.Fault{Op: vfs.OpSync, Path: dir, Err: syscall.EIO},
		vfs.Fault{Op: vfs.OpSync, Path: dir + "/topic", Err: syscall.EIO},
	)}
	if n.proc != nil {
		for _, f := range n.broken {
			n.proc.faulty.Inject(f)
		}
	}
	s.w.after(length, func() { n.mendDisk() })
	return true
}

// mendDisk ends the disk's faults. What it took offline stays so until the process begins anew.
func (n *node) mendDisk() {
	if len(n.broken) == 0 {
		return
	}
	n.broken = nil
	if n.proc != nil {
		n.proc.faulty.Heal()
		n.restartDamaged()
	}
}

// restartDamaged starts a process anew that has given up part of its disk, as whoever looks after it would.
func (n *node) restartDamaged() {
	if n.proc != nil && n.proc.damaged() {
		n.kill()
		n.s.restartLater(n, retryStart)
	}
}

// heal ends all that is wrong with the node.
func (n *node) heal() {
	n.mendDisk()
	n.hungUntil = 0
	n.host.resume()
	n.restartDamaged()
	n.start()
}
