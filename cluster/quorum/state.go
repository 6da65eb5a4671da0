package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"

	"weir/internal/vfs"
)

// raftState is the content of the file raft-state: what a node must never forget.
type raftState struct {
	RaftID uint64
	Term   uint64
	Vote   uint64
	// Committed is the offset (exclusive) up to which the log is known to be committed: not always the newest, but behind
	// every configuration change that counts already. 0: there is no log yet, the node waits for its first snapshot.
	// unknown: version 1 of the file does not say.
	Committed int64
}

const (
	raftStateFile    = "raft-state"
	raftStateSize    = 48
	raftStateMagic   = "WRFT"
	raftStateVersion = 2

	raftStateSizeV1 = 40 // without Committed; written by nodes that were alone
	unknown         = -1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (s raftState) encode() []byte {
	b := make([]byte, 0, raftStateSize)
	b = append(b, raftStateMagic...)
	b = binary.BigEndian.AppendUint16(b, raftStateVersion)
	b = binary.BigEndian.AppendUint16(b, 0)
	b = binary.BigEndian.AppendUint64(b, s.RaftID)
	b = binary.BigEndian.AppendUint64(b, s.Term)
	b = binary.BigEndian.AppendUint64(b, s.Vote)
	b = binary.BigEndian.AppendUint64(b, uint64(max(s.Committed, 0)))
	b = binary.BigEndian.AppendUint32(b, 0)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeRaftState(b []byte) (s raftState, err error) {
	if len(b) != raftStateSize && len(b) != raftStateSizeV1 {
		return s, fmt.Errorf("%d bytes instead of %d", len(b), raftStateSize)
	}
	body, crc := b[:len(b)-4], binary.BigEndian.Uint32(b[len(b)-4:])
	version := binary.BigEndian.Uint16(b[4:])
	switch {
	case string(b[:4]) != raftStateMagic:
		return s, fmt.Errorf("magic %q instead of %q", b[:4], raftStateMagic)
	case crc32.Checksum(body, castagnoli) != crc:
		return s, errors.New("checksum does not match")
	case version > raftStateVersion:
		return s, fmt.Errorf("version %d is not known to this version of weir", version)
	case version != 1 && version != raftStateVersion, (version == 1) != (len(b) == raftStateSizeV1):
		return s, fmt.Errorf("%d bytes in version %d", len(b), version)
	case binary.BigEndian.Uint16(b[6:]) != 0 || binary.BigEndian.Uint32(body[len(body)-4:]) != 0:
		return s, errors.New("reserved bytes are set")
	}
	s = raftState{
		RaftID: binary.BigEndian.Uint64(b[8:]), Term: binary.BigEndian.Uint64(b[16:]), Vote: binary.BigEndian.Uint64(b[24:]), Committed: unknown,
	}
	if version > 1 {
		s.Committed = int64(binary.BigEndian.Uint64(b[32:]))
	}
	if s.RaftID == 0 || version > 1 && s.Committed < 0 {
		return s, errors.New("raft id or offset out of range")
	}
	return s, nil
}

// readRaftState returns nil where there is no file.
func readRaftState(fsys vfs.FS, dir string) (*raftState, error) {
	path := filepath.Join(dir, raftStateFile)
	b, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := decodeRaftState(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &s, nil
}

func writeRaftState(fsys vfs.FS, dir string, s raftState) error {
	return writeFile(fsys, filepath.Join(dir, raftStateFile), s.encode())
}

// writeFile replaces a file as a whole, durably: a crash leaves the old file or the new one, and once writeFile has
// returned, the new one.
func writeFile(fsys vfs.FS, path string, content []byte) error {
	return vfs.WriteFileAtomic(fsys, path, content, 0o644, true)
}
