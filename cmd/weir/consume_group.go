package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// commitInterval is how much of the output may come twice after a crash. Kafka's clients take five seconds; a command
// prints little, so it can afford to be closer.
const commitInterval = time.Second

// leaveTimeout is how long an orderly end may take: a request, and what the group is doing.
const leaveTimeout = time.Second

// maxHeartbeatInterval is Kafka's heartbeat.interval.ms. A session has at least three heartbeats.
const maxHeartbeatInterval = 3 * time.Second

// memberFlags are those of a member of a consumer group.
type memberFlags struct {
	group          string
	sessionTimeout time.Duration
	protocol       string
}

func (f *memberFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVarP(&f.group, "group", "g", "", "read as a member of this consumer `group`, and commit what is printed")
	flags.DurationVar(&f.sessionTimeout, "session-timeout", 45*time.Second, "with --group: how long the group waits for a member that is silent")
	flags.StringVar(&f.protocol, "group-protocol", "classic", "with --group: `classic|consumer`: who assigns partitions, the members or the broker (KIP-848)")
}

// options are those of the client that becomes the member c.
func (f *memberFlags) options(cmd *cobra.Command, c *consumer, topics []string) ([]kgo.Opt, error) {
	if len(c.flags.partitions) > 0 {
		return nil, usageErrorf("--group and --partition exclude each other: the group assigns partitions")
	}
	if f.sessionTimeout < time.Millisecond {
		return nil, usageErrorf("--session-timeout %v is too short", f.sessionTimeout)
	}
	opts := []kgo.Opt{
		kgo.ConsumerGroup(f.group),
		kgo.SessionTimeout(f.sessionTimeout),
		kgo.HeartbeatInterval(min(f.sessionTimeout/3, maxHeartbeatInterval)),
		kgo.AutoCommitMarks(),
		kgo.AutoCommitInterval(commitInterval),
		kgo.AutoCommitCallback(c.committed),
		kgo.BlockRebalanceOnPoll(), // what is printed is committed by the member that printed it
		kgo.ConsumeStartOffset(kgo.NewOffset().AtStart()),
		kgo.AdjustFetchOffsetsFn(c.startAt),
		kgo.OnPartitionsAssigned(c.assigned),
		kgo.OnPartitionsRevoked(c.revoked),
		kgo.OnPartitionsLost(c.lost),
	}
	switch f.protocol {
	case "classic":
	case "consumer":
		if cmd.Flags().Changed("session-timeout") {
			return nil, usageErrorf("--session-timeout is the broker's setting with --group-protocol consumer")
		}
		opts = append(opts, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	default:
		return nil, usageErrorf("--group-protocol %q: must be classic or consumer", f.protocol)
	}
	return opts, nil
}

// runMember reads what the group assigns. The group is joined only now that the topics are known to exist.
func (c *consumer) runMember(ctx context.Context, topics []string) error {
	// Without this the end of `weir consume | head` would end the process before it has left the group.
	signal.Ignore(syscall.SIGPIPE)
	if err := c.checkProtocol(ctx); err != nil {
		return fmt.Errorf("group %s: %w", c.flags.member.group, c.flags.explain(err))
	}
	polling, stop := context.WithCancel(ctx)
	defer stop()
	if c.flags.exit {
		c.left, c.finished = new(unread), stop
	}
	c.client.AddConsumeTopics(topics...)
	err := c.poll(polling, func(last []*kgo.Record) {
		c.client.MarkCommitRecords(last...)
		c.client.AllowRebalance()
	}, c.isTransient)
	if err != nil {
		err = fmt.Errorf("group %s: %w", c.flags.member.group, err)
	}
	committing, cancel := c.flags.deadline(context.WithoutCancel(ctx))
	defer cancel()
	if commitErr := c.client.CommitMarkedOffsets(committing); commitErr != nil {
		err = errors.Join(err, fmt.Errorf("group %s: committing offsets: %w", c.flags.member.group, c.flags.explain(commitErr)))
	}
	c.leave(context.WithoutCancel(ctx))
	return err
}

// checkProtocol fails where no broker knows the protocol that was asked for. The client would take the classic one without
// a word, with a session of its own choice.
func (c *consumer) checkProtocol(ctx context.Context) error {
	if c.flags.member.protocol == "classic" {
		return nil
	}
	ctx, cancel := c.flags.deadline(ctx)
	defer cancel()
	brokers, err := kadm.NewClient(c.client).ApiVersions(ctx)
	if err != nil {
		return err
	}
	for _, b := range brokers {
		if _, known := b.KeyMaxVersion(kmsg.ConsumerGroupHeartbeat.Int16()); known || b.Err != nil {
			return nil
		}
	}
	return fmt.Errorf("the broker does not know --group-protocol %s", c.flags.member.protocol)
}

// leave leaves the group. The client first waits for a join that is under way, and thereby for what other members do or for
// the end of their sessions. A coordinator that is told to forget the member ends the join.
func (c *consumer) leave(ctx context.Context) {
	c.client.AllowRebalance()
	patient, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	member, _ := c.client.GroupMetadata()
	if err := c.client.LeaveGroupContext(patient); !errors.Is(err, context.DeadlineExceeded) || member == "" {
		return // if it failed, the session ends without a heartbeat
	}
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = c.flags.member.group, member
	row := kmsg.NewLeaveGroupRequestMember()
	row.MemberID = member
	req.Members = append(req.Members, row)
	leaving, cancel := c.flags.deadline(ctx)
	defer cancel()
	_, _ = req.RequestWith(leaving, c.client)
}

// isTransient reports, and tells, whether the member was thrown out of the group in a way that lets it come back: the
// client joins anew.
func (c *consumer) isTransient(e kgo.FetchError) bool {
	var session *kgo.ErrGroupSession
	if !errors.As(e.Err, &session) || !isTransientGroupError(session.Err) {
		return false
	}
	if c.rejoins.isNews(time.Now(), session.Err.Error()) {
		c.warn("joining again: %v", session.Err)
	}
	return true
}

func isTransientGroupError(err error) bool {
	var code *kerr.Error
	if !errors.As(err, &code) {
		return kgo.IsRetryableBrokerErr(err) || isDialError(err)
	}
	return code.Retriable || slices.Contains([]*kerr.Error{
		kerr.UnknownMemberID, kerr.IllegalGeneration, kerr.RebalanceInProgress, kerr.FencedMemberEpoch, kerr.StaleMemberEpoch,
	}, code)
}

// committed is told how the commits end that are made every commitInterval. One that failed is made up for by the next.
func (c *consumer) committed(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse, err error) {
	if resp != nil {
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				err = cmp.Or(err, kerr.ErrorForCode(p.ErrorCode))
			}
		}
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		c.warn("committing offsets: %v", err)
	}
}

