package peer

import (
	"context"
	"errors"
	"testing"

	"weir/internal/kafka"
	"weir/protocol"
)

func TestAsk(t *testing.T) {
	b := startBroker(t, func(c *fakeConn) {
		id, r, err := c.request()
		if err != nil {
			return
		}
		if r.Kind != protocol.PeerDiscover {
			_, _ = c.Write(protocol.AppendResponse(nil, id, Refusal(kafka.Errorf(kafka.InconsistentClusterID, "Not here."))))
			return
		}
		c.answer(id, []byte("here"))
	})
	body, err := Ask(t.Context(), nil, b.address(), &protocol.PeerRequest{Kind: protocol.PeerDiscover})
	if err != nil || string(body) != "here" {
		t.Errorf("%q, %v", body, err)
	}
	_, err = Ask(t.Context(), nil, b.address(), &protocol.PeerRequest{Kind: protocol.PeerJoin})
	if kafka.CodeOf(err) != kafka.InconsistentClusterID || err.Error() != "Not here." {
		t.Error(err)
	}
	b.stop()
	var lost *ConnectionError
	if _, err := Ask(t.Context(), nil, b.address(), &protocol.PeerRequest{}); !errors.As(err, &lost) || lost.Address != b.address() {
		t.Error(err)
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	asked := make(chan struct{})
	b := startBroker(t, func(c *fakeConn) {
		_, _, _ = c.request()
		close(asked)
		c.untilClosed()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-asked
		cancel()
	}()
	if _, err := Ask(ctx, nil, b.address(), &protocol.PeerRequest{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestAskRefusesHostileAnswers(t *testing.T) {
	for _, answer := range []string{"", "\x00\x00\x00\x01x", "\x7f\xff\xff\xff", "\x00\x00\x00\x09\x00\x00\x00\x02\x00\x00\x00\x00\x01", "\x00\x00\x00\x06\x00\x00\x00\x01\x00\x00", "HTTP/1.1 400"} {
		b := startBroker(t, func(c *fakeConn) {
			_, _, _ = c.request()
			_, _ = c.Write([]byte(answer))
		})
		if body, err := Ask(t.Context(), nil, b.address(), &protocol.PeerRequest{}); err == nil {
			t.Errorf("%q is taken as %q", answer, body)
		}
	}
}
