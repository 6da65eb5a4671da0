package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"

	"weir/internal/vfs"
)

// raftState is the content of the file raft-state: what a node must never forget.
type raftState struct {
	RaftID uint64
	Term   uint64
	Vote   uint64
}

const (
	raftStateFile    = "raft-state"
	raftStateSize    = 40
	raftStateMagic   = "WRFT"
	raftStateVersion = 1
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
	b = binary.BigEndian.AppendUint32(b, 0)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeRaftState(b []byte) (s raftState, err error) {
	switch {
	case len(b) != raftStateSize:
		return s, fmt.Errorf("%d bytes instead of %d", len(b), raftStateSize)
	case string(b[:4]) != raftStateMagic:
		return s, fmt.Errorf("magic %q instead of %q", b[:4], raftStateMagic)
	case crc32.Checksum(b[:36], castagnoli) != binary.BigEndian.Uint32(b[36:]):
		return s, errors.New("checksum does not match")
	}
	if v := binary.BigEndian.Uint16(b[4:]); v != raftStateVersion {
		return s, fmt.Errorf("version %d is not known to this version of weir", v)
	}
	if binary.BigEndian.Uint16(b[6:]) != 0 || binary.BigEndian.Uint32(b[32:]) != 0 {
		return s, errors.New("reserved bytes are set")
	}
	s = raftState{
		RaftID: binary.BigEndian.Uint64(b[8:]), Term: binary.BigEndian.Uint64(b[16:]), Vote: binary.BigEndian.Uint64(b[24:]),
	}
	if s.RaftID == 0 {
		return s, errors.New("raft id 0")
	}
	return s, nil
}

// readRaftState returns nil where there is no file.
func readRaftState(fsys vfs.FS, dir string) (*raftState, error) {
	path := filepath.Join(dir, raftStateFile)
	b, err := readFile(fsys, path)
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

// readFile reads a whole file.
func readFile(fsys vfs.FS, path string) ([]byte, error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, size)
	if size == 0 {
		return b, nil
	}
	if _, err := f.ReadAt(b, 0); err != nil {
		return nil, err
	}
	return b, nil
}

// writeFile replaces a file as a whole: write beside, sync, rename, sync the directory. A crash leaves the old file or the
// new one, and once writeFile has returned, the new one.
func writeFile(fsys vfs.FS, path string, content []byte) (err error) {
	tmp := path + ".tmp"
	f, err := fsys.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if _, err = f.WriteAt(content, 0); err == nil {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = fsys.Rename(tmp, path)
	}
	if err == nil {
		err = fsys.SyncDir(filepath.Dir(path))
	}
	return err
}
