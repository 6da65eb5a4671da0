package log

import (
	"path/filepath"
	"slices"
	"sort"
	"strconv"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

// leaderEpochCheckpoint is Kafka's name of the file in a log's directory.
const leaderEpochCheckpoint = "leader-epoch-checkpoint"

// EpochEntry says where a leader epoch begins: at the log's end when its leader took over.
type EpochEntry struct {
	Epoch       kafka.LeaderEpoch
	StartOffset int64
}

// LeaderEpochs knows for each leader epoch where it begins, which is how replicas find the point from which on their
// logs differ (KIP-101, KIP-279). Epochs and start offsets both increase from entry to entry. Guarded by the log lock.
//
// What a crash takes from the file is made again: an epoch that records were written in, from the batches that recovery
// reads; an epoch without records, from the metadata image when this broker next becomes a leader.
type LeaderEpochs struct {
	fs      vfs.FS
	path    string
	entries []EpochEntry
	changed bool // since the file was last written
}

// NewLeaderEpochs begins without epochs, whatever the file in dir may say.
func NewLeaderEpochs(fsys vfs.FS, dir string) *LeaderEpochs {
	return &LeaderEpochs{fs: fsys, path: filepath.Join(dir, leaderEpochCheckpoint)}
}

// OpenLeaderEpochs reads the file of a log's directory; a missing one has no epochs. On ErrBrokenFile the epochs are
// empty and usable, to be filled from the log's batches.
func OpenLeaderEpochs(fsys vfs.FS, dir string) (*LeaderEpochs, error) {
	e := NewLeaderEpochs(fsys, dir)
	err := readCheckpoint(fsys, e.path, 2, func(line int, fields []string) error {
		epoch, err := parseNumber(fields[0], 31)
		if err != nil {
			return brokenLine(e.path, line, "epoch %v", err)
		}
		start, err := parseNumber(fields[1], 63)
		if err != nil {
			return brokenLine(e.path, line, "start offset %v", err)
		}
		entry := EpochEntry{kafka.LeaderEpoch(epoch), start}
		if n := len(e.entries); n > 0 && (e.entries[n-1].Epoch >= entry.Epoch || e.entries[n-1].StartOffset >= start) {
			return brokenLine(e.path, line, "epoch %d at %d follows epoch %d at %d", epoch, start, e.entries[n-1].Epoch, e.entries[n-1].StartOffset)
		}
		e.entries = append(e.entries, entry)
		return nil
	})
	if err != nil {
		e.entries, e.changed = nil, true
	}
	return e, err
}

// Latest is the newest epoch, NoLeaderEpoch if there is none.
func (e *LeaderEpochs) Latest() kafka.LeaderEpoch {
	if len(e.entries) == 0 {
		return kafka.NoLeaderEpoch
	}
	return e.entries[len(e.entries)-1].Epoch
}

// Entries returns a copy of all entries, in order.
func (e *LeaderEpochs) Entries() []EpochEntry { return slices.Clone(e.entries) }

// Assign notes that an epoch begins at an offset, and reports whether that was news. It is called for each batch, and by
// a new leader with the log's end even before it writes anything: otherwise an epoch without records would be unknown
// to followers that ask for it, and they would never get on. Entries of the same or later epochs, or at or above the
// offset, are dropped: nothing was written in them. The latest epoch keeps the offset at which it was first seen.
//
// A batch without an epoch (-1, from clients of old) says nothing.
func (e *LeaderEpochs) Assign(epoch kafka.LeaderEpoch, startOffset int64) bool {
	if epoch < 0 || startOffset < 0 {
		return false
	}
	n := len(e.entries)
	if n > 0 && e.entries[n-1].Epoch == epoch && e.entries[n-1].StartOffset <= startOffset {
		return false
	}
	for n > 0 && (e.entries[n-1].Epoch >= epoch || e.entries[n-1].StartOffset >= startOffset) {
		n--
	}
	e.entries = append(e.entries[:n], EpochEntry{epoch, startOffset})
	e.changed = true
	return true
}

// ForOffset is the epoch that the record at offset was written in, NoLeaderEpoch where that is not known.
func (e *LeaderEpochs) ForOffset(offset int64) kafka.LeaderEpoch {
	i := sort.Search(len(e.entries), func(i int) bool { return e.entries[i].StartOffset > offset })
	if i == 0 {
		return kafka.NoLeaderEpoch
	}
	return e.entries[i-1].Epoch
}

// EndOffset answers OffsetForLeaderEpoch: the largest known epoch that is not above the one asked for, and where it
// ends (exclusive). The answers are Kafka's:
//
//   - the latest epoch ends at the log's end;
//   - an epoch above the latest, or -1, is unknown: (NoLeaderEpoch, -1);
//   - an epoch below the first known one is answered with itself and where the first known one begins: its records are
//     no longer here, and whoever asks has to begin at the log's start.
func (e *LeaderEpochs) EndOffset(epoch kafka.LeaderEpoch, logEndOffset int64) (kafka.LeaderEpoch, int64) {
	latest := e.Latest()
	switch {
	case epoch < 0 || epoch > latest:
		return kafka.NoLeaderEpoch, -1
	case epoch == latest:
		return epoch, logEndOffset
	}
	next := sort.Search(len(e.entries), func(i int) bool { return e.entries[i].Epoch > epoch })
	if next == 0 {
		return epoch, e.entries[0].StartOffset
	}
	return e.entries[next-1].Epoch, e.entries[next].StartOffset
}

// TruncateFromEnd drops the epochs that begin at or above offset, and reports whether there were any. It must be called
// with every truncation, one to the log's end included: that drops an epoch which began there without records.
func (e *LeaderEpochs) TruncateFromEnd(offset int64) bool {
	n := sort.Search(len(e.entries), func(i int) bool { return e.entries[i].StartOffset >= offset })
	if n == len(e.entries) {
		return false
	}
	e.entries = e.entries[:n]
	e.changed = true
	return true
}

// TruncateFromStart drops the epochs that ended at or below offset, which becomes the start of the one that it lies in.
// It reports whether anything changed.
func (e *LeaderEpochs) TruncateFromStart(offset int64) bool {
	n := sort.Search(len(e.entries), func(i int) bool { return e.entries[i].StartOffset > offset })
	if n == 0 || n == 1 && e.entries[0].StartOffset == offset {
		return false
	}
	e.entries = slices.Delete(e.entries, 0, n-1)
	e.entries[0].StartOffset = offset
	e.changed = true
	return true
}

// Clear drops all epochs.
func (e *LeaderEpochs) Clear() {
	e.changed = e.changed || len(e.entries) > 0
	e.entries = nil
}

// Flush writes the file if anything changed since it was last written, and reports whether it did. Unless durable, it is
// cheap enough to be done under the log lock, and the group sync makes the file durable.
func (e *LeaderEpochs) Flush(durable bool) (bool, error) {
	if !e.changed {
		return false, nil
	}
	b := checkpointHeader(len(e.entries))
	for _, entry := range e.entries {
		b = strconv.AppendInt(b, int64(entry.Epoch), 10)
		b = strconv.AppendInt(append(b, ' '), entry.StartOffset, 10)
		b = append(b, '\n')
	}
	// A crash leaves the old file, the new one or, before the group sync, a torn one, which the reader refuses.
	if err := vfs.WriteFileAtomic(e.fs, e.path, b, sideFilePerm, durable); err != nil {
		return false, err
	}
	e.changed = false
	return true, nil
}
