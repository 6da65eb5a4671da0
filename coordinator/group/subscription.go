package group

import "encoding/binary"

// subscriptions collects what the members of this generation subscribe to. It returns nil where that cannot be known: the
// protocol is not that of consumers, or somebody's bytes are not what a consumer writes.
func (g *classic) subscriptions() map[string]struct{} {
	if g.protocolType != consumerProtocol {
		return nil
	}
	topics := make(map[string]struct{})
	for _, m := range g.list {
		if !parseSubscription(m.metadata(g.protocol), topics) {
			return nil
		}
	}
	return topics
}

// parseSubscription adds the topics that a ConsumerProtocolSubscription names. Every version begins as version 0 does:
//
//	version int16, topics []string, user data nullable bytes
//
// The rest is not looked at, so that versions to come are understood. It reports false where even that is not there.
func parseSubscription(b []byte, topics map[string]struct{}) bool {
	r := subscriptionReader{b: b, ok: true}
	r.take(2) // the version
	n := int32(r.number(4))
	if n < 0 {
		return false
	}
	for ; n > 0 && r.ok; n-- {
		name := r.take(int(int16(r.number(2))))
		if !r.ok {
			return false
		}
		if _, known := topics[string(name)]; !known {
			topics[string(name)] = struct{}{}
		}
	}
	if userData := int32(r.number(4)); userData > 0 {
		r.take(int(userData))
	}
	return r.ok
}

// subscriptionReader reads big-endian fields until one is not there.
type subscriptionReader struct {
	b  []byte
	ok bool
}

func (r *subscriptionReader) take(n int) []byte {
	if !r.ok || n < 0 || n > len(r.b) {
		r.ok = false
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// number reads an unsigned number of 2 or 4 bytes.
func (r *subscriptionReader) number(size int) uint32 {
	b := r.take(size)
	switch {
	case !r.ok:
		return 0
	case size == 2:
		return uint32(binary.BigEndian.Uint16(b))
	}
	return binary.BigEndian.Uint32(b)
}
