package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// moveWave is how many partitions move at a time: what is under way can be taken back, and what comes later is planned
	// by what is then.
	moveWave = 50
	// moveInterval is the time between two looks at what has arrived.
	moveInterval = 500 * time.Millisecond
	// moveReport is the time between two lines about it.
	moveReport = 5 * time.Second
)

// mover is what the verbs that move replicas have in common.
type mover struct {
	flags    *clientFlags
	cmd      *cobra.Command
	throttle bytesPerSecond
}

// bytesPerSecond is the value of --throttle; 0: none.
type bytesPerSecond int64

func (b *bytesPerSecond) String() string { return "" }
func (b *bytesPerSecond) Type() string   { return "bytes" }

func (b *bytesPerSecond) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n <= 0 {
		return errors.New("must be a number of bytes a second, more than 0")
	}
	*b = bytesPerSecond(n)
	return nil
}

func (b *bytesPerSecond) register(cmd *cobra.Command) {
	cmd.Flags().Var(b, "throttle", "copy no more than so many `bytes` a second to and from each node")
}

// look asks for the state of the cluster, within the timeout of one question.
func (m *mover) look(client *kgo.Client) (v *clusterView, moving []kadm.ListPartitionReassignmentsResponse, err error) {
	ctx, cancel := m.flags.deadline(m.cmd.Context())
	defer cancel()
	if v, err = viewCluster(ctx, client); err != nil {
		return nil, nil, m.flags.explain(err)
	}
	if moving, err = listMoves(ctx, client); err != nil {
		return nil, nil, m.flags.explain(err)
	}
	return v, moving, nil
}

// listMoves lists the reassignments of all topics, which the admin client does not.
func listMoves(ctx context.Context, client *kgo.Client) (moves []kadm.ListPartitionReassignmentsResponse, err error) {
	resp, err := kmsg.NewPtrListPartitionReassignmentsRequest().RequestWith(ctx, client)
	if err == nil {
		err = errorOf(resp.ErrorCode)
	}
	if err != nil {
		return nil, fmt.Errorf("listing reassignments: %w", err)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			moves = append(moves, kadm.ListPartitionReassignmentsResponse{Topic: t.Topic, Partition: p.Partition,
				Replicas: p.Replicas, AddingReplicas: p.AddingReplicas, RemovingReplicas: p.RemovingReplicas})
		}
	}
	return moves, nil
}

// writeMoves prints what is to move.
func writeMoves(w io.Writer, moves []move) error {
	var rows [][]string
	for _, m := range moves {
		rows = append(rows, []string{m.Topic, strconv.Itoa(int(m.Partition)), joinIDs(m.From), joinIDs(m.To)})
	}
	return writeTable(w, []string{"TOPIC", "PARTITION", "FROM", "TO"}, rows)
}

func (m *mover) reassign(client *kgo.Client, wave []move) error {
	if len(wave) == 0 {
		return nil
	}
	var req kadm.AlterPartitionAssignmentsReq
	for _, p := range wave {
		req.Assign(p.Topic, p.Partition, p.To)
	}
	return m.alter(client, req, "moving")
}

func (m *mover) alter(client *kgo.Client, req kadm.AlterPartitionAssignmentsReq, doing string) error {
	ctx, cancel := m.flags.deadline(m.cmd.Context())
	defer cancel()
	responses, err := kadm.NewClient(client).AlterPartitionAssignments(ctx, req)
	if err != nil {
		return fmt.Errorf("%s replicas: %w", doing, m.flags.explain(err))
	}
	var failed []error
	for _, r := range responses.Sorted() {
		if r.Err != nil {
			failed = append(failed, brokerError(fmt.Sprintf("%s %s[%d]", doing, r.Topic, r.Partition), r.Err, r.ErrMessage))
		}
	}
	return errors.Join(failed...)
}

// await looks at the cluster until progress says that all has arrived, and prints now and then the line that it has for it.
func (m *mover) await(client *kgo.Client, interrupted error, progress func(*clusterView, []kadm.ListPartitionReassignmentsResponse) (line string, done bool)) error {
	reported, said := time.Now(), ""
	for {
		v, moving, err := m.look(client)
		if m.cmd.Context().Err() != nil {
			return interrupted
		}
		if err != nil {
			return err
		}
		line, done := progress(v, moving)
		if done {
			return nil
		}
		if time.Since(reported) >= moveReport && line != said {
			fmt.Fprintln(m.cmd.ErrOrStderr(), "weir:", line)
			reported, said = time.Now(), line
		}
		select {
		case <-time.After(moveInterval):
		case <-m.cmd.Context().Done():
			return interrupted
		}
	}
}