// startAt replaces the beginning of a partition, which the client takes where nothing is committed, by what --offset
// says. A partition that came after the command had started is read from its beginning, and not waited for.
func (c *consumer) startAt(_ context.Context, fetched map[string]map[int32]kgo.Offset) (map[string]map[int32]kgo.Offset, error) {
	added := make(partitionRanges)
	for topic, partitions := range fetched {
		for id, offset := range partitions {
			at, known := c.located[topic][id]
			start := offset.EpochOffset().Offset // negative where nothing is committed
			if start < 0 {
				start = c.flags.offset.in(at)
				if known {
					partitions[id] = kgo.NewOffset().At(at.clamp(start))
				}
			}
			added.set(topic, id, offsetRange{at.clamp(start), at.end})
		}
	}
	if c.left != nil && c.left.add(added) {
		c.finished()
	}
	return fetched, nil
}

func (c *consumer) assigned(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	c.tell("assigned", partitions)
	if c.left != nil && len(partitions) == 0 && c.left.add(nil) { // what was left went to other members
		c.finished()
	}
}

func (c *consumer) revoked(ctx context.Context, client *kgo.Client, partitions map[string][]int32) {
	c.tell("revoked", partitions)
	c.left.remove(partitions)
	if err := client.CommitMarkedOffsets(ctx); err != nil {
		c.warn("committing offsets: %v", err)
	}
}

func (c *consumer) lost(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
	c.tell("lost", partitions)
	c.left.remove(partitions)
}

// tell says with --verbose what the group did.
func (c *consumer) tell(what string, partitions topicPartitions) {
	if !c.flags.verbose || len(partitions) == 0 {
		return
	}
	var names []string
	partitions.each(func(topic string, partition int32) { names = append(names, fmt.Sprintf("%s[%d]", topic, partition)) })
	c.warn("%s %s", what, strings.Join(names, " "))
}

// warn prints a line about the group on standard error.
func (c *consumer) warn(format string, args ...any) {
	fmt.Fprintf(c.stderr, "weir: group %s: %s\n", c.flags.member.group, fmt.Sprintf(format, args...))
}
