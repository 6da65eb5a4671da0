package group

import (
	"strings"

	"weir/coordinator"
)

// Apply implements coordinator.Shard.
//
// A kind of record that is not known is skipped, as Kafka does: a later version may have left it behind.
func (s *Shard) Apply(r coordinator.Record) error {
	kind, err := recordKind(r.Key)
	if err != nil {
		return err
	}
	switch kind {
	case recordOffsetCommitOld, recordOffsetCommit:
		return s.applyOffset(r)
	case recordGroupMetadata:
		return s.applyMetadata(r)
	}
	return nil
}

func (s *Shard) applyOffset(r coordinator.Record) error {
	key, err := parseOffsetKey(r.Key)
	if err != nil {
		return err
	}
	if r.Value == nil {
		s.hard.offsets.remove(key.Group, key.Topic, key.Partition)
		return nil
	}
	c, err := parseOffsetValue(r.Value)
	if err != nil {
		return err
	}
	s.hard.offsets.put(key.Group, key.Topic, key.Partition, c)
	return nil
}

func (s *Shard) applyMetadata(r coordinator.Record) error {
	id, err := parseMetadataKey(r.Key)
	if err != nil {
		return err
	}
	if r.Value == nil {
		delete(s.hard.metadata, id)
		return nil
	}
	m, err := parseMetadata(r.Value)
	if err != nil {
		return err
	}
	s.hard.metadata[strings.Clone(id)] = m
	return nil
}
