package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The settings of a throttle (KIP-73): brokers have the rates, topics the replicas that they count for.
var (
	throttleRates    = []string{"leader.replication.throttled.rate", "follower.replication.throttled.rate"}
	throttleReplicas = []string{"leader.replication.throttled.replicas", "follower.replication.throttled.replicas"}
)

// throttleLimit is a throttle that is in force.
type throttleLimit struct {
	mover   *mover
	client  *kgo.Client
	brokers []int32
	topics  []string
}

// limited moves replicas, with a throttle if one is wanted.
func (m *mover) limited(client *kgo.Client, v *clusterView, moves []move, moveAll func() error) error {
	if m.throttle == 0 || len(moves) == 0 {
		return moveAll()
	}
	limit, err := m.limit(client, v, moves)
	if err != nil {
		return err
	}
	return errors.Join(moveAll(), limit.lift())
}

// limit throttles the copying of what is to move. The replicas that copy and those that are copied from are named, so that
// other replicas of these topics which catch up are not slowed down.
func (m *mover) limit(client *kgo.Client, v *clusterView, moves []move) (*throttleLimit, error) {
	l := &throttleLimit{mover: m, client: client}
	for _, n := range v.nodes {
		if n.State != stateUnregistered {
			l.brokers = append(l.brokers, n.Node)
		}
	}
	leaders, followers := make(map[string][]string), make(map[string][]string)
	for _, p := range moves {
		if !slices.Contains(l.topics, p.Topic) {
			l.topics = append(l.topics, p.Topic)
		}
		for _, id := range p.From {
			leaders[p.Topic] = append(leaders[p.Topic], fmt.Sprintf("%d:%d", p.Partition, id))
		}
		for _, id := range p.To {
			if !slices.Contains(p.From, id) {
				followers[p.Topic] = append(followers[p.Topic], fmt.Sprintf("%d:%d", p.Partition, id))
			}
		}
	}
	rate := strconv.FormatInt(int64(m.throttle), 10)
	err := l.alter(func(ctx context.Context, admin *kadm.Client) error {
		for _, topic := range l.topics {
			values := []string{strings.Join(leaders[topic], ","), strings.Join(followers[topic], ",")}
			if err := alterEach(throttleReplicas, values, func(c []kadm.AlterConfig) (kadm.AlterConfigsResponses, error) {
				return admin.AlterTopicConfigs(ctx, c, topic)
			}); err != nil {
				return err
			}
		}
		return alterEach(throttleRates, []string{rate, rate}, func(c []kadm.AlterConfig) (kadm.AlterConfigsResponses, error) {
			return admin.AlterBrokerConfigs(ctx, c, l.brokers...)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("setting the throttle: %w", err)
	}
	return l, nil
}

// lift ends the throttle, also where the command was interrupted.
func (l *throttleLimit) lift() error {
	err := l.alter(func(ctx context.Context, admin *kadm.Client) error {
		if err := alterEach(throttleReplicas, nil, func(c []kadm.AlterConfig) (kadm.AlterConfigsResponses, error) {
			return admin.AlterTopicConfigs(ctx, c, l.topics...)
		}); err != nil {
			return err
		}
		return alterEach(throttleRates, nil, func(c []kadm.AlterConfig) (kadm.AlterConfigsResponses, error) {
			return admin.AlterBrokerConfigs(ctx, c, l.brokers...)
		})
	})
	if err != nil {
		return fmt.Errorf("lifting the throttle (`weir config` can do it: %s): %w", strings.Join(slices.Concat(throttleRates, throttleReplicas), ", "), err)
	}
	return nil
}

func (l *throttleLimit) alter(f func(context.Context, *kadm.Client) error) error {
	ctx, cancel := l.mover.flags.deadline(context.WithoutCancel(l.mover.cmd.Context()))
	defer cancel()
	return l.mover.flags.explain(f(ctx, kadm.NewClient(l.client)))
}

// alterEach sets names to values, or removes them where there are none.
func alterEach(names, values []string, alter func([]kadm.AlterConfig) (kadm.AlterConfigsResponses, error)) error {
	var changes []kadm.AlterConfig
	for i, name := range names {
		change := kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name}
		if values != nil {
			change.Op, change.Value = kadm.SetConfig, &values[i]
		}
		changes = append(changes, change)
	}
	responses, err := alter(changes)
	if err != nil {
		return firstError(err)
	}
	for _, r := range responses {
		if r.Err != nil {
			return brokerError(r.Name, r.Err, r.ErrMessage)
		}
	}
	return nil
}
