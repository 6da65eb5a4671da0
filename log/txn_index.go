package log

import (
	"encoding/binary"
	"fmt"

	"weir/internal/vfs"
)

const (
	// txnEntrySize, on disk: int16 version, int64 producer id, first offset, last offset, last stable offset.
	txnEntrySize    = 34
	txnEntryVersion = 0 // on disk
)

// TxnIndex is the .txnindex of one segment: the aborted transactions whose markers are in the segment, in the order of
// the markers. See indexFile for what is in memory and what in the file. Other than the sparse indexes, an entry that is
// missing is wrong: consumers would be handed what was aborted. So the file must be durable before the log's recovery
// point passes a marker. Not safe for concurrent use.
type TxnIndex struct {
	file       indexFile
	baseOffset int64
}

func txnIndex(fsys vfs.FS, path string, baseOffset int64) *TxnIndex {
	return &TxnIndex{file: indexFile{fs: fsys, path: path, width: txnEntrySize}, baseOffset: baseOffset}
}

// NewTxnIndex begins a resident index without entries; the first Flush replaces a file that is there.
func NewTxnIndex(fsys vfs.FS, path string, baseOffset int64) *TxnIndex {
	x := txnIndex(fsys, path, baseOffset)
	x.file.renew()
	return x
}

// LoadTxnIndex reads a resident index from its file and checks all of it: it is an ErrBrokenFile if markers do not
// increase, or lie outside of a segment that ends at endOffset (exclusive), or a version is not known.
func LoadTxnIndex(fsys vfs.FS, path string, baseOffset, endOffset int64) (*TxnIndex, error) {
	x := txnIndex(fsys, path, baseOffset)
	previous := baseOffset - 1
	err := x.file.load(func(_ int64, entry []byte) string {
		txn, version := decodeAbortedTxn(entry)
		switch {
		case version != txnEntryVersion:
			return fmt.Sprintf("version %d, not %d", version, txnEntryVersion)
		case txn.LastOffset <= previous || txn.LastOffset >= endOffset:
			return fmt.Sprintf("marker at offset %d, not in (%d, %d)", txn.LastOffset, previous, endOffset)
		case txn.FirstOffset < 0 || txn.FirstOffset > txn.LastOffset:
			return fmt.Sprintf("transaction from offset %d to %d", txn.FirstOffset, txn.LastOffset)
		}
		previous = txn.LastOffset
		return ""
	})
	if err != nil {
		return nil, err
	}
	return x, nil
}

// OpenTxnIndex checks the file as LoadTxnIndex does, since it is small and an error in it would be seen by consumers,
// and then seals the index: for a segment that does not grow.
func OpenTxnIndex(fsys vfs.FS, path string, baseOffset, endOffset int64) (*TxnIndex, error) {
	x, err := LoadTxnIndex(fsys, path, baseOffset, endOffset)
	if err != nil {
		return nil, err
	}
	return x, x.Seal()
}

func decodeAbortedTxn(entry []byte) (txn AbortedTxn, version int16) {
	return AbortedTxn{
		ProducerID:       int64(binary.BigEndian.Uint64(entry[2:])),
		FirstOffset:      int64(binary.BigEndian.Uint64(entry[10:])),
		LastOffset:       int64(binary.BigEndian.Uint64(entry[18:])),
		LastStableOffset: int64(binary.BigEndian.Uint64(entry[26:])),
	}, int16(binary.BigEndian.Uint16(entry))
}

// Append adds a transaction whose marker is above those that are there. The index must be resident.
func (x *TxnIndex) Append(txn AbortedTxn) {
	var entry [txnEntrySize]byte
	binary.BigEndian.PutUint16(entry[:], txnEntryVersion)
	binary.BigEndian.PutUint64(entry[2:], uint64(txn.ProducerID))
	binary.BigEndian.PutUint64(entry[10:], uint64(txn.FirstOffset))
	binary.BigEndian.PutUint64(entry[18:], uint64(txn.LastOffset))
	binary.BigEndian.PutUint64(entry[26:], uint64(txn.LastStableOffset))
	x.file.append(entry[:])
}

// Collect appends to txns the transactions that have records in [from, to). complete says that later segments have none:
// when this one's last transaction ended, everything below `to` was decided.
func (x *TxnIndex) Collect(txns []AbortedTxn, from, to int64) (_ []AbortedTxn, complete bool, err error) {
	before, _, err := x.file.search(func(entry []byte) bool {
		txn, _ := decodeAbortedTxn(entry)
		return txn.LastOffset >= from
	})
	if err != nil {
		return txns, false, err
	}
	err = x.file.each(before+1, func(entry []byte) bool {
		txn, _ := decodeAbortedTxn(entry)
		if txn.FirstOffset < to {
			txns = append(txns, txn)
		}
		complete = txn.LastStableOffset >= to
		return !complete
	})
	return txns, complete, err
}

// Len is the number of entries.
func (x *TxnIndex) Len() int64 { return x.file.count }

// TruncateTo drops the transactions whose marker is at offset or above. A sealed index becomes resident.
func (x *TxnIndex) TruncateTo(offset int64) error {
	return x.file.truncate(func(entry []byte) bool {
		txn, _ := decodeAbortedTxn(entry)
		return txn.LastOffset >= offset
	})
}

// Flush writes to the file what it lacks, without making it durable.
func (x *TxnIndex) Flush() error { return x.file.flush() }

// Seal flushes the index and frees its memory: look-ups read the file from now on.
func (x *TxnIndex) Seal() error { return x.file.seal() }

// Sync makes durable what was flushed.
func (x *TxnIndex) Sync() error { return x.file.sync() }
