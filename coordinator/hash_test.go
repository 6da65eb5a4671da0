package coordinator

import "testing"

// The numbers are what Java says of Math.abs(key.hashCode()) % n.
func TestPartitionForIsKafkas(t *testing.T) {
	for _, c := range []struct {
		key     string
		n, want int32
	}{
		{"", 50, 0},
		{"abc", 1 << 30, 96354},
		{"abc", 50, 4},
		{"hello", 1 << 30, 99162322},
		{"my-group", 1 << 30, 832755938}, // -1906497762 before
		{"my-group", 50, 12},
		{"console-consumer-12345", 50, 6},
		{"polygenelubricants", 50, 0}, // the least integer, of which there is no positive
		{"groüp", 1 << 30, 98633432},
		{"\U0001F600", 1 << 30, 1772899}, // two UTF-16 units
		{"orders.v1/ü", 50, 45},
	} {
		if got := PartitionFor(c.key, c.n); got != c.want {
			t.Errorf("PartitionFor(%q, %d) = %d, want %d", c.key, c.n, got, c.want)
		}
	}
}
