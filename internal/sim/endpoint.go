package sim

import (
	"slices"
	"time"

	"weir/broker/replica"
	"weir/internal/kafka"
)

// endpoint carries a follower's fetches to its leaders, as package broker does over its connections: with the broker's
// id and epoch, and the fetch sessions (KIP-227).
type endpoint struct {
	p        *process
	sessions map[endpointKey]*endpointSession
}

type endpointKey struct {
	leader  kafka.BrokerID
	fetcher int
}

// endpointSession is what the follower knows of a session.
type endpointSession struct {
	id    int // 0: none
	epoch int
}

var _ replica.LeaderEndpoint = (*endpoint)(nil)

// followerFetch is a fetch on its way.
type followerFetch struct {
	replica.FetchRequest
	follower     kafka.BrokerID
	brokerEpoch  kafka.BrokerEpoch
	life         int // of the follower's process: of a session's owner
	session      int
	sessionEpoch int
}

type followerAnswer struct {
	replica.FetchResponse
	session int
	err     error
}

// Fetch sends a request to the leader's host.
func (e *endpoint) Fetch(leader kafka.BrokerID, r *replica.FetchRequest, done func(replica.FetchResponse, error)) {
	p := e.p
	key := endpointKey{leader, r.Fetcher}
	own := e.sessions[key]
	if own == nil {
		own = &endpointSession{}
		e.sessions[key] = own
	}
	if r.Full {
		*own = endpointSession{}
	}
	f := &followerFetch{FetchRequest: *r, follower: p.n.id, life: p.host.life, session: own.id, sessionEpoch: own.epoch, brokerEpoch: p.brokerEpoch()}
	f.Partitions, f.Forgotten = slices.Clone(r.Partitions), slices.Clone(r.Forgotten)
	target := p.s.node(leader)
	timeout := time.Duration(r.MaxWaitMs)*time.Millisecond + callTimeout
	call(p.s.net, p.host.id, target.host.id, timeout, func(reply func(followerAnswer)) { target.proc.serveFollower(f, reply) },
		func(a followerAnswer, err error) {
			if err == nil {
				err = a.err
			}
			if err != nil {
				*own = endpointSession{}
				done(replica.FetchResponse{}, err)
				return
			}
			*own = endpointSession{id: a.session, epoch: f.sessionEpoch + 1}
			a.Session = a.session != 0
			done(a.FetchResponse, nil)
		})
}

// listedOffsets answers Offsets.
type listedOffsets struct {
	start, end int64
	err        error
}

// Offsets asks the leader where its log begins and ends.
func (e *endpoint) Offsets(leader kafka.BrokerID, f replica.FetchPartition, done func(startOffset, endOffset int64, err error)) {
	p := e.p
	target := p.s.node(leader)
	call(p.s.net, p.host.id, target.host.id, callTimeout, func(reply func(listedOffsets)) { reply(target.proc.serveOffsets(f)) },
		func(o listedOffsets, err error) {
			if err == nil {
				err = o.err
			}
			p.s.rare.count(rareOutOfRangeFollower)
			done(o.start, o.end, err)
		})
}
