package log

import (
	"errors"
	"io/fs"

	"weir/internal/kafka"
)

// openTopicID reads whose log the directory holds, or writes it down where that is not known yet.
func (l *Log) openTopicID() error {
	have, err := ReadPartitionMetadata(l.fs, l.Dir())
	broken := ErrBrokenFile{}
	switch {
	case errors.As(err, &broken):
		l.logger.Warn("partition metadata is broken and is written anew", "path", broken.Path, "why", broken.Reason)
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	}
	want := l.opts.TopicID
	switch {
	case have.IsZero() && want.IsZero():
		return nil
	case have.IsZero():
		return l.SetTopicID(want)
	case !want.IsZero() && have != want:
		return kafka.Errorf(kafka.InconsistentTopicID, "%s belongs to topic id %v, not %v", l.Dir(), have, want)
	}
	l.topicID.Store(&have)
	return nil
}

// SetTopicID says which topic a log belongs to that was opened without knowing, because partition.metadata was missing.
func (l *Log) SetTopicID(id kafka.TopicID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := WritePartitionMetadata(l.fs, l.Dir(), id, false); err != nil {
		return err
	}
	l.noteNameLocked(partitionMetadataFile)
	l.topicID.Store(&id)
	return nil
}

// ownCheckpointBytes is how much a log with OwnCheckpoints syncs before it writes its recovery point down again.
const ownCheckpointBytes = 1 << 20

// readOwnCheckpoints takes recovery point and start offset from the log's own directory. What is missing or broken is 0:
// then everything is read.
func (l *Log) readOwnCheckpoints() {
	read := func(name string) int64 {
		offsets, err := ReadOffsetCheckpoint(l.fs, l.path(name))
		if err != nil {
			l.logger.Warn("checkpoint is broken and is written anew", "path", l.path(name), "err", err)
		}
		return offsets[l.tp]
	}
	l.opts.RecoveryPoint = read(RecoveryPointCheckpoint)
	l.opts.StartOffset = read(LogStartOffsetCheckpoint)
	l.savedPoint.Store(l.opts.RecoveryPoint)
	l.savedStart.Store(l.opts.StartOffset)
}

// writeOwnCheckpoint writes one of them.
func (l *Log) writeOwnCheckpoint(name string, offset int64, durable bool) error {
	return WriteOffsetCheckpoint(l.fs, l.path(name), map[kafka.TopicPartition]int64{l.tp: offset}, durable)
}

func (l *Log) saveOwnPoint(durable bool) error {
	point := l.recoveryPoint.Load()
	if err := l.writeOwnCheckpoint(RecoveryPointCheckpoint, point, durable); err != nil {
		return err
	}
	l.savedPoint.Store(point)
	return nil
}

// saveCheckpoints writes recovery point, start offset and high watermark down durably, if what was written last is above
// offset. No lock is held.
func (l *Log) saveCheckpoints(offset int64) error {
	var err error
	if l.savedPoint.Load() > offset {
		switch {
		case l.home() != nil:
			err = l.home().checkpointRecovery()
		case l.opts.OwnCheckpoints:
			err = l.saveOwnPoint(true)
		}
	}
	if err == nil && l.savedStart.Load() > offset {
		switch {
		case l.home() != nil:
			err = l.home().checkpointStarts()
		case l.opts.OwnCheckpoints:
			err = l.saveOwnStart(true)
		}
	}
	if err == nil && l.home() != nil && l.savedMark.Load() > offset {
		err = l.home().checkpointHighWatermarks(true)
	}
	return err
}

func (l *Log) saveOwnStart(durable bool) error {
	start := l.startOffset.Load()
	if err := l.writeOwnCheckpoint(LogStartOffsetCheckpoint, start, durable); err != nil {
		return err
	}
	l.savedStart.Store(start)
	return nil
}
