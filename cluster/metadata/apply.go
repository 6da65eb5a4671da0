package metadata

import (
	"fmt"
	"maps"
	"slices"

	"weir/internal/kafka"
)

// ApplyError is an entry that cannot be applied to the image: the log, or this program, is at fault, and the node must
// not go on.
type ApplyError struct {
	Index int64
	Err   error
}

func (e *ApplyError) Error() string {
	return fmt.Sprintf("apply metadata entry at offset %d: %v", e.Index, e.Err)
}

func (e *ApplyError) Unwrap() error { return e.Err }

// Apply folds the metadata entry at index into img. An entry that was decided on another image is skipped: then it returns
// img itself and a nil Delta. Errors are *ApplyError; img is as good as before.
func Apply(img *Image, index int64, term int32, value []byte) (*Image, *Delta, error) {
	entry, err := ParseEntry(value)
	if err != nil {
		return nil, nil, &ApplyError{index, err}
	}
	if entry.Base != img.Index {
		return img, nil, nil
	}
	e := newEditor(img, index, term)
	for r, err := range entry.Records() {
		if err == nil {
			err = r.apply(e)
		}
		if err != nil {
			return nil, nil, &ApplyError{index, err}
		}
	}
	next, delta := e.finish()
	return next, delta, nil
}

// With returns the image as if records were part of the next entry: what a controller decides its next command on while
// its last ones are not in the log yet. The index of the result counts for nothing, and a broker that registers has the
// epoch EpochOfEntry still.
func (img *Image) With(records []Record) (*Image, *Delta, error) {
	e := newEditor(img, img.Index+1, img.Term)
	e.epoch = EpochOfEntry
	for _, r := range records {
		if err := r.apply(e); err != nil {
			return nil, nil, &ApplyError{e.next.Index, err}
		}
	}
	next, delta := e.finish()
	return next, delta, nil
}

// editor makes the next image out of one, copying each thing at most once.
type editor struct {
	old     *Image
	next    *Image
	edit    *edit
	epoch   kafka.BrokerEpoch // that EpochOfEntry stands for
	topics  map[kafka.TopicID]*topicEdit
	brokers map[kafka.BrokerID]bool
	configs map[ConfigResource]map[string]string // own copies, not frozen yet
	members bool
	ids     bool
}

type topicEdit struct {
	topic   *Topic  // own copy until finish
	isNew   bool    // then all of it changed
	changed []int32 // partitions, each perhaps more than once
}

func newEditor(img *Image, index int64, term int32) *editor {
	next := *img
	next.Index, next.Term = index, term
	quorum, nodes, topics, brokers, configs := *img.Quorum, *img.Nodes, *img.Topics, *img.Brokers, *img.Configs
	next.Quorum, next.Nodes, next.Topics, next.Brokers, next.Configs = &quorum, &nodes, &topics, &brokers, &configs
	return &editor{
		old: img, next: &next, edit: new(edit), epoch: kafka.BrokerEpoch(index),
		topics:  map[kafka.TopicID]*topicEdit{},
		brokers: map[kafka.BrokerID]bool{},
		configs: map[ConfigResource]map[string]string{},
	}
}

func (r FormatRecord) apply(e *editor) error {
	if r.FormatVersion != FormatVersion {
		return fmt.Errorf("metadata format version %d is not known to this version of weir, which reads %d", r.FormatVersion, FormatVersion)
	}
	if e.next.ClusterID != "" {
		return fmt.Errorf("format record for cluster %s in the log of cluster %s", r.ClusterID, e.next.ClusterID)
	}
	e.next.FormatVersion, e.next.ClusterID = r.FormatVersion, r.ClusterID
	return nil
}

func (r QuorumMemberRecord) apply(e *editor) error {
	e.next.Quorum.members.set(e.edit, r.Member.RaftID, r.Member)
	e.members = true
	return nil
}

func (r TopicRecord) apply(e *editor) error {
	if other, ok := e.next.Topics.ByName(r.Name); ok {
		return fmt.Errorf("topic %s (%s) exists already, as %s", r.Name, r.ID, other.ID)
	}
	if other, ok := e.next.Topics.ByID(r.ID); ok {
		return fmt.Errorf("topic id %s of %s belongs to topic %s", r.ID, r.Name, other.Name)
	}
	if e.topics[r.ID] != nil {
		return fmt.Errorf("topic id %s of %s belonged to a topic that this entry removes", r.ID, r.Name)
	}
	e.own(&Topic{ID: r.ID, Name: r.Name}).isNew = true
	if mayCollide(r.Name) {
		e.next.Topics.collisions.set(e.edit, collision{kafka.CollisionKey(r.Name), r.Name}, struct{}{})
	}
	return nil
}

