package cluster

import (
	"context"

	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/cluster/quorum"
	"weir/internal/kafka"
)

// What others tell a node. None of these blocks but Submit, Join and Shutdown; all may be called from any goroutine, once
// Start was called or Open has returned. After Close they do nothing.

// Submit has the active controller decide a command, wherever it is, and returns when what it decided is published on this
// broker. While no controller is found or its answer is lost, the command is submitted again, for a minute at most: see
// repeat for what that means to those that are no good twice. When ctx ends first, the command may still come true.
//
// Errors: ctx.Err(); REQUEST_TIMED_OUT; NOT_CONTROLLER when the node is closed; those that the command names.
func (n *Node) Submit(ctx context.Context, cmd controller.Command) (controller.Reply, error) {
	type result struct {
		reply controller.Reply
		err   error
	}
	got := make(chan result, 1)
	n.submit(cmd, func() bool { return ctx.Err() != nil }, func(reply controller.Reply, err error) { got <- result{reply, err} })
	select {
	case r := <-got:
		return r.reply, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// SubmitAsync is Submit for whoever must not wait. done is told once, from any goroutine, and must not block.
func (n *Node) SubmitAsync(cmd controller.Command, done func(controller.Reply, error)) {
	n.submit(cmd, nil, done)
}

func (n *Node) submit(cmd controller.Command, gone func() bool, done func(controller.Reply, error)) {
	s := &submission{cmd: cmd, from: client, gone: gone}
	s.done = func(a Answer, err error) {
		switch {
		case s.repeated && err == nil:
			a.Reply = settle(s.tries(), a.Reply, s.before, n.Image())
		case s.repeated:
			a.Reply, err = settleRefused(s.cmd, err, s.before)
		}
		done(a.Reply, err)
	}
	n.hand(submitted{s})
}

// hand puts an event into the control loop's mailbox.
func (n *Node) hand(e event) {
	if !n.events.put(e) {
		n.refuse([]event{e}, notController())
	}
}

// Decide decides a command that came from another node, if this one leads Raft, as soon as it has applied what was decided
// before; else it is refused with NOT_CONTROLLER. done is told once, from the control loop, and must not block.
func (n *Node) Decide(cmd controller.Command, done func(Answer, error)) {
	n.hand(submitted{&submission{cmd: cmd, from: peer, done: done}})
}

// Receive takes Raft messages of other members.
func (n *Node) Receive(r quorum.Receive) { n.hand(r) }

// Unreachable reports that messages to a member got lost.
func (n *Node) Unreachable(raftID uint64) { n.hand(quorum.Unreachable{RaftID: raftID}) }

// SnapshotSent reports how the sending of a snapshot to a member ended.
func (n *Node) SnapshotSent(raftID uint64, ok bool) {
	n.hand(quorum.SnapshotSent{RaftID: raftID, OK: ok})
}

// Observe takes what this node saw of another one's process. It may be told again and again.
func (n *Node) Observe(e Evidence) { n.hand(e) }

// Hear takes what gossip says of another node. It may be told again and again.
func (n *Node) Hear(g Gossiped) { n.hand(heard{g}) }

// DirFailed tells the controller of a data directory that this broker cannot use any more. When no controller can be told
// in time, the node fails.
func (n *Node) DirFailed(id kafka.DirectoryID) { n.hand(dirFailed{id}) }

// Moved tells the cluster where this node is reached from now on.
func (n *Node) Moved(to Address) { n.hand(moved{to}) }

// Join makes a node a member, a learner at first. It returns when this node knows of it. Errors are those of Submit and of
// controller.RegisterMember.
func (n *Node) Join(ctx context.Context, m metadata.QuorumMember) error {
	_, err := n.Submit(ctx, controller.RegisterMember{ClusterID: n.o.ClusterID, Member: m})
	return err
}

// Shutdown leaves the cluster in peace, before Close: the broker gives away what it leads and waits until the others know
// (five minutes at most, as in Kafka, and a few elections where there is no controller), and another voter leads Raft. When ctx
// ends first, the rest is for the others to find out. It does nothing where nobody else would notice.
func (n *Node) Shutdown(ctx context.Context) error {
	done := make(chan struct{}, 1)
	n.ShutdownAsync(func() { done <- struct{}{} })
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// ShutdownAsync is Shutdown for whoever must not wait. done is told once, from the control loop, and must not block.
func (n *Node) ShutdownAsync(done func()) { n.hand(leave{done}) }
