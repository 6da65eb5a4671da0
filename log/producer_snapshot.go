package log

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"

	"weir/internal/vfs"
	"weir/protocol/batch"
)

// A producer snapshot is the state at the log end offset that its name tells, in Kafka's format:
//
//	0        2          6        10
//	+--------+----------+--------+---------//---------+
//	| version| CRC-32C  | number | entries of 46 bytes |
//	| int16  | of what  | int32  |                     |
//	| = 1    | follows  |        |                     |
//	+--------+----------+--------+---------//---------+
//
//	0        8      10       14       22      26        34            38                 46
//	+--------+------+--------+--------+-------+---------+-------------+------------------+
//	| int64  | int16| int32  | int64  | int32 | int64   | int32       | int64            |
//	| id     | epoch| last   | last   | offset| last    | coordinator | first offset of  |
//	|        |      | seq.   | offset | delta | time, ms| epoch       | the transaction  |
//	+--------+------+--------+--------+-------+---------+-------------+------------------+
//
// Of a producer's batches it keeps only the last one. -1 stands for what is not there.
const (
	producerSnapshotVersion   = 1 // on disk
	producerSnapshotCRCPos    = 2
	producerSnapshotCountPos  = 6
	producerSnapshotEntries   = 10
	producerSnapshotEntrySize = 46
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendSnapshot appends the encoded state to b, with the producers by id.
func (s *ProducerStates) AppendSnapshot(b []byte) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, producerSnapshotVersion)
	b = binary.BigEndian.AppendUint32(b, 0) // the CRC, once what follows is there
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.producers)))
	for _, state := range s.Active() {
		last := s.producers[state.ProducerID].last()
		b = binary.BigEndian.AppendUint64(b, uint64(state.ProducerID))
		b = binary.BigEndian.AppendUint16(b, uint16(state.Epoch))
		b = binary.BigEndian.AppendUint32(b, uint32(last.lastSequence))
		b = binary.BigEndian.AppendUint64(b, uint64(last.lastOffset))
		b = binary.BigEndian.AppendUint32(b, uint32(last.offsetDelta))
		b = binary.BigEndian.AppendUint64(b, uint64(state.LastTimestamp))
		b = binary.BigEndian.AppendUint32(b, uint32(state.CoordinatorEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(state.TxnStartOffset))
	}
	crc := crc32.Checksum(b[start+producerSnapshotCountPos:], castagnoli)
	binary.BigEndian.PutUint32(b[start+producerSnapshotCRCPos:], crc)
	return b
}

// LoadSnapshot replaces the state by an encoded one, which stands for the log's end at endOffset. Producers that have
// expired by now are left out. path is for the error, an ErrBrokenFile, after which there is no state.
func (s *ProducerStates) LoadSnapshot(path string, b []byte, endOffset, nowMs int64) error {
	s.Reset(endOffset)
	if err := checkSnapshot(path, b); err != nil {
		return err
	}
	for pos := producerSnapshotEntries; pos < len(b); pos += producerSnapshotEntrySize {
		entry := b[pos : pos+producerSnapshotEntrySize]
		id := int64(binary.BigEndian.Uint64(entry))
		p := decodeProducer(entry)
		if s.producers[id] != nil {
			s.Reset(endOffset)
			return brokenAt(path, int64(pos), "producer %d is there twice", id)
		}
		if s.expired(p, nowMs) {
			continue
		}
		s.producers[id] = p
		if p.txnFirstOffset >= 0 {
			s.begin(openTxn{producerID: id, firstOffset: p.txnFirstOffset})
		}
	}
	return nil
}

func checkSnapshot(path string, b []byte) error {
	if len(b) < producerSnapshotEntries {
		return brokenAt(path, int64(len(b)), "%d bytes are too few for a snapshot", len(b))
	}
	if v := int16(binary.BigEndian.Uint16(b)); v != producerSnapshotVersion {
		return brokenAt(path, 0, "version %d, not %d", v, producerSnapshotVersion)
	}
	stored, computed := binary.BigEndian.Uint32(b[producerSnapshotCRCPos:]), crc32.Checksum(b[producerSnapshotCountPos:], castagnoli)
	if stored != computed {
		return brokenAt(path, producerSnapshotCRCPos, "stored CRC is %d, computed %d", stored, computed)
	}
	count := int64(int32(binary.BigEndian.Uint32(b[producerSnapshotCountPos:])))
	if want := producerSnapshotEntries + count*producerSnapshotEntrySize; count < 0 || int64(len(b)) != want {
		return brokenAt(path, producerSnapshotCountPos, "%d bytes for %d producers, not %d", len(b), count, want)
	}
	return nil
}

func decodeProducer(entry []byte) *producer {
	p := &producer{
		epoch:            int16(binary.BigEndian.Uint16(entry[8:])),
		lastTimestamp:    int64(binary.BigEndian.Uint64(entry[26:])),
		coordinatorEpoch: int32(binary.BigEndian.Uint32(entry[34:])),
		txnFirstOffset:   max(int64(binary.BigEndian.Uint64(entry[38:])), noTxnFirstOffset),
	}
	last := producerBatch{
		lastSequence: int32(binary.BigEndian.Uint32(entry[10:])),
		lastOffset:   int64(binary.BigEndian.Uint64(entry[14:])),
		offsetDelta:  int32(binary.BigEndian.Uint32(entry[22:])),
		timestamp:    p.lastTimestamp,
	}
	if last.lastOffset >= 0 && last.lastSequence >= batch.NoSequence {
		p.add(last)
		p.incomplete = true
	}
	return p
}

// WriteProducerSnapshot writes the state to a new file. The file may be torn by a crash before it is synced; its CRC
// tells, and the state is made again from an older snapshot and the log.
func WriteProducerSnapshot(fsys vfs.FS, path string, s *ProducerStates) error {
	f, err := fsys.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, sideFilePerm)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(s.AppendSnapshot(nil), 0)
	return errors.Join(err, f.Close())
}

// ReadProducerSnapshot is LoadSnapshot from a file. Errors are an ErrBrokenFile or the disk's.
func ReadProducerSnapshot(fsys vfs.FS, path string, s *ProducerStates, endOffset, nowMs int64) error {
	b, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return err
	}
	return s.LoadSnapshot(path, b, endOffset, nowMs)
}
