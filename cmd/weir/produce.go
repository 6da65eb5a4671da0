package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// noPartition leaves the choice to the key.
const noPartition = -1

// produceFlags are those of `weir produce` that shape the request; inputFlags those that shape the records.
type produceFlags struct {
	clientFlags
	input           inputFlags
	partition       int32
	keepPartition   bool
	acks            string
	compression     string
	maxMessageBytes int32
	autoCreate      bool
	verbose         bool
}

func newProduceCommand() *cobra.Command {
	flags := new(produceFlags)
	cmd := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Send records from standard input, one a line",
		Long: `Send records from standard input to a topic: one a line, or in the form that --format or --input gives.

An error ends the command with exit code 1; records that were acknowledged before it stay. --format takes the layouts
of franz-go's RecordReader: %k key, %v value, %h{...} headers, %p partition, %d timestamp, %K %V sizes, and so on.`,
		Example: `  echo hello | weir produce orders
  echo 'id-1:hello' | weir produce orders --key-separator :
  weir produce orders --format '%k\t%v\n' --compression zstd < table.tsv
  weir consume orders -o json -e | weir produce copy -i json --keep-partition`,
		Args:              positional(cobra.ExactArgs(1)),
		ValidArgsFunction: completeFirst(flags.completeTopics),
		RunE:              func(cmd *cobra.Command, args []string) error { return flags.produce(cmd, args[0]) },
	}
	flags.clientFlags.register(cmd)
	flags.input.register(cmd)
	f := cmd.Flags()
	f.Int32VarP(&flags.partition, "partition", "p", noPartition, "send all records to this partition; by default the key chooses")
	f.BoolVar(&flags.keepPartition, "keep-partition", false, "send each record to the partition that the input names")
	f.StringVar(&flags.acks, "acks", "all", "wait for `all|1|0` acknowledgements")
	f.StringVarP(&flags.compression, "compression", "z", "none", "compress batches: `none|gzip|snappy|lz4|zstd`")
	f.Int32Var(&flags.maxMessageBytes, "max-message-bytes", 1<<20, "largest batch to send")
	f.BoolVar(&flags.autoCreate, "auto-create", true, "let the broker create the topic, if it is set up to")
	f.BoolVarP(&flags.verbose, "verbose", "v", false, "print where each record went: topic[partition]@offset")
	completeWords(cmd, "compression", slices.Sorted(maps.Keys(codecs))...)
	completeWords(cmd, "acks", "all", "1", "0")
	return cmd
}

