package log

import (
	"encoding/binary"
	"fmt"
	"math"

	"weir/internal/invariant"
	"weir/internal/vfs"
)

const (
	offsetEntrySize = 8 // on disk: int32 offset less the segment's base offset, int32 position
	// maxRelativeOffset is how far an offset may be from its segment's base offset, for the indexes to hold it.
	maxRelativeOffset = math.MaxInt32
)

// OffsetPosition says that the batch at Position, in bytes from the segment's start, has Offset as its last one. Kafka
// notes the last and not the first offset of a batch, and its dump tool insists on it.
type OffsetPosition struct {
	Offset, Position int64
}

// OffsetIndex is the sparse .index of one segment: for some of its batches, one in index.interval.bytes, where they are.
// See indexFile for what is in memory and what in the file. Not safe for concurrent use.
type OffsetIndex struct {
	file       indexFile
	baseOffset int64
}

func offsetIndex(fsys vfs.FS, path string, baseOffset int64) *OffsetIndex {
	return &OffsetIndex{file: indexFile{fs: fsys, path: path, width: offsetEntrySize}, baseOffset: baseOffset}
}

// NewOffsetIndex begins a resident index without entries; the first Flush replaces a file that is there.
func NewOffsetIndex(fsys vfs.FS, path string, baseOffset int64) *OffsetIndex {
	x := offsetIndex(fsys, path, baseOffset)
	x.file.renew()
	return x
}

// LoadOffsetIndex reads a resident index from its file and checks all of it: it is an ErrBrokenFile if offsets or
// positions do not increase, or lie outside of a segment that ends at endOffset and endPosition (both exclusive). Then
// the index must be made anew from the batches.
func LoadOffsetIndex(fsys vfs.FS, path string, baseOffset, endOffset, endPosition int64) (*OffsetIndex, error) {
	x := offsetIndex(fsys, path, baseOffset)
	previous := OffsetPosition{Offset: baseOffset - 1, Position: -1}
	err := x.file.load(func(_ int64, entry []byte) string {
		at := x.decode(entry)
		if at.Offset <= previous.Offset || at.Position <= previous.Position {
			return fmt.Sprintf("offset %d at %d follows offset %d at %d", at.Offset, at.Position, previous.Offset, previous.Position)
		}
		previous = at
		return x.outside(at, endOffset, endPosition)
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// OpenOffsetIndex opens the sealed index of a segment that does not grow, and looks only at its size and last entry. A
// look-up whose answer is no batch's start tells that more is wrong.
func OpenOffsetIndex(fsys vfs.FS, path string, baseOffset, endOffset, endPosition int64) (*OffsetIndex, error) {
	x := offsetIndex(fsys, path, baseOffset)
	if err := x.file.openSealed(); err != nil {
		return nil, err
	}
	entry, err := x.file.last()
	if err != nil || entry == nil {
		return x, err
	}
	if why := x.outside(x.decode(entry), endOffset, endPosition); why != "" {
		return nil, brokenAt(path, (x.file.count-1)*offsetEntrySize, "%s", why)
	}
	return x, nil
}

func (x *OffsetIndex) outside(at OffsetPosition, endOffset, endPosition int64) string {
	if at.Offset < x.baseOffset || at.Offset >= endOffset || at.Position < 0 || at.Position >= endPosition {
		return fmt.Sprintf("offset %d at %d is outside of the segment, which has offsets [%d, %d) in %d bytes",
			at.Offset, at.Position, x.baseOffset, endOffset, endPosition)
	}
	return ""
}

func (x *OffsetIndex) decode(entry []byte) OffsetPosition {
	return OffsetPosition{
		Offset:   x.baseOffset + int64(int32(binary.BigEndian.Uint32(entry))),
		Position: int64(int32(binary.BigEndian.Uint32(entry[4:]))),
	}
}

// Append adds the batch at position, whose last offset is given. Both must be above those of the last entry. The index
// must be resident.
func (x *OffsetIndex) Append(lastOffset, position int64) {
	relative := lastOffset - x.baseOffset
	if relative < 0 || relative > maxRelativeOffset || position < 0 || position > math.MaxInt32 {
		invariant.Assert(false, "%s: offset %d at %d does not fit an entry", x.file.path, lastOffset, position)
	}
	var entry [offsetEntrySize]byte
	binary.BigEndian.PutUint32(entry[:], uint32(relative))
	binary.BigEndian.PutUint32(entry[4:], uint32(position))
	x.file.append(entry[:])
}

// Lookup finds a batch that begins at or before offset, as near as the index knows: its entry, or the segment's start
// where no entry is as low.
func (x *OffsetIndex) Lookup(offset int64) (OffsetPosition, error) {
	return x.floor(func(entry []byte) bool { return x.decode(entry).Offset > offset })
}

// LookupPosition finds the entry of the last batch known to begin at or before position, or the segment's start.
func (x *OffsetIndex) LookupPosition(position int64) (OffsetPosition, error) {
	return x.floor(func(entry []byte) bool { return x.decode(entry).Position > position })
}

func (x *OffsetIndex) floor(above func(entry []byte) bool) (OffsetPosition, error) {
	_, entry, err := x.file.search(above)
	if err != nil || entry == nil {
		return OffsetPosition{Offset: x.baseOffset}, err
	}
	return x.decode(entry), nil
}

// Last is the newest entry, or the segment's start without one.
func (x *OffsetIndex) Last() (OffsetPosition, error) {
	return x.floor(func([]byte) bool { return false })
}

// Len is the number of entries.
func (x *OffsetIndex) Len() int64 { return x.file.count }

// TruncateTo drops the batches that reach to offset or beyond. A sealed index becomes resident.
func (x *OffsetIndex) TruncateTo(offset int64) error {
	return x.file.truncate(func(entry []byte) bool { return x.decode(entry).Offset >= offset })
}

// Flush writes to the file what it lacks, without making it durable.
func (x *OffsetIndex) Flush() error { return x.file.flush() }

// Ensure makes the file even if the index is empty: Kafka's tools look for it beside a time index.
func (x *OffsetIndex) Ensure() error { return x.file.ensure() }

// Seal flushes the index and frees its memory: look-ups read the file from now on.
func (x *OffsetIndex) Seal() error { return x.file.seal() }

// Sync makes durable what was flushed.
func (x *OffsetIndex) Sync() error { return x.file.sync() }
