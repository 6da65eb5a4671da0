package cluster

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"weir/cluster/controller"
	"weir/internal/clock"
	"weir/internal/vfs"
)

// onDisk starts a node on the machine's disk and clock.
func onDisk(b *testing.B, dir string, incarnation byte) *Node {
	o := options(vfs.OS(), incarnation)
	o.MetadataDir, o.Clock = dir, clock.System()
	n := New(o)
	if err := n.Start(context.Background()); err != nil {
		b.Fatal(err)
	}
	return n
}

func BenchmarkCreate10000PartitionsInOneCommand(b *testing.B) {
	n := onDisk(b, b.TempDir(), 1)
	defer n.Close()
	i := 0
	for b.Loop() {
		i++
		if _, err := n.Submit(context.Background(), create(fmt.Sprintf("t%d", i), 10_000)); err != nil {
			b.Fatal(err)
		}
	}
}

// 1,000 clients create a topic each at the same moment.
func BenchmarkCreate1000TopicsAtOnce(b *testing.B) {
	n := onDisk(b, b.TempDir(), 1)
	defer n.Close()
	i := 0
	for b.Loop() {
		i++
		before := n.Image().Index
		var clients sync.WaitGroup
		for c := range 1000 {
			clients.Go(func() {
				if _, err := n.Submit(context.Background(), create(fmt.Sprintf("t%d.%d", i, c), 1)); err != nil {
					b.Error(err)
				}
			})
		}
		clients.Wait()
		b.ReportMetric(float64(n.Image().Index-before), "entries/op")
	}
}

// One client, one command after the other: what a sync of the disk costs.
func BenchmarkCreateTopic(b *testing.B) {
	n := onDisk(b, b.TempDir(), 1)
	defer n.Close()
	i := 0
	for b.Loop() {
		i++
		if _, err := n.Submit(context.Background(), create(fmt.Sprintf("t%d", i), 1)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStartFresh(b *testing.B) {
	dir := b.TempDir()
	i := 0
	for b.Loop() {
		i++
		if err := onDisk(b, filepath.Join(dir, fmt.Sprint(i)), 1).Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// Another start of a broker that leads 10,000 partitions.
func BenchmarkStartAgain10000Partitions(b *testing.B) {
	dir := b.TempDir()
	n := onDisk(b, dir, 1)
	for t := range 10 {
		if _, err := n.Submit(context.Background(), create(fmt.Sprintf("t%d", t), 1000)); err != nil {
			b.Fatal(err)
		}
	}
	if err := n.Close(); err != nil {
		b.Fatal(err)
	}
	incarnation := byte(1)
	for b.Loop() {
		incarnation++
		if err := onDisk(b, dir, incarnation).Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// Decisions and images alone, without a disk: 1,000 commands of one topic each.
func BenchmarkDecide1000Commands(b *testing.B) {
	d := drive(b, options(newDisk(), 1))
	img := d.node.Image()
	for b.Loop() {
		next := img
		for c := range 1000 {
			records, _, err := controller.Decide(&d.node.o.Settings, next, controller.Leases{}, start, create(fmt.Sprintf("t%d", c), 1))
			if err == nil {
				next, _, err = next.With(records)
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}