func (f *produceFlags) produce(cmd *cobra.Command, topic string) error {
	opts, err := f.options(topic)
	if err != nil {
		return err
	}
	read, err := f.input.reader(cmd)
	if err != nil {
		return err
	}
	client, err := f.connect(cmd, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	p := producer{flags: f, client: client, topic: topic, stdout: cmd.OutOrStdout(), failed: make(chan struct{})}
	return p.run(cmd.Context(), read)
}

// options turns flags into the client's options.
func (f *produceFlags) options(topic string) ([]kgo.Opt, error) {
	if f.partition < noPartition {
		return nil, usageErrorf("--partition %d: a partition's number is not negative", f.partition)
	}
	if f.partition != noPartition && f.keepPartition {
		return nil, usageErrorf("--partition and --keep-partition exclude each other")
	}
	codec, ok := codecs[f.compression]
	if !ok {
		return nil, usageErrorf("--compression %q: must be none, gzip, snappy, lz4 or zstd", f.compression)
	}
	opts := []kgo.Opt{
		kgo.DefaultProduceTopic(topic),
		kgo.ProducerBatchCompression(codec),
		kgo.ProducerBatchMaxBytes(f.maxMessageBytes),
		kgo.BrokerMaxWriteBytes(max(f.maxMessageBytes+1<<20, 100<<20)), // room for the request around the batch
	}
	if f.partition != noPartition || f.keepPartition {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	if f.autoCreate {
		opts = append(opts, kgo.AllowAutoTopicCreation())
	}
	switch f.acks {
	case "all", "-1":
	case "1":
		opts = append(opts, kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite())
	case "0":
		opts = append(opts, kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite())
	default:
		return nil, usageErrorf("--acks %q: must be all, 1 or 0", f.acks)
	}
	return opts, nil
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// producer sends what a reader yields until the input ends, the command is interrupted or a record fails.
type producer struct {
	flags  *produceFlags
	client *kgo.Client
	topic  string
	stdout io.Writer
	failed chan struct{} // closed with the first failure

	mu struct {
		sync.Mutex
		acked    int
		waiting  int       // records sent and not yet acknowledged
		progress time.Time // when waiting last fell, or rose from 0
		err      error     // the first failure
	}
}

// input is what a read yielded.
type input struct {
	record *kgo.Record
	err    error
}

// run owns two goroutines. One reads; a read from a terminal cannot be interrupted, so on the way out it is left behind,
// and the process ends right after. The other watches that acknowledgements come.
func (p *producer) run(ctx context.Context, read func() (*kgo.Record, error)) error {
	// What was read before an interrupt is still sent, so only the watcher cancels this.
	sending, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	go p.watch(sending, giveUp)
	inputs := make(chan input)
	go func() {
		for {
			record, err := read()
			select {
			case inputs <- input{record, err}:
			case <-sending.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return p.finish(sending, p.sendAll(ctx, sending, inputs))
}

// sendAll returns the error of the input, nil at its end, after an interrupt, and after a failure that was noted.
func (p *producer) sendAll(ctx, sending context.Context, inputs <-chan input) error {
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil
		case <-p.failed:
			return nil
		case in := <-inputs:
			if errors.Is(in.err, io.EOF) {
				return nil
			}
			if in.err != nil {
				return in.err
			}
			p.send(sending, n, in.record)
		}
	}
}

func (p *producer) send(ctx context.Context, n int, r *kgo.Record) {
	r.Topic = p.topic
	if p.flags.partition != noPartition {
		r.Partition = p.flags.partition
	}
	p.mu.Lock()
	if p.mu.waiting == 0 {
		p.mu.progress = time.Now()
	}
	p.mu.waiting++
	p.mu.Unlock()
	p.client.Produce(ctx, r, func(r *kgo.Record, err error) { p.delivered(n, r, err) })
}

// delivered is called by the client, one record after the other.
func (p *producer) delivered(n int, r *kgo.Record, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mu.waiting--
	p.mu.progress = time.Now()
	if err != nil {
		p.failLocked(fmt.Errorf("record %d: %w", n, p.explain(r, err)))
		return
	}
	p.mu.acked++
	if p.flags.verbose {
		fmt.Fprintf(p.stdout, "%s[%d]@%d\n", r.Topic, r.Partition, r.Offset)
	}
}

// failLocked notes the first failure.
func (p *producer) failLocked(err error) {
	if p.mu.err == nil {
		p.mu.err = err
		close(p.failed)
	}
}

// watch gives up when records have waited for as long as --timeout without one being acknowledged. The client's own
// limit does not serve: it counts from a record's timestamp, which may be that of a record copied from long ago.
func (p *producer) watch(ctx context.Context, giveUp context.CancelFunc) {
	tick := time.NewTicker(max(p.flags.timeout/20, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		stalled := p.mu.waiting > 0 && time.Since(p.mu.progress) > p.flags.timeout
		if stalled {
			p.failLocked(fmt.Errorf("nothing was acknowledged for %v, %d records are waiting", p.flags.timeout, p.mu.waiting))
		}
		p.mu.Unlock()
		if stalled {
			giveUp()
			return
		}
	}
}

// explain says what to do about what most often goes wrong.
func (p *producer) explain(r *kgo.Record, err error) error {
	switch {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("there is no topic %s", p.topic)
	case errors.Is(err, kerr.MessageTooLarge):
		return fmt.Errorf("%d bytes are too many: see --max-message-bytes and the topic's max.message.bytes (%w)", len(r.Key)+len(r.Value), err)
	}
	return err
}

// finish waits for what is under way, for as long as acknowledgements come, and puts the outcome together.
func (p *producer) finish(sending context.Context, inputErr error) error {
	flushErr := p.client.Flush(sending)
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := cmp.Or(p.mu.err, inputErr, flushErr); err != nil {
		return fmt.Errorf("%w (%d records were acknowledged)", err, p.mu.acked)
	}
	return nil
}
