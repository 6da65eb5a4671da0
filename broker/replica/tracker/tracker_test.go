package tracker

import (
	"testing"

	"weir/internal/kafka"
)

func TestHighWatermarkFollowsTheSlowestInSyncReplica(t *testing.T) {
	l := NewLeader(1, []kafka.BrokerID{1, 2, 3}, 2, 10, 4)
	if hw := l.HighWatermark(); hw != 4 {
		t.Fatalf("before any follower fetched: high watermark %d, want 4", hw)
	}
	l.LogEnd(2, 9)
	if hw := l.LogEnd(3, 7); hw != 7 {
		t.Fatalf("high watermark %d, want 7", hw)
	}
	if hw := l.LogEnd(3, 5); hw != 7 {
		t.Fatalf("high watermark went back to %d", hw)
	}
	if hw := l.SetISR([]kafka.BrokerID{1, 2}, 2); hw != 9 {
		t.Fatalf("after the slow replica left: high watermark %d, want 9", hw)
	}
}

func TestHighWatermarkStandsStillUnderMinISR(t *testing.T) {
	l := NewLeader(1, []kafka.BrokerID{1}, 2, 10, 4)
	if hw := l.LogEnd(1, 12); hw != 4 || !l.UnderMinISR() {
		t.Fatalf("high watermark %d with one of two required replicas, want 4", hw)
	}
	if hw := l.SetISR([]kafka.BrokerID{1}, 1); hw != 12 {
		t.Fatalf("high watermark %d once the minimum is met, want 12", hw)
	}
}
