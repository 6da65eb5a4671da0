package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// clientFlags are those of every client verb.
type clientFlags struct {
	bootstrap []string
	timeout   time.Duration
}

// register adds the flags to a verb, or to all verbs below a group.
func (f *clientFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	if cmd.HasSubCommands() {
		flags = cmd.PersistentFlags()
	}
	flags.StringSliceVarP(&f.bootstrap, "bootstrap-server", "b", []string{"localhost:9092"}, "brokers to ask first, `host:port`, separated by commas")
	flags.DurationVar(&f.timeout, "timeout", 10*time.Second, "how long to wait for a broker's answer")
}

// connect makes a client and sees to it that a broker answers, so that a wrong address is an error now and not a long
// silence later.
func (f *clientFlags) connect(cmd *cobra.Command, opts ...kgo.Opt) (*kgo.Client, error) {
	if f.timeout <= 0 {
		return nil, usageErrorf("--timeout %v: must be more than 0", f.timeout)
	}
	logger := &lateLogger{Logger: kgo.BasicLogger(cmd.ErrOrStderr(), kgo.LogLevelWarn, func() string { return "weir: " })}
	opts = append([]kgo.Opt{
		kgo.SeedBrokers(f.bootstrap...),
		kgo.ClientID("weir"),
		kgo.SoftwareNameAndVersion("weir", softwareVersion()),
		kgo.DisableClientMetrics(),
		kgo.DialTimeout(f.timeout),
		kgo.MetadataMinAge(100 * time.Millisecond), // find a topic that was just created
		kgo.RetryTimeout(f.timeout),
		kgo.WithLogger(logger),
	}, opts...)
	client, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, usageError(err)
	}
	ctx, cancel := f.deadline(cmd.Context())
	defer cancel()
	if err := client.Ping(ctx); err != nil {
		client.Close()
		return nil, fmt.Errorf("no broker answers at %s: %w", strings.Join(f.bootstrap, ", "), f.explain(err))
	}
	logger.on.Store(true)
	return client, nil
}

// lateLogger says nothing until it is switched on: the first connection's failure is an error that is returned. Nor does
// it speak of a group: what goes wrong there is an error too, or told in one line by the member.
type lateLogger struct {
	kgo.Logger
	on   atomic.Bool
	said repeats
}

func (l *lateLogger) Log(level kgo.LogLevel, msg string, keyvals ...any) {
	if l.on.Load() && !slices.Contains(keyvals, any("group")) && l.said.isNews(time.Now(), fmt.Sprint(msg, keyvals)) {
		l.Logger.Log(level, msg, keyvals...)
	}
}

// repeats keeps back what was said a short while ago: a broker that is away is tried again several times a second.
type repeats struct {
	mu struct {
		sync.Mutex
		last map[string]time.Time
	}
}

const (
	repeatInterval = 10 * time.Second
	maxRepeats     = 100 // lines remembered; a client that finds so many things wrong may repeat itself
)

// isNews reports whether a line has not been said for repeatInterval, and remembers it as said if so.
func (r *repeats) isNews(now time.Time, line string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, ok := r.mu.last[line]; ok && now.Sub(at) < repeatInterval {
		return false
	}
	if r.mu.last == nil || len(r.mu.last) >= maxRepeats {
		r.mu.last = make(map[string]time.Time)
	}
	r.mu.last[line] = now
	return true
}

// ask connects, puts a question to the cluster within the timeout, and disconnects.
func (f *clientFlags) ask(cmd *cobra.Command, question func(context.Context, *kadm.Client) error) error {
	return f.request(cmd, func(ctx context.Context, client *kgo.Client) error {
		admin := kadm.NewClient(client)
		admin.SetTimeoutMillis(int32(min(f.timeout.Milliseconds(), math.MaxInt32)))
		return question(ctx, admin)
	})
}

// request is ask for what the admin client has no function for.
func (f *clientFlags) request(cmd *cobra.Command, send func(context.Context, *kgo.Client) error) error {
	client, err := f.connect(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := f.deadline(cmd.Context())
	defer cancel()
	return f.explain(send(ctx, client))
}

// deadline bounds one question to the cluster.
func (f *clientFlags) deadline(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, f.timeout)
}

// explain says what a client's error means to somebody who does not know the client.
func (f *clientFlags) explain(err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("no answer within %v", f.timeout)
	case errors.Is(err, io.EOF):
		return errors.New("the connection was closed; does the broker expect TLS or SASL?")
	}
	return err
}

// isDialError reports whether no connection came about: the broker may be starting.
func isDialError(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial"
}

// brokerError names an error code, and adds the broker's own text, which says more than the code does.
func brokerError(doing string, err error, message string) error {
	if message != "" {
		err = &kadm.ErrAndMessage{Err: err, ErrMessage: strings.Join(strings.Fields(message), " ")}
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// firstError takes the first error out of the list that the admin client makes of several brokers' answers.
func firstError(err error) error {
	var shards *kadm.ShardErrors
	if errors.As(err, &shards) && len(shards.Errs) > 0 {
		return shards.Errs[0].Err
	}
	return err
}
