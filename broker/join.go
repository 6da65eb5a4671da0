package broker

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/broker/peer"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
	"weir/log"
	"weir/protocol"
)

const (
	// joinTimeout is how long a member of the cluster may take to answer a node that joins: it may have to open a listener, and
	// to find the controller.
	joinTimeout = 5 * time.Second
	// checkTimeout is how long a node that belongs to a cluster asks at its start whether the others belong to it too.
	checkTimeout = time.Second
)

// joinRequest is the body of protocol.PeerJoin: as which node the directory is to join. NoBroker leaves that to the cluster.
type joinRequest struct {
	Directory kafka.DirectoryID
	Node      kafka.BrokerID
}

// joinAnswer is its answer. Members are some of those who know the rest of the cluster.
type joinAnswer struct {
	ClusterID string
	Node      kafka.BrokerID
	Members   []metadata.QuorumMember
	GossipKey metadata.GossipKey
}

// takeIn is peersOptions.Join: it has the controller say as which node another one joins. Done again for the same directory it
// says the same.
func (b *Broker) takeIn(body []byte, done func([]byte, error)) {
	clusterID := b.clusterID()
	if clusterID == "" {
		done(nil, kafka.Errorf(kafka.BrokerNotAvailable, "This node belongs to no cluster yet."))
		return
	}
	r := joinRequest{Node: kafka.NoBroker}
	if err := json.Unmarshal(body, &r); err != nil {
		done(nil, kafka.Errorf(kafka.InvalidRequest, "What the node that joins says of itself cannot be read: %v", err))
		return
	}
	b.withGossipKey(func(err error) {
		if err != nil {
			done(nil, err)
			return
		}
		cmd := controller.JoinNode{ClusterID: clusterID, Directory: r.Directory, Node: r.Node}
		b.node.SubmitAsync(cmd, func(reply controller.Reply, err error) {
			if err != nil {
				done(nil, b.whereItIs(r.Node, err))
				return
			}
			done(json.Marshal(joinAnswer{ClusterID: clusterID, Node: reply.(controller.JoinNodeReply).Node,
				Members: b.contacts(), GossipKey: b.node.Image().GossipKey}))
		})
	})
}

// withGossipKey calls then when the cluster has a gossip key. One that was founded by a node that was alone, or by an older
// version, has none before.
func (b *Broker) withGossipKey(then func(error)) {
	if b.node.Image().GossipKey != nil {
		then(nil)
		return
	}
	key := make(metadata.GossipKey, metadata.GossipKeySize)
	_, _ = rand.Read(key) // it never fails
	b.node.SubmitAsync(controller.SetGossipKey{Key: key}, func(_ controller.Reply, err error) { then(err) })
}

// whereItIs adds to the refusal of a node id where the node is that has it.
func (b *Broker) whereItIs(node kafka.BrokerID, err error) error {
	r, known := b.node.Image().Brokers.ByID(node)
	if kafka.CodeOf(err) != kafka.DuplicateBrokerRegistration || !known || len(r.Listeners) == 0 {
		return err
	}
	e := r.Listeners[0]
	return kafka.Errorf(kafka.DuplicateBrokerRegistration, "%v Node %d of this cluster is %s.", err, node, net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port))))
}

// contacts are members that a node which joins can get its log from: this one, and those that may lead.
func (b *Broker) contacts() []metadata.QuorumMember {
	var contacts []metadata.QuorumMember
	if self, ok := b.node.Image().Quorum.ByRaftID(b.raftID()); ok {
		contacts = append(contacts, self)
	}
	for _, m := range b.voters() {
		if m.RaftID != b.raftID() {
			contacts = append(contacts, m)
		}
	}
	return contacts
}

// join settles as which node of which cluster this one joins. It asks until a member of a cluster has answered, a contradiction
// shows that waiting does not help, or ctx ends.
func (b *Broker) join(ctx context.Context, dir kafka.DirectoryID, known log.Identity) (log.Identity, error) {
	known.ClusterID = cmp.Or(known.ClusterID, b.Config.ClusterID)
	var said time.Time
	for begin := b.Clock.Now(); ; {
		failures := make(map[string]error)
		for _, address := range b.Config.Join {
			answer, err := b.askToJoin(ctx, address, dir, known)
			if err == nil {
				return b.joined(answer)
			}
			if errors.Is(err, context.DeadlineExceeded) && speaksHTTP(ctx, b.founding.dial, address) {
				err = &NotWeirError{address, "it is a web server"}
			}
			if isFinal(err) {
				return known, fmt.Errorf("join the cluster of %s: %w", address, err)
			}
			failures[address] = err
		}
		if now := b.Clock.Now(); now.Sub(begin) >= greetingTimeout && now.Sub(said) >= waitingLog {
			b.Logger.Info("waiting to join a cluster", "reason", reasons(failures))
			said = now
		}
		if !clock.Sleep(b.Clock, greetingInterval, ctx.Done()) {
			return known, fmt.Errorf("waiting to join a cluster: %s: %w", reasons(failures), ctx.Err())
		}
	}
}