// own makes t the editor's, to be changed in place until finish.
func (e *editor) own(t *Topic) *topicEdit {
	te := &topicEdit{topic: t}
	e.topics[t.ID] = te
	e.next.Topics.names.set(e.edit, t.Name, t)
	e.next.Topics.ids.set(e.edit, t.ID, t)
	return te
}

func (r RemoveTopicRecord) apply(e *editor) error {
	t, ok := e.next.Topics.ByID(r.ID)
	if !ok {
		return fmt.Errorf("topic id %s does not exist", r.ID)
	}
	e.next.Topics.names.remove(e.edit, t.Name)
	e.next.Topics.ids.remove(e.edit, t.ID)
	if mayCollide(t.Name) {
		e.next.Topics.collisions.remove(e.edit, collision{kafka.CollisionKey(t.Name), t.Name})
	}
	e.next.Topics.partitions -= len(t.Partitions)
	e.topics[t.ID] = &topicEdit{}
	resource := ConfigResource{TopicResource, t.Name}
	if e.next.Configs.resources.remove(e.edit, resource) {
		e.configs[resource] = nil
	}
	return nil
}

func (r PartitionRecord) apply(e *editor) error {
	t, ok := e.next.Topics.ByID(r.TopicID)
	if !ok {
		return fmt.Errorf("partition %d of topic id %s, which does not exist", r.Partition, r.TopicID)
	}
	if r.Partition < 0 || int(r.Partition) > len(t.Partitions) {
		return fmt.Errorf("partition %s-%d, where the topic has %d", t.Name, r.Partition, len(t.Partitions))
	}
	te := e.topics[t.ID]
	if te == nil {
		te = e.own(&Topic{ID: t.ID, Name: t.Name, Partitions: slices.Clone(t.Partitions)})
	}
	if !te.isNew {
		te.changed = append(te.changed, r.Partition)
	}
	if int(r.Partition) < len(te.topic.Partitions) {
		te.topic.Partitions[r.Partition] = r.PartitionRegistration
		return nil
	}
	te.topic.Partitions = append(te.topic.Partitions, r.PartitionRegistration)
	e.next.Topics.partitions++
	return nil
}

func (r RegisterBrokerRecord) apply(e *editor) error {
	b := r.BrokerRegistration
	b.Epoch = e.brokerEpoch(b.Epoch)
	e.setBroker(&b)
	return nil
}

func (e *editor) brokerEpoch(epoch kafka.BrokerEpoch) kafka.BrokerEpoch {
	if epoch == EpochOfEntry {
		return e.epoch
	}
	return epoch
}

func (e *editor) setBroker(b *BrokerRegistration) {
	e.next.Brokers.ids.set(e.edit, b.ID, b)
	e.brokers[b.ID] = true
}

// broker finds a registration whose epoch must be the given one.
func (e *editor) broker(id kafka.BrokerID, epoch kafka.BrokerEpoch) (*BrokerRegistration, error) {
	b, ok := e.next.Brokers.ByID(id)
	if !ok {
		return nil, fmt.Errorf("broker %d is not registered", id)
	}
	if epoch = e.brokerEpoch(epoch); b.Epoch != epoch {
		return nil, fmt.Errorf("broker %d has epoch %d, not %d", id, b.Epoch, epoch)
	}
	return b, nil
}

func (r BrokerChangeRecord) apply(e *editor) error {
	b, err := e.broker(r.ID, r.Epoch)
	if err != nil {
		return err
	}
	changed := *b
	changed.Fenced, changed.InControlledShutdown = r.Fenced, r.InControlledShutdown
	e.setBroker(&changed)
	return nil
}

func (r UnregisterBrokerRecord) apply(e *editor) error {
	if _, err := e.broker(r.ID, r.Epoch); err != nil {
		return err
	}
	e.next.Brokers.ids.remove(e.edit, r.ID)
	e.brokers[r.ID] = true
	return nil
}

func (r ConfigRecord) apply(e *editor) error {
	m := e.configs[r.Resource]
	if m == nil {
		m = maps.Clone(e.next.Configs.Get(r.Resource))
	}
	if m == nil {
		m = map[string]string{}
	}
	e.configs[r.Resource] = m
	if r.Value == nil {
		delete(m, r.Key)
	} else {
		m[r.Key] = *r.Value
	}
	if len(m) > 0 {
		e.next.Configs.resources.set(e.edit, r.Resource, m)
	} else {
		e.next.Configs.resources.remove(e.edit, r.Resource)
	}
	return nil
}

func (r ProducerIDsRecord) apply(e *editor) error {
	if r.Next < e.next.NextProducerID {
		return fmt.Errorf("producer ids from %d on, where those below %d are taken", r.Next, e.next.NextProducerID)
	}
	e.next.NextProducerID = r.Next
	e.ids = true
	return nil
}
