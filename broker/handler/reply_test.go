package handler

import (
	"testing"

	"weir/protocol"
)

// countedBody counts its releases.
type countedBody struct {
	protocol.FetchResponse
	released int
}

func (b *countedBody) Release() { b.released++ }

func TestPendingIsCompletedOnce(t *testing.T) {
	p, first, second := NewPending(), &countedBody{}, &countedBody{}
	told := false
	p.OnAbandon(func() { told = true })
	p.Complete(first)
	p.Complete(second)
	<-p.Done()
	if p.Body() != protocol.Body(first) || first.released != 0 || second.released != 1 {
		t.Fatalf("released %d and %d times; the first answer counts and the second is let go", first.released, second.released)
	}
	p.Abandon()
	if first.released != 1 || told {
		t.Fatalf("an answer that is not sent was released %d times, who made it was told: %t", first.released, told)
	}
}

func TestPendingThatIsAbandonedIsNotSent(t *testing.T) {
	p, body := NewPending(), &countedBody{}
	told := 0
	p.OnAbandon(func() { told++ })
	p.Abandon()
	p.Abandon()
	p.Complete(body)
	<-p.Done()
	if p.Body() != nil || body.released != 1 || told != 1 {
		t.Fatalf("body %v, released %d times, told %d times", p.Body(), body.released, told)
	}
}
