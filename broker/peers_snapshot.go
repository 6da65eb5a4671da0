package broker

import (
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"weir/broker/peer"
	"weir/protocol"
)

// transfer is a Raft message with a snapshot on its way to a member, piece after piece: the next one goes when the one
// before has arrived. That leaves the receiver the time to take them, and costs a round trip for each MiB.
type transfer struct {
	to     uint64
	number uint64
	whole  []byte
	sent   int
}

// sendSnapshot begins to send a message with a snapshot. How it ends is told to the node, once. While another one is on its
// way to the same member it is left out: Raft asks for one again when it knows how that ended.
func (p *peers) sendSnapshot(m *raftpb.Message) {
	whole, err := proto.Marshal(m)
	if err != nil {
		p.o.Logger.Error("a snapshot cannot be written", "error", err)
		p.o.Node.SnapshotSent(m.GetTo(), false)
		return
	}
	if t := p.beginTransfer(m.GetTo(), whole); t != nil {
		p.o.Logger.Info("sending a snapshot of the metadata", append(p.named(t.to), "bytes", len(whole))...)
		p.sendPiece(t)
	}
}

func (p *peers) beginTransfer(to uint64, whole []byte) *transfer {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.mu.transfers[to] != nil {
		return nil
	}
	p.mu.lastSent++
	t := &transfer{to: to, number: p.mu.lastSent, whole: whole}
	p.mu.transfers[to] = t
	return t
}

// sendPiece sends the next piece. Only one is under way, so t needs no lock.
func (p *peers) sendPiece(t *transfer) {
	end := min(t.sent+peer.ChunkBytes, len(t.whole))
	piece := peer.Chunk{Sender: p.o.RaftID(), Transfer: t.number, Size: uint64(len(t.whole)), Offset: uint64(t.sent), Data: t.whole[t.sent:end]}
	body := protocol.NewBuffer(0)
	defer body.Free()
	body.B = piece.AppendTo(body.B)
	err := p.pool.Send(t.to, peer.Purpose{Traffic: peer.Snapshots}, peer.Call{Request: p.request(protocol.PeerSnapshot, body.B), Done: func(answer []byte, err error) {
		if err == nil {
			_, err = peer.Answer(answer)
		}
		if t.sent = end; err == nil && end < len(t.whole) {
			p.sendPiece(t)
			return
		}
		p.endTransfer(t, err)
	}})
	if err != nil {
		p.endTransfer(t, err)
	}
}

func (p *peers) endTransfer(t *transfer, err error) {
	p.mu.Lock()
	delete(p.mu.transfers, t.to)
	p.mu.Unlock()
	if err != nil {
		p.o.Logger.Warn("a snapshot of the metadata did not arrive", append(p.named(t.to), "sent", t.sent, "bytes", len(t.whole), "error", err)...)
	}
	p.o.Node.SnapshotSent(t.to, err == nil)
}
