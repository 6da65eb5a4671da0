package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// groupDescription is a line of `weir group describe -o json`.
type groupDescription struct {
	Group        string           `json:"group"`
	Type         string           `json:"type"` // classic or consumer (KIP-848)
	ProtocolType string           `json:"protocolType"`
	State        string           `json:"state"`
	Assignor     string           `json:"assignor"` // "" where none is chosen yet
	Epoch        *int32           `json:"epoch,omitempty"`
	Coordinator  groupCoordinator `json:"coordinator"`
	Lag          int64            `json:"lag"` // of the partitions whose lag is known
	Members      []groupMember    `json:"members"`
	Partitions   []groupPartition `json:"partitions"` // assigned or committed
}

type groupCoordinator struct {
	ID   int32  `json:"id"`
	Host string `json:"host"`
	Port int32  `json:"port"`
}

type groupMember struct {
	MemberID         string             `json:"memberId"`
	InstanceID       *string            `json:"instanceId"`
	ClientID         string             `json:"clientId"`
	Host             string             `json:"host"`
	Epoch            *int32             `json:"epoch,omitempty"`
	Topics           []string           `json:"topics"` // subscribed to
	Assignment       map[string][]int32 `json:"assignment"`
	TargetAssignment map[string][]int32 `json:"targetAssignment,omitempty"` // where the broker assigns
}

type groupPartition struct {
	Topic           string `json:"topic"`
	Partition       int32  `json:"partition"`
	CommittedOffset *int64 `json:"committedOffset"` // null where nothing is committed
	Metadata        string `json:"metadata,omitempty"`
	EndOffset       *int64 `json:"endOffset"` // null where no leader could be asked
	Lag             *int64 `json:"lag"`
	MemberID        string `json:"memberId,omitempty"`
	ClientID        string `json:"clientId,omitempty"`
	Host            string `json:"host,omitempty"`
}

func newGroupDescribeCommand(flags *clientFlags) *cobra.Command {
	var output outputFormat
	var all, members bool
	cmd := &cobra.Command{
		Use:   "describe (GROUP... | --all)",
		Short: "Print groups' state, members, offsets and lag",
		Long: `Print groups' state, members, offsets and lag. The lag is the distance from the group's committed offset to the end
of the partition; a partition for which nothing is committed has none.`,
		Example: `  weir group describe billing
  weir group describe billing --members
  weir group describe --all -o json`,
		Args:              positional(cobra.ArbitraryArgs),
		ValidArgsFunction: flags.completeGroups,
		RunE: func(cmd *cobra.Command, names []string) error {
			if all == (len(names) > 0) {
				return usageErrorf("give either the names of groups or --all")
			}
			return flags.ask(cmd, func(ctx context.Context, admin *kadm.Client) error {
				described, err := describeGroups(ctx, admin, names)
				if output == outputJSON {
					return errors.Join(err, writeJSONLines(cmd.OutOrStdout(), described))
				}
				for i, d := range described {
					if i > 0 {
						fmt.Fprintln(cmd.OutOrStdout())
					}
					if writeErr := d.write(cmd.OutOrStdout(), members); writeErr != nil {
						return writeErr
					}
				}
				return err
			})
		},
	}
	output.register(cmd)
	cmd.Flags().BoolVarP(&all, "all", "a", false, "describe all classic and consumer groups")
	cmd.Flags().BoolVarP(&members, "members", "m", false, "print the members with what they are assigned, in place of the partitions")
	return cmd
}

// describeGroups returns what could be described, by name, and an error that names the rest. Without names it describes
// all groups.
func describeGroups(ctx context.Context, admin *kadm.Client, names []string) ([]groupDescription, error) {
	if len(names) == 0 {
		listed, err := admin.ListGroups(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing groups: %w", firstError(err))
		}
		for _, g := range listed.Sorted() {
			if g.GroupType != "share" && g.GroupType != "streams" {
				names = append(names, g.Group)
			}
		}
	}
	groups, err := groupStatesOf(ctx, admin, names)
	failed := []error{err}
	offsets, ends, err := groupOffsets(ctx, admin, groups)
	failed = append(failed, err)
	for i := range groups {
		groups[i].addPartitions(offsets[groups[i].Group].Fetched, ends)
	}
	return groups, errors.Join(failed...)
}

