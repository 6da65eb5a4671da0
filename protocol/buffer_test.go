package protocol

import "testing"

func TestBuffersHoldWhatIsAsked(t *testing.T) {
	for _, n := range []int{0, 1, 4095, 4096, 4097, 65536, 65537, 1 << 20, 8 << 20, 8<<20 + 1} {
		b := NewBuffer(n)
		if len(b.B) != 0 || cap(b.B) < n || n > 4096 && cap(b.B) >= 2*n {
			t.Errorf("asked for %d: length %d, capacity %d", n, len(b.B), cap(b.B))
		}
		b.Free()
	}
}

func TestAGrownBufferGoesWhereItFits(t *testing.T) {
	for range 100 { // pools may forget, and lose on purpose under the race detector
		b := NewBuffer(100)
		b.B = append(b.B, make([]byte, 5000)...)
		b.Free()
		if c := NewBuffer(4097); cap(c.B) < 4097 {
			t.Fatalf("asked for 4097, got %d", cap(c.B))
		}
	}
}
