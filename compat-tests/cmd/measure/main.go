// Command measure prints how fast the weir binary starts, how much memory it takes, how long groups take (a thousand members
// of one, the first record of a new one, committed offsets after a start), and what members take that are idle. It asserts
// nothing: figures of a loaded machine are lower bounds. How fast the groups of another broker are is measured beside it
// where WEIR_COMPAT_BOOTSTRAP names one.
//
//	measure [-n STARTS]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"weir/compat-tests/harness"
)

func main() {
	starts := flag.Int("n", 20, "how often to start the broker")
	flag.Parse()
	if err := measure(*starts); err != nil {
		fmt.Fprintln(os.Stderr, "measure:", err)
		os.Exit(1)
	}
}

// sample is what starting a broker twice on one folder gives.
type sample struct {
	ready, answer   time.Duration // from the first start of the process
	idle            int64         // resident bytes, a second after the first start
	restart, record time.Duration // from the second start: ready; a topic created and a record acknowledged
	used            int64         // resident bytes, after some load
}

func measure(starts int) error {
	binary, err := harness.Binary()
	if err != nil {
		return err
	}
	info, err := os.Stat(binary)
	if err != nil {
		return err
	}
	floor, err := timeVersion(binary, starts)
	if err != nil {
		return err
	}
	var samples []sample
	for range starts {
		s, err := measureOne(binary)
		if err != nil {
			return err
		}
		samples = append(samples, s)
	}
	head(fmt.Sprintf("of %d starts", starts))
	row("weir version, ms", column(floor, ms))
	row("start to ready, empty folder, ms", column(samples, func(s sample) float64 { return ms(s.ready) }))
	row("start to first answer, ms", column(samples, func(s sample) float64 { return ms(s.answer) }))
	row("start to ready, after a clean stop, ms", column(samples, func(s sample) float64 { return ms(s.restart) }))
	row("start to a first record in a new topic, ms", column(samples, func(s sample) float64 { return ms(s.record) }))
	row("resident when idle, MiB", column(samples, func(s sample) float64 { return mib(s.idle) }))
	row("resident after 10,000 records of 1 KiB, MiB", column(samples, func(s sample) float64 { return mib(s.used) }))
	row("size of the binary, MiB", []float64{mib(info.Size())})
	return measureGroups(binary)
}

// timeVersion is the least that any verb of the binary takes.
func timeVersion(binary string, n int) ([]time.Duration, error) {
	var times []time.Duration
	for range n {
		start := time.Now()
		if out, err := exec.Command(binary, "version").CombinedOutput(); err != nil {
			return nil, fmt.Errorf("weir version: %w: %s", err, out)
		}
		times = append(times, time.Since(start))
	}
	return times, nil
}

func measureOne(binary string) (s sample, err error) {
	dir, err := os.MkdirTemp("", "weir-measure-")
	if err != nil {
		return s, err
	}
	defer os.RemoveAll(dir)
	options := harness.Options{Binary: binary, DataDir: filepath.Join(dir, "data"), LogFile: filepath.Join(dir, "log")}
	for _, step := range []func(*sample, time.Time, *harness.Process, *kgo.Client) error{measureStart, measureUse} {
		if err := withBroker(options, func(start time.Time, p *harness.Process, c *kgo.Client) error { return step(&s, start, p, c) }); err != nil {
			log, _ := os.ReadFile(options.LogFile)
			return s, fmt.Errorf("%w\n%s", err, log)
		}
	}
	return s, nil
}

// withBroker starts a broker, does something with it, and stops it.
func withBroker(o harness.Options, do func(start time.Time, p *harness.Process, c *kgo.Client) error) error {
	start := time.Now()
	p, err := harness.Launch(o)
	if err != nil {
		return err
	}
	defer p.Kill()
	client, err := kgo.NewClient(kgo.SeedBrokers(p.Address), kgo.MetadataMinAge(10*time.Millisecond), kgo.DisableClientMetrics())
	if err != nil {
		return err
	}
	defer client.Close()
	if err := do(start, p, client); err != nil {
		return err
	}
	return p.Stop()
}

func measureStart(s *sample, start time.Time, p *harness.Process, client *kgo.Client) (err error) {
	s.ready = p.ReadyTime
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	s.answer = time.Since(start)
	time.Sleep(time.Second)
	s.idle, err = p.RSS()
	return err
}

func measureUse(s *sample, start time.Time, p *harness.Process, client *kgo.Client) (err error) {
	s.restart = p.ReadyTime
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := kadm.NewClient(client).CreateTopic(ctx, 1, 1, nil, "measure"); err != nil {
		return err
	}
	record := func() *kgo.Record { return &kgo.Record{Topic: "measure", Value: make([]byte, 1024)} }
	if err := client.ProduceSync(ctx, record()).FirstErr(); err != nil {
		return err
	}
	s.record = time.Since(start)
	var batch []*kgo.Record
	for range 10000 {
		batch = append(batch, record())
	}
	if err := client.ProduceSync(ctx, batch...).FirstErr(); err != nil {
		return err
	}
	s.used, err = p.RSS()
	return err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func mib(n int64) float64        { return float64(n) / (1 << 20) }

func column[T any](samples []T, value func(T) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	return values
}

func head(what string) { fmt.Printf("%-72s %10s %10s %10s\n", what, "median", "least", "most") }

func row(name string, values []float64) {
	slices.Sort(values)
	fmt.Printf("%-72s %10.1f %10.1f %10.1f\n", name, values[len(values)/2], values[0], values[len(values)-1])
}