// groupStatesOf asks for the groups' states and members, by the request for consumer groups first and, what is none, by
// that for classic groups, as Kafka's own tools do.
func groupStatesOf(ctx context.Context, admin *kadm.Client, names []string) ([]groupDescription, error) {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) == 0 {
		return nil, nil
	}
	var groups []groupDescription
	var classic []string
	consumers, _ := admin.DescribeConsumerGroups(ctx, names...) // a broker without that request has no such groups
	for _, name := range names {
		if g, ok := consumers[name]; ok && g.Err == nil {
			groups = append(groups, fromConsumerGroup(g))
			continue
		}
		classic = append(classic, name)
	}
	if len(classic) == 0 {
		return groups, nil
	}
	described, err := admin.DescribeGroups(ctx, classic...)
	if err != nil {
		err = fmt.Errorf("describing groups: %w", firstError(err))
	}
	failed := []error{err}
	for _, g := range described.Sorted() {
		switch {
		case g.Err != nil:
			failed = append(failed, brokerError("describing group "+g.Group, g.Err, g.ErrMessage))
		case g.State == "Dead": // DescribeGroups before v6 knows no other way to say it
			failed = append(failed, brokerError("describing group "+g.Group, kerr.GroupIDNotFound, "Group "+g.Group+" not found."))
		default:
			groups = append(groups, fromClassicGroup(g))
		}
	}
	slices.SortFunc(groups, func(a, b groupDescription) int { return strings.Compare(a.Group, b.Group) })
	return groups, errors.Join(failed...)
}

func newGroupCoordinator(b kadm.BrokerDetail) groupCoordinator {
	return groupCoordinator{b.NodeID, b.Host, b.Port}
}

func fromConsumerGroup(g kadm.DescribedConsumerGroup) groupDescription {
	d := groupDescription{
		Group: g.Group, Type: "consumer", ProtocolType: "consumer", State: g.State, Assignor: g.AssignorName, Epoch: &g.Epoch,
		Coordinator: newGroupCoordinator(g.Coordinator), Members: []groupMember{},
	}
	for _, m := range g.Members {
		d.Members = append(d.Members, groupMember{
			MemberID: m.MemberID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.ClientHost, Epoch: &m.MemberEpoch,
			Topics: emptyNotNil(m.SubscribedTopics), Assignment: sortedPartitions(m.Assignment), TargetAssignment: sortedPartitions(m.TargetAssignment),
		})
	}
	return d
}

func fromClassicGroup(g kadm.DescribedGroup) groupDescription {
	d := groupDescription{
		Group: g.Group, Type: "classic", ProtocolType: g.ProtocolType, State: g.State, Assignor: g.Protocol,
		Coordinator: newGroupCoordinator(g.Coordinator), Members: []groupMember{},
	}
	for _, m := range g.Members {
		member := groupMember{
			MemberID: m.MemberID, InstanceID: m.InstanceID, ClientID: m.ClientID, Host: m.ClientHost, Topics: []string{},
		}
		if join, ok := m.Join.AsConsumer(); ok {
			member.Topics = emptyNotNil(slices.Sorted(slices.Values(join.Topics)))
		}
		assigned := make(kadm.TopicsSet)
		if a, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range a.Topics {
				assigned.Add(t.Topic, t.Partitions...)
			}
		}
		member.Assignment = sortedPartitions(assigned)
		d.Members = append(d.Members, member)
	}
	return d
}

func sortedPartitions(set kadm.TopicsSet) map[string][]int32 {
	sorted := make(map[string][]int32, len(set))
	for _, t := range set.Sorted() {
		sorted[t.Topic] = t.Partitions
	}
	return sorted
}

// groupOffsets returns what the groups have committed and where the partitions end that they are concerned with. The ends
// are asked for last, so that no commit is beyond them.
func groupOffsets(ctx context.Context, admin *kadm.Client, groups []groupDescription) (kadm.FetchOffsetsResponses, kadm.ListedOffsets, error) {
	topics := make(kadm.TopicsSet)
	var names []string
	for _, g := range groups {
		names = append(names, g.Group)
		for _, m := range g.Members {
			for topic := range m.Assignment {
				topics.Add(topic)
			}
		}
	}
	offsets := admin.FetchManyOffsets(ctx, names...)
	var failed []error
	for _, name := range names {
		if err := offsets[name].Err; err != nil {
			failed = append(failed, fmt.Errorf("fetching offsets of group %s: %w", name, err))
		}
		for topic := range offsets[name].Fetched {
			topics.Add(topic)
		}
	}
	if len(topics) == 0 {
		return offsets, nil, errors.Join(failed...)
	}
	ends, err := admin.ListEndOffsets(ctx, topics.Topics()...)
	if err != nil {
		failed = append(failed, fmt.Errorf("listing end offsets: %w", firstError(err)))
	}
	return offsets, ends, errors.Join(failed...)
}

