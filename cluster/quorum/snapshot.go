package quorum

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"go.etcd.io/raft/v3/raftpb"

	"weir/cluster/metadata"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

// snapshot is an image with its place in Raft's log.
type snapshot struct {
	index uint64 // of the last entry that it covers
	term  uint64
	conf  *raftpb.ConfState
	image *metadata.Image
	size  int64 // bytes of the file that it was read from
}

const (
	snapshotSuffix  = ".checkpoint"
	snapshotVersion = 1

	// snapshotBatchRecords is how many records go into one batch of a snapshot: large enough to be few batches, small
	// enough for any reader.
	snapshotBatchRecords = 1000
)

// snapshotName is Kafka's: the first offset that the snapshot does not hold, and the term of the last that it does.
func snapshotName(index, term uint64) string {
	return fmt.Sprintf("%020d-%010d%s", index+1, term, snapshotSuffix)
}

func parseSnapshotName(name string) (index, term uint64, ok bool) {
	const length = 20 + 1 + 10 + len(snapshotSuffix)
	if len(name) != length || name[20] != '-' || !strings.HasSuffix(name, snapshotSuffix) {
		return 0, 0, false
	}
	end, err1 := strconv.ParseUint(name[:20], 10, 63)
	term, err2 := strconv.ParseUint(name[21:31], 10, 31)
	if err1 != nil || err2 != nil || end == 0 {
		return 0, 0, false
	}
	return end - 1, term, true
}

// encode makes the content of a snapshot file.
func (s *snapshot) encode(nowMs int64) ([]byte, error) {
	b := batch.NewBuilder(batch.None, 0)
	var out []byte
	var err error
	offset, count := int64(0), uint64(0)
	add := func(kind int16, value []byte) {
		if err == nil {
			out, err = appendRecord(out, b, record{offset, int32(s.term), kind, value}, nowMs)
			offset++
		}
	}
	add(kindSnapshotHeader, s.encodeHeader())
	pending := make([]metadata.Record, 0, snapshotBatchRecords)
	var value []byte
	flush := func() {
		if len(pending) > 0 {
			value = metadata.AppendEntry(value[:0], metadata.NoBase, pending)
			add(kindMetadata, value)
		}
		pending = pending[:0]
	}
	for r := range s.image.Records() {
		pending = append(pending, r)
		count++
		if len(pending) == snapshotBatchRecords {
			flush()
		}
	}
	flush()
	add(kindSnapshotFooter, binary.AppendUvarint(nil, count))
	return out, err
}

func (s *snapshot) encodeHeader() []byte {
	b := binary.AppendUvarint(nil, snapshotVersion)
	for _, v := range []int64{int64(s.index), int64(s.term), s.image.Index, int64(s.image.Term)} {
		b = binary.AppendVarint(b, v)
	}
	for _, ids := range [][]uint64{s.conf.GetVoters(), s.conf.GetLearners(), s.conf.GetVotersOutgoing(), s.conf.GetLearnersNext()} {
		b = binary.AppendUvarint(b, uint64(len(ids)))
		for _, id := range ids {
			b = binary.BigEndian.AppendUint64(b, id)
		}
	}
	if s.conf.GetAutoLeave() {
		return append(b, 1)
	}
	return append(b, 0)
}

var errHeader = errors.New("snapshot header is cut short or not what any version writes")

// decodeHeader reads a header. The snapshot's image has only index and term.
func decodeHeader(header []byte) (*snapshot, error) {
	b := header
	uvarint := func() uint64 {
		v, n := binary.Uvarint(b)
		b = b[max(n, 0):]
		return v
	}
	varint := func() int64 {
		v, n := binary.Varint(b)
		b = b[max(n, 0):]
		return v
	}
	if version := uvarint(); version != snapshotVersion {
		return nil, fmt.Errorf("snapshot of version %d is not known to this version of weir", version)
	}
	s := &snapshot{index: uint64(varint()), term: uint64(varint()), conf: &raftpb.ConfState{}, image: &metadata.Image{}}
	s.image.Index, s.image.Term = varint(), int32(varint())
	for _, ids := range []*[]uint64{&s.conf.Voters, &s.conf.Learners, &s.conf.VotersOutgoing, &s.conf.LearnersNext} {
		n := uvarint()
		if n > uint64(len(b)/8) {
			return nil, errHeader
		}
		for range n {
			*ids = append(*ids, binary.BigEndian.Uint64(b))
			b = b[8:]
		}
	}
	s.conf.AutoLeave = new(len(b) > 0 && b[0] == 1)
	// What was cut short, out of range, or written in a longer form, encodes to other bytes.
	if s.term > maxTerm || s.index > 1<<62 || s.image.Index > int64(s.index) || !bytes.Equal(s.encodeHeader(), header) {
		return nil, errHeader
	}
	return s, nil
}

// decodeSnapshot reads the content of a snapshot file, all of it or none.
func decodeSnapshot(content []byte) (*snapshot, error) {
	var s *snapshot
	var loader *metadata.Loader
	count, offset, ended := uint64(0), int64(0), false
	for b, err := range batch.Batches(content) {
		var r record
		if err == nil {
			r, err = parseRecord(b)
		}
		switch {
		case err != nil:
		case r.offset != offset || ended:
			err = fmt.Errorf("batch of offset %d is out of its order", r.offset)
		case offset == 0 && r.kind == kindSnapshotHeader:
			if s, err = decodeHeader(r.value); err == nil {
				loader = metadata.NewLoader(s.image.Index, s.image.Term)
			}
		case loader != nil && r.kind == kindMetadata:
			var n int
			n, err = loader.Add(r.value)
			count += uint64(n)
		case loader != nil && r.kind == kindSnapshotFooter:
			ended = true
			if want, n := binary.Uvarint(r.value); n != len(r.value) || n <= 0 || want != count {
				err = fmt.Errorf("footer counts other than %d records", count)
			}
		default:
			err = &UnknownEntryError{r.offset, r.kind}
		}
		if err != nil {
			return nil, err
		}
		offset++
	}
	if !ended {
		return nil, errors.New("the footer is missing")
	}
	s.image = loader.Image()
	return s, nil
}

// readSnapshot reads and checks one snapshot file.
func readSnapshot(fsys vfs.FS, dir string, index, term uint64) (*snapshot, error) {
	path := filepath.Join(dir, snapshotName(index, term))
	content, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return nil, err
	}
	s, err := decodeSnapshot(content)
	if err == nil && (s.index != index || s.term != term) {
		err = fmt.Errorf("it is the snapshot of index %d, term %d", s.index, s.term)
	}
	if err != nil {
		return nil, fmt.Errorf("snapshot %s: %w", path, err)
	}
	s.size = int64(len(content))
	return s, nil
}

// newestSnapshot reads the newest snapshot of a directory; nil where there is none. One that cannot be read is an error:
// what an older one and the log would give may be less than what was acknowledged.
func newestSnapshot(fsys vfs.FS, dir string) (*snapshot, error) {
	entries, err := fsys.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for i := len(entries) - 1; i >= 0; i-- { // sorted by name, and so by offset
		if index, term, ok := parseSnapshotName(entries[i].Name()); ok {
			return readSnapshot(fsys, dir, index, term)
		}
	}
	return nil, nil
}

// removeSnapshotsBelow removes the snapshots of a lower index. A crash in between leaves some, which the next call removes.
func removeSnapshotsBelow(fsys vfs.FS, dir string, index uint64) error {
	entries, err := fsys.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if i, _, ok := parseSnapshotName(e.Name()); ok && i < index {
			if err := fsys.Remove(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}
