package broker

import (
	"encoding/json"
	"fmt"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"weir/broker/handler"
	"weir/broker/peer"
	"weir/cluster"
	"weir/cluster/controller"
	"weir/internal/kafka"
	"weir/protocol"
)

// Handle answers a request of protocol.PeerKey. On listeners for clients the edge lets PeerDiscover pass only.
func (p *peers) Handle(r *handler.Request) handler.Reply {
	req := r.Body.(*protocol.PeerRequest)
	if err := p.checkCluster(req); err != nil {
		return handler.Now(peer.Refusal(err))
	}
	switch req.Kind {
	case protocol.PeerRaft:
		return p.receive(req.Body)
	case protocol.PeerSnapshot:
		return p.receivePiece(req.Body)
	case protocol.PeerCommand:
		return p.decide(req.Body)
	case protocol.PeerDiscover:
		return p.discover()
	case protocol.PeerFounding:
		if p.o.Founding != nil {
			return handler.Now(peerAnswer(p.o.Founding(req.Body)))
		}
	case protocol.PeerJoin:
		if p.o.Join != nil {
			return p.join(req.Body)
		}
	}
	return handler.Now(peer.Refusal(kafka.Errorf(kafka.InvalidRequest, "This node takes no request of kind %d from other nodes.", req.Kind)))
}

// checkCluster refuses nodes of another cluster: two of them must never mix. Whoever founds, discovers or joins may have
// none yet; and this node may be of the same one in a moment, so that commands are to be tried again.
func (p *peers) checkCluster(r *protocol.PeerRequest) error {
	own := p.o.ClusterID()
	switch r.Kind {
	case protocol.PeerDiscover, protocol.PeerFounding:
		return nil
	case protocol.PeerJoin:
		if r.ClusterID == nil {
			return nil
		}
	}
	switch {
	case r.ClusterID != nil && *r.ClusterID == own && own != "":
		return nil
	case own == "":
		return kafka.Errorf(kafka.NotController, "This node belongs to no cluster yet, and the request comes from a node of %s.", clusterName(r.ClusterID))
	}
	return kafka.Errorf(kafka.InconsistentClusterID, "This node belongs to cluster %s, and the request comes from a node of %s.", own, clusterName(r.ClusterID))
}

func clusterName(id *string) string {
	if id == nil || *id == "" {
		return "no cluster"
	}
	return "cluster " + *id
}

func peerAnswer(body []byte, err error) *protocol.PeerResponse {
	if err != nil {
		return peer.Refusal(err)
	}
	return &protocol.PeerResponse{Body: body}
}

// receive takes a list of Raft messages. What a node of the cluster would not send ends the connection.
func (p *peers) receive(list []byte) handler.Reply {
	var messages []*raftpb.Message
	for len(list) > 0 {
		var one []byte
		var err error
		if one, list, err = peer.CutMessage(list); err != nil {
			return handler.Close(err)
		}
		m, err := p.readMessage(one)
		if err != nil {
			return handler.Close(err)
		}
		if m != nil {
			messages = append(messages, m)
		}
	}
	if len(messages) > 0 {
		p.o.Node.Receive(messages)
	}
	return handler.Now(&protocol.PeerResponse{})
}

// readMessage reads a Raft message, which keeps nothing of its bytes; nil for one to another member. That comes to this
// node where it has the address of the other one, such as after the loss of a disk, and must not be taken for its own:
// Raft does not look.
func (p *peers) readMessage(b []byte) (*raftpb.Message, error) {
	m := new(raftpb.Message)
	if err := proto.Unmarshal(b, m); err != nil {
		return nil, fmt.Errorf("a Raft message cannot be read: %w", err)
	}
	if own := p.o.RaftID(); m.GetTo() != own {
		p.o.Logger.Debug("a Raft message to another node came here", "from", m.GetFrom(), "to", m.GetTo(), "own", own)
		return nil, nil
	}
	return m, nil
}

// receivePiece takes a piece of a Raft message with a snapshot.
func (p *peers) receivePiece(body []byte) handler.Reply {
	var piece peer.Chunk
	if err := piece.ReadFrom(body); err != nil {
		return handler.Close(err)
	}
	p.assembly.Lock()
	whole, err := p.assembly.Add(&piece)
	p.assembly.Unlock()
	if err != nil {
		return handler.Now(peer.Refusal(err))
	}
	if whole != nil {
		m, err := p.readMessage(whole)
		if err != nil {
			return handler.Close(err)
		}
		if m != nil {
			p.o.Node.Receive([]*raftpb.Message{m})
		}
	}
	return handler.Now(&protocol.PeerResponse{})
}

// decide has the node decide a command.
func (p *peers) decide(text []byte) handler.Reply {
	cmd, err := controller.DecodeCommand(text)
	if err != nil {
		return handler.Now(peer.Refusal(err))
	}
	pending := handler.NewPending()
	p.o.Node.Decide(cmd, func(answer cluster.Answer, err error) {
		if err != nil {
			pending.Complete(peer.Refusal(err))
			return
		}
		pending.Complete(&commandAnswer{answer: answer})
	})
	return handler.Later(pending)
}

// commandAnswer is the answer to a command. It is written as text by whoever sends it: the goroutine that decides, or
// publishes, has better to do.
type commandAnswer struct {
	protocol.PeerResponse
	answer cluster.Answer
}

// AppendTo implements protocol.MessageBody.
func (a *commandAnswer) AppendTo(dst []byte) []byte {
	return peerAnswer(controller.EncodeAnswer(a.answer.Reply, a.answer.Index)).AppendTo(dst)
}

func (p *peers) discover() handler.Reply {
	pending := handler.NewPending()
	p.o.Discover(func(d Discovery, err error) {
		var body []byte
		if err == nil {
			body, err = json.Marshal(d)
		}
		pending.Complete(peerAnswer(body, err))
	})
	return handler.Later(pending)
}

func (p *peers) join(body []byte) handler.Reply {
	pending := handler.NewPending()
	p.o.Join(body, func(body []byte, err error) { pending.Complete(peerAnswer(body, err)) })
	return handler.Later(pending)
}