// addPartitions fills in the partitions that are assigned or committed, and the lag.
func (d *groupDescription) addPartitions(committed kadm.OffsetResponses, ends kadm.ListedOffsets) {
	owners := make(map[string]map[int32]*groupMember)
	partitions := make(topicPartitions)
	for i := range d.Members {
		for topic, ids := range d.Members[i].Assignment {
			for _, id := range ids {
				if owners[topic] == nil {
					owners[topic] = make(map[int32]*groupMember)
				}
				owners[topic][id] = &d.Members[i]
				partitions.add(topic, id)
			}
		}
	}
	committed.Each(func(o kadm.OffsetResponse) { partitions.add(o.Topic, o.Partition) })
	d.Partitions = []groupPartition{}
	partitions.each(func(topic string, id int32) {
		p := groupPartition{Topic: topic, Partition: id, EndOffset: knownOffset(ends, topic, id)}
		if o, ok := committed.Lookup(topic, id); ok && o.Err == nil && o.At >= 0 {
			p.CommittedOffset, p.Metadata = &o.At, o.Metadata
			if p.EndOffset != nil {
				p.Lag = new(*p.EndOffset - o.At)
				d.Lag += *p.Lag
			}
		}
		if m := owners[topic][id]; m != nil {
			p.MemberID, p.ClientID, p.Host = m.MemberID, m.ClientID, m.Host
		}
		d.Partitions = append(d.Partitions, p)
	})
}

// write prints a line about the group and a table with the columns of kafka-consumer-groups.
func (d *groupDescription) write(w io.Writer, members bool) error {
	_, err := fmt.Fprintf(w, "Group: %s\tType: %s\tState: %s\tAssignor: %s\tCoordinator: %d (%s:%d)\tMembers: %d\tLag: %d\n",
		d.Group, d.Type, d.State, orDash(d.Assignor), d.Coordinator.ID, d.Coordinator.Host, d.Coordinator.Port, len(d.Members), d.Lag)
	switch {
	case err != nil:
		return err
	case members:
		return d.writeMembers(w)
	default:
		return d.writePartitions(w)
	}
}

func (d *groupDescription) writeMembers(w io.Writer) error {
	if len(d.Members) == 0 {
		return nil
	}
	var rows [][]string
	for _, m := range d.Members {
		count, parts := 0, []string(nil)
		for _, topic := range topicPartitions(m.Assignment).topics() {
			count += len(m.Assignment[topic])
			parts = append(parts, topic+":"+joinIDs(m.Assignment[topic]))
		}
		rows = append(rows, []string{d.Group, m.MemberID, orDash(textOf(m.InstanceID)), m.Host, m.ClientID, strconv.Itoa(count), orDash(strings.Join(parts, ";"))})
	}
	return writeTable(w, []string{"GROUP", "CONSUMER-ID", "INSTANCE-ID", "HOST", "CLIENT-ID", "#PARTITIONS", "ASSIGNMENT"}, rows)
}

func (d *groupDescription) writePartitions(w io.Writer) error {
	var rows [][]string
	for _, p := range d.Partitions {
		rows = append(rows, []string{d.Group, p.Topic, strconv.Itoa(int(p.Partition)), offsetOrDash(p.CommittedOffset),
			offsetOrDash(p.EndOffset), offsetOrDash(p.Lag), orDash(p.MemberID), orDash(p.Host), orDash(p.ClientID)})
	}
	for _, m := range d.Members { // a member without partitions is one too many, which is worth seeing
		if len(m.Assignment) == 0 {
			rows = append(rows, []string{d.Group, "-", "-", "-", "-", "-", m.MemberID, m.Host, m.ClientID})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	return writeTable(w, []string{"GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"}, rows)
}

// hasMembers is what Kafka's tools ask before they touch a group's offsets.
func (d *groupDescription) hasMembers() bool {
	return cmp.Or(len(d.Members) > 0, d.State != "Empty" && d.State != "Dead")
}
