package log

import (
	"encoding/binary"
	"fmt"

	"weir/internal/invariant"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

const timeEntrySize = 12 // on disk: int64 timestamp in ms, int32 offset less the segment's base offset

// TimestampOffset says that no batch of the segment up to the one that ends with Offset is newer than Timestamp (ms),
// and that this one is as new.
type TimestampOffset struct {
	Timestamp, Offset int64
}

// TimeIndex is the sparse .timeindex of one segment. Its timestamps increase, whatever the order of the batches': an
// entry has the newest up to its offset. See indexFile for what is in memory and what in the file. Not safe for
// concurrent use.
type TimeIndex struct {
	file       indexFile
	baseOffset int64
	newest     TimestampOffset // the last entry, while resident
}

func timeIndex(fsys vfs.FS, path string, baseOffset int64) *TimeIndex {
	return &TimeIndex{
		file: indexFile{fs: fsys, path: path, width: timeEntrySize}, baseOffset: baseOffset,
		newest: TimestampOffset{Timestamp: batch.NoTimestamp, Offset: baseOffset},
	}
}

// NewTimeIndex begins a resident index without entries; the first Flush replaces a file that is there.
func NewTimeIndex(fsys vfs.FS, path string, baseOffset int64) *TimeIndex {
	x := timeIndex(fsys, path, baseOffset)
	x.file.renew()
	return x
}

// LoadTimeIndex reads a resident index from its file and checks all of it: it is an ErrBrokenFile if timestamps do not
// increase, or offsets go back or lie outside of a segment that ends at endOffset (exclusive).
func LoadTimeIndex(fsys vfs.FS, path string, baseOffset, endOffset int64) (*TimeIndex, error) {
	x := timeIndex(fsys, path, baseOffset)
	err := x.file.load(func(i int64, entry []byte) string {
		at := x.decode(entry)
		if i > 0 && at.Timestamp <= x.newest.Timestamp || at.Offset < x.newest.Offset {
			return fmt.Sprintf("time %d of offset %d follows time %d of offset %d", at.Timestamp, at.Offset, x.newest.Timestamp, x.newest.Offset)
		}
		x.newest = at
		return x.outside(at, endOffset)
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// OpenTimeIndex opens the sealed index of a segment that does not grow, and looks only at its size and last entry.
func OpenTimeIndex(fsys vfs.FS, path string, baseOffset, endOffset int64) (*TimeIndex, error) {
	x := timeIndex(fsys, path, baseOffset)
	if err := x.file.openSealed(); err != nil {
		return nil, err
	}
	entry, err := x.file.last()
	if err != nil || entry == nil {
		return x, err
	}
	if why := x.outside(x.decode(entry), endOffset); why != "" {
		return nil, brokenAt(path, (x.file.count-1)*timeEntrySize, "%s", why)
	}
	return x, nil
}

func (x *TimeIndex) outside(at TimestampOffset, endOffset int64) string {
	if at.Timestamp < 0 || at.Offset < x.baseOffset || at.Offset >= endOffset {
		return fmt.Sprintf("time %d of offset %d is outside of the segment, which has offsets [%d, %d)", at.Timestamp, at.Offset, x.baseOffset, endOffset)
	}
	return ""
}

func (x *TimeIndex) decode(entry []byte) TimestampOffset {
	return TimestampOffset{
		Timestamp: int64(binary.BigEndian.Uint64(entry)),
		Offset:    x.baseOffset + int64(int32(binary.BigEndian.Uint32(entry[8:]))),
	}
}

// Append notes the newest timestamp so far and the last offset of the batch that has it. One that is not above the last
// entry's says nothing new and is left out. The index must be resident.
func (x *TimeIndex) Append(timestamp, offset int64) {
	if timestamp <= x.newest.Timestamp {
		return
	}
	relative := offset - x.baseOffset
	invariant.Assert(relative >= 0 && relative <= maxRelativeOffset && offset >= x.newest.Offset,
		"%s: time %d of offset %d cannot follow time %d of offset %d", x.file.path, timestamp, offset, x.newest.Timestamp, x.newest.Offset)
	var entry [timeEntrySize]byte
	binary.BigEndian.PutUint64(entry[:], uint64(timestamp))
	binary.BigEndian.PutUint32(entry[8:], uint32(relative))
	x.file.append(entry[:])
	x.newest = TimestampOffset{timestamp, offset}
}

// Lookup finds the last entry that is not newer than timestamp: everything before its batch is older than timestamp, or
// as old. Without one it is NoTimestamp at the segment's start.
func (x *TimeIndex) Lookup(timestamp int64) (TimestampOffset, error) {
	return x.floor(func(entry []byte) bool { return x.decode(entry).Timestamp > timestamp })
}

func (x *TimeIndex) floor(above func(entry []byte) bool) (TimestampOffset, error) {
	_, entry, err := x.file.search(above)
	if err != nil || entry == nil {
		return TimestampOffset{Timestamp: batch.NoTimestamp, Offset: x.baseOffset}, err
	}
	return x.decode(entry), nil
}

// Last is the newest entry, or NoTimestamp at the segment's start. Of a sealed index it is the segment's newest time.
func (x *TimeIndex) Last() (TimestampOffset, error) {
	if !x.file.sealed {
		return x.newest, nil
	}
	return x.floor(func([]byte) bool { return false })
}

// Len is the number of entries.
func (x *TimeIndex) Len() int64 { return x.file.count }

// TruncateTo drops the entries of offset and above. A sealed index becomes resident.
func (x *TimeIndex) TruncateTo(offset int64) error {
	if err := x.file.truncate(func(entry []byte) bool { return x.decode(entry).Offset >= offset }); err != nil {
		return err
	}
	var err error
	x.newest, err = x.floor(func([]byte) bool { return false })
	return err
}

// Flush writes to the file what it lacks, without making it durable.
func (x *TimeIndex) Flush() error { return x.file.flush() }

// Seal flushes the index and frees its memory: look-ups read the file from now on. The segment's newest time must have
// been appended before.
func (x *TimeIndex) Seal() error { return x.file.seal() }

// Sync makes durable what was flushed.
func (x *TimeIndex) Sync() error { return x.file.sync() }