// askToJoin asks one node, at any address of it.
func (b *Broker) askToJoin(ctx context.Context, address string, dir kafka.DirectoryID, known log.Identity) (answer joinAnswer, err error) {
	ctx, cancel := context.WithTimeout(ctx, joinTimeout)
	defer cancel()
	d, err := Discover(ctx, b.founding.dial, address)
	switch {
	case err != nil:
		return answer, err
	case d.ClusterID == "" || d.Port == 0:
		return answer, fmt.Errorf("the node at %s belongs to no cluster yet", address)
	case known.ClusterID != "" && d.ClusterID != known.ClusterID:
		return answer, kafka.Errorf(kafka.InconsistentClusterID, "the node at %s belongs to cluster %s, and this one is to belong to cluster %s", address, d.ClusterID, known.ClusterID)
	}
	body, err := json.Marshal(joinRequest{Directory: dir, Node: known.NodeID})
	if err != nil {
		return answer, err
	}
	body, err = peer.Ask(ctx, b.founding.dial, d.PeerAddress(), &protocol.PeerRequest{Kind: protocol.PeerJoin, ClusterID: &d.ClusterID, Body: body})
	if err != nil {
		return answer, err
	}
	if err := json.Unmarshal(body, &answer); err != nil || answer.ClusterID != d.ClusterID || answer.Node < 0 || len(answer.Members) == 0 {
		return answer, kafka.Errorf(kafka.InvalidRequest, "what the node at %s answers to one that joins cannot be read: %v", d.PeerAddress(), err)
	}
	return answer, nil
}

// isFinal reports whether a refusal is one that waiting does not heal.
func isFinal(err error) bool {
	switch kafka.CodeOf(err) {
	case kafka.InvalidConfig, kafka.InvalidRequest, kafka.InconsistentClusterID, kafka.DuplicateBrokerRegistration, kafka.InvalidRegistration:
		return true
	}
	return false
}

// reasons says why nobody could be joined, address by address.
func reasons(failures map[string]error) string {
	var texts []string
	for _, address := range slices.Sorted(maps.Keys(failures)) {
		texts = append(texts, address+": "+reason(failures[address]))
	}
	return strings.Join(texts, "; ")
}

// reason leaves the address out of an error that names it.
func reason(err error) string {
	var connection *peer.ConnectionError
	if errors.As(err, &connection) {
		err = connection.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	return err.Error()
}

// joined takes the answer. From here on the node has all that it needs, whatever becomes of this process or of that member.
func (b *Broker) joined(answer joinAnswer) (log.Identity, error) {
	b.Logger.Info("joining a cluster", "cluster", answer.ClusterID, "node", answer.Node)
	b.asked = true
	b.gossip.setKey(answer.GossipKey)
	return log.Identity{ClusterID: answer.ClusterID, NodeID: answer.Node, Joined: true}, b.keepContacts(answer.Members)
}

// keepContacts remembers from whom the node gets its log.
func (b *Broker) keepContacts(members []metadata.QuorumMember) error {
	b.founded.Join, b.peerNote.Contacts = members, members
	return b.peerNote.write(b.FS, metadataPath(b.Config))
}

// joinsAgain settles the same for a node that was taken in, and then died before it had a log.
func (b *Broker) joinsAgain(known log.Identity) (log.Identity, error) {
	if len(b.peerNote.Contacts) == 0 {
		return known, kafka.Errorf(kafka.InvalidConfig, "the metadata directory %s is that of node %d, which joined cluster %s, and has no metadata log: --join with a member of that cluster gets it one",
			metadataPath(b.Config), known.NodeID, known.ClusterID)
	}
	b.founded.Join = b.peerNote.Contacts
	return known, nil
}

// checkJoin compares the cluster that this node belongs to with the one that it is told to join. That nobody answers is no
// reason not to start: the seeds may be gone for long.
func (b *Broker) checkJoin(ctx context.Context) error {
	if len(b.Config.Join) == 0 || b.asked {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	type result struct {
		address string
		Discovery
		err error
	}
	results := make(chan result, len(b.Config.Join))
	for _, address := range b.Config.Join {
		go func() {
			d, err := Discover(ctx, b.founding.dial, address)
			results <- result{address, d, err}
		}()
	}
	failures := make(map[string]error)
	for range b.Config.Join {
		r := <-results
		switch {
		case r.err != nil:
			failures[r.address] = r.err
		case r.ClusterID == b.store.ClusterID():
			return nil
		case r.ClusterID != "":
			return kafka.Errorf(kafka.InconsistentClusterID, "data directory %s belongs to cluster %s, and the node at %s to cluster %s: only a node without data joins a cluster (--join)",
				b.store.MetadataDir(), b.store.ClusterID(), r.address, r.ClusterID)
		}
	}
	b.Logger.Warn("nobody to be joined answers; this node belongs to a cluster already and starts", "cluster", b.store.ClusterID(), "reason", reasons(failures))
	return nil
}
