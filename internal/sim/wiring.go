package sim

import (
	"fmt"
	"log/slog"
	"slices"
	"time"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"weir/broker/replica"
	"weir/cluster"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// openNode makes this process a member of the cluster: a founder, or one that joins.
func (p *process) openNode(logger *slog.Logger) error {
	n, s := p.n, p.s
	n.incarnation = n.incarnationOf(p.host.life)
	registration, err := p.registration()
	if err != nil {
		return err
	}
	p.countRegistration(registration)
	o := cluster.Options{
		FS: p.faulty, Clock: p.clock, Logger: logger, Rand: s.w.rng(fmt.Sprintf("raft %d %d", n.machine, p.host.life)),
		MetadataDir: p.store.MetadataDir(), DirectoryID: n.directory(0), ClusterID: clusterID, Self: n.id, Peers: peers{p},
		Address: cluster.Address{Host: n.endpoint().Host, Port: n.endpoint().Port}, Registration: registration,
		Settings: controller.Settings{Self: n.id, NumPartitions: 1, DefaultReplicationFactor: 1, MinInSyncReplicas: 1, DeleteTopicEnable: true},

		MaxVoters: s.c.members.maxVoters, StabilizationTime: s.c.members.stabilization, DeadVoterAfter: s.c.members.deadVoterAfter,
		HeartbeatInterval: s.c.heartbeat, SessionTimeout: s.c.session, ElectionTimeout: s.c.election, RegistrationTimeout: time.Hour,
		DirFailureTimeout: dirFailureTimeout, Stalled: p.stalled, BalanceInterval: s.c.balance,
		Failed: func(err error) { p.failure = err },
	}
	if n.founds() {
		o.Founders = s.founders
	} else {
		o.Join = s.contacts(n)
	}
	p.node = cluster.New(o)
	p.node.Subscribe(p.publish)
	return p.node.Open()
}

// founds reports whether the node founds the cluster with others; its first disk only does.
func (n *node) founds() bool { return n.voter && n.disks == 1 }

func (p *process) countRegistration(r cluster.Registration) {
	if p.host.life == 1 {
		return
	}
	switch _, clean := p.store.CleanShutdown(); {
	case len(r.PreviousIncarnations) == 0:
		p.s.rare.count(rareUncleanShutdown)
	case !clean:
		p.s.rare.count(rareLosslessKill)
	}
}

// incarnationOf names a process of the node.
func (n *node) incarnationOf(life int) kafka.UUID {
	return kafka.UUID{0: 0x1c, 1: byte(n.machine), 2: byte(life), 3: byte(life >> 8), 15: 200}
}

func (n *node) endpoint() metadata.Endpoint {
	return metadata.Endpoint{Name: "PEER", Host: fmt.Sprintf("host%d", n.machine), Port: 9092}
}

// member is the node as the quorum knows it.
func (n *node) member() metadata.QuorumMember {
	dir := n.directory(0)
	return metadata.QuorumMember{RaftID: n.raftID(), Node: n.id, Directory: dir, Host: n.endpoint().Host, Port: n.endpoint().Port, Controller: true}
}

// contacts are the members that a node which joins is told of.
func (s *simulation) contacts(self *node) []metadata.QuorumMember {
	var members []metadata.QuorumMember
	for _, n := range s.nodes {
		if n != self {
			members = append(members, n.member())
		}
	}
	return members
}

// stepNode steps the member, and returns when it wants to be stepped again.
func (p *process) stepNode(now time.Time) time.Time {
	if err := p.node.Step(now); err != nil {
		p.failure = err
		return time.Time{}
	}
	p.noteRegistration()
	p.noteLeadership()
	if p.s.active != p.n && p.isActive() {
		if p.s.active != nil {
			p.s.rare.count(rareControllerMoved)
		}
		p.s.active = p.n
	}
	return p.node.NextWake()
}

// noteRegistration writes down that this process is registered, as package broker does: the next one is compared with it.
func (p *process) noteRegistration() {
	epoch, registered := p.node.Registered()
	if !registered || epoch == p.noted || p.node.State() < cluster.Running {
		return
	}
	p.noted = epoch
	p.store.SetBrokerEpoch(epoch)
	if err := p.noteRun(p.run.Registered(epoch)); err != nil {
		p.failure = err
	}
	p.assign()
}

func (p *process) image() *metadata.Image { return p.node.Image() }

func (p *process) brokerEpoch() kafka.BrokerEpoch {
	epoch, _ := p.node.Registered()
	return epoch
}

// activeController is the node that decides now, nil while there is none.
func (s *simulation) activeController() *node {
	for _, n := range s.nodes {
		if n.proc != nil && n.proc.isActive() {
			return n
		}
	}
	return nil
}

func (p *process) isActive() bool { return p.node.QuorumStatus().Ready }

// submit has the active controller decide a command.
func (p *process) submit(cmd controller.Command, done func(controller.Reply, error)) {
	p.node.SubmitAsync(cmd, done)
}

// AlterISR takes the ISRs that this broker's leaders want to the controller.
func (p *process) AlterISR(proposals []replica.ISRProposal, done func([]replica.ISRResult, error)) {
	cmd := controller.AlterPartition{Broker: p.n.id, Epoch: p.brokerEpoch()}
	for _, one := range proposals {
		change := controller.ISRChange{TopicID: one.TopicID, Partition: one.Partition, LeaderEpoch: one.LeaderEpoch, PartitionEpoch: one.PartitionEpoch,
			RecoveryState: one.RecoveryState}
		for _, m := range one.ISR {
			change.ISR = append(change.ISR, controller.ISRMember(m))
		}
		cmd.Partitions = append(cmd.Partitions, change)
	}
	p.node.SubmitAsync(cmd, func(reply controller.Reply, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		var results []replica.ISRResult
		for _, r := range reply.(controller.AlterPartitionReply).Partitions {
			p.countISRAnswer(r.Code)
			results = append(results, replica.ISRResult{Code: r.Code, Leader: r.Leader, LeaderEpoch: r.LeaderEpoch, PartitionEpoch: r.PartitionEpoch, ISR: r.ISR,
				RecoveryState: r.RecoveryState})
		}
		done(results, nil)
	})
}

var _ replica.ISRController = (*process)(nil)

// assign tells the controller in which directories replicas are that it believes elsewhere (KIP-858): one request at a time.
func (p *process) assign() {
	img := p.image()
	if p.assigning || p.node.State() < cluster.Running {
		return
	}
	cmd := controller.AssignReplicasToDirs{Broker: p.n.id, Epoch: p.brokerEpoch()}
	for _, o := range p.parts {
		t, known := img.Topics.ByID(o.id.TopicID)
		if !known || t.Partition(o.id.Partition) == nil {
			continue
		}
		if dir := p.store.DirectoryOf(o.log); t.Partition(o.id.Partition).Directory(p.n.id) != dir {
			cmd.Assignments = append(cmd.Assignments, controller.DirAssignment{TopicID: o.id.TopicID, Partition: o.id.Partition, Directory: dir})
		}
	}
	if len(cmd.Assignments) == 0 {
		return
	}
	p.assigning = true
	p.node.SubmitAsync(cmd, func(_ controller.Reply, err error) {
		p.assigning = false
		if err != nil {
			p.host.after(200*time.Millisecond, p.assign)
			return
		}
		p.assign()
	})
}

func (p *process) countISRAnswer(code kafka.Code) {
	switch code {
	case kafka.IneligibleReplica:
		p.s.rare.count(rareExpandReverted)
	case kafka.FencedLeaderEpoch, kafka.InvalidUpdateVersion:
		p.s.rare.count(rareISRProposalFenced)
	}
}

// peers carries what a process's member says to others.
type peers struct{ p *process }

var _ cluster.Peers = peers{}

// SetMembers says where the members are.
func (c peers) SetMembers(members []metadata.QuorumMember) { c.p.members = slices.Clone(members) }

// at finds the node at the address that this process has of a member; nil where there is none.
func (c peers) at(m metadata.QuorumMember) *node {
	for _, n := range c.p.s.machines {
		if n.endpoint().Host == m.Host && n.endpoint().Port == m.Port {
			if !slices.Contains(n.raftIDs, m.RaftID) {
				c.p.s.rare.count(rareRumouredAddress)
			}
			return n
		}
	}
	return nil
}

// Send carries Raft messages.
func (c peers) Send(messages []*raftpb.Message) {
	s := c.p.s
	for _, m := range messages {
		s.proposed(m)
		i := slices.IndexFunc(c.p.members, func(known metadata.QuorumMember) bool { return known.RaftID == m.GetTo() })
		if i < 0 {
			continue
		}
		target := c.at(c.p.members[i])
		if target == nil {
			c.failed(m)
			continue
		}
		m = proto.CloneOf(m) // Raft keeps working on its own
		if m.GetType() == raftpb.MsgSnap {
			c.sendSnapshot(target, m)
			continue
		}
		if !target.host.listening && target.host.powered && !s.net.isCut(c.p.host.id, target.host.id) {
			c.failed(m)
			continue
		}
		s.net.send(c.p.host.id, target.host.id, func() { target.proc.receive(proto.CloneOf(m)) })
	}
}

// failed tells the process that its message cannot be delivered: nobody takes it.
func (c peers) failed(m *raftpb.Message) {
	life := c.p.host.life
	c.p.s.w.after(c.p.s.net.c.base, func() { c.p.host.do(life, func() { c.p.node.Unreachable(m.GetTo()) }) })
}

// receive takes a Raft message, if it is for this node.
func (p *process) receive(m *raftpb.Message) {
	if m.GetTo() == p.n.raftID() {
		p.node.Receive(quorum.Receive{Messages: []*raftpb.Message{m}})
	}
}

// sendSnapshot sends a whole snapshot, and reports how that went.
func (c peers) sendSnapshot(target *node, m *raftpb.Message) {
	callOnce(c.p.s.net, c.p.host.id, target.host.id, callTimeout, func(reply func(bool)) {
		c.p.s.rare.count(rareSnapshotInstalled)
		target.proc.receive(m)
		reply(true)
	}, func(ok bool, err error) { c.p.node.SnapshotSent(m.GetTo(), ok && err == nil) })
}

// decided is the answer to a command that another node was asked to decide.
type decided struct {
	answer cluster.Answer
	err    error
}

// Submit has another node decide a command.
func (c peers) Submit(to metadata.QuorumMember, cmd controller.Command, done func(cluster.Answer, error)) {
	s := c.p.s
	target := c.at(to)
	if s.lost != nil && s.lost(c.p.n, cmd) {
		return // there is another try
	}
	if target == nil {
		c.p.host.after(s.net.c.base, func() { done(cluster.Answer{}, errRefused) })
		return
	}
	call(s.net, c.p.host.id, target.host.id, s.c.session, func(reply func(decided)) {
		target.proc.noteContact(cmd)
		target.proc.node.Decide(cmd, func(a cluster.Answer, err error) { reply(decided{a, err}) })
	}, func(d decided, err error) {
		if err == nil {
			err = d.err
		}
		done(d.answer, err)
	})
}

// witness has the nodes that notice that a process is gone say so: its host closed their connections, and refuses others.
func (s *simulation) witness(gone *node, epoch kafka.BrokerEpoch) {
	for _, n := range s.nodes {
		if n == gone || !n.host.listening {
			continue
		}
		life := n.host.life
		s.w.after(s.net.delay(gone.host.id, n.host.id)+s.net.delay(n.host.id, gone.host.id), func() {
			reachable := !s.net.isCut(gone.host.id, n.host.id) && !s.net.isCut(n.host.id, gone.host.id)
			if reachable && !gone.host.listening && gone.host.powered {
				n.host.do(life, func() { n.proc.node.Observe(cluster.Evidence{Broker: gone.id, Epoch: epoch, Gone: true}) })
			}
		})
	}
}
