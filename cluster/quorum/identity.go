package quorum

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.etcd.io/raft/v3"

	"weir/internal/invariant"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// RaftID is the Raft id of the node whose metadata directory has this id: another disk is another member, and nobody has
// to hand ids out (the directory id of KIP-853 made a number). It is never 0.
func RaftID(dir kafka.DirectoryID) uint64 {
	sum := sha256.Sum256(dir[:])
	return firstRaftID(sum[:])
}

// firstRaftID takes the first 8 bytes that are neither 0 nor one of Raft's names for the node itself.
func firstRaftID(sum []byte) uint64 {
	for b := range slices.Chunk(sum, 8) {
		if id := binary.BigEndian.Uint64(b); id != 0 && !raft.IsLocalMsgTarget(id) {
			return id
		}
	}
	invariant.Assert(false, "a hash without a Raft id: %x", sum)
	return 1
}

// memberFile lies beside the log's directory and names the Raft id whose log is in there: should the log be gone one day,
// its node must not begin anew under that id.
const memberFile = "raft-member"

func memberPath(dir string) string { return filepath.Join(filepath.Dir(dir), memberFile) }

// readMember returns 0 where there is no file.
func readMember(fsys vfs.FS, dir string) (uint64, error) {
	content, err := vfs.ReadFile(fsys, memberPath(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	line, ended := strings.CutSuffix(string(content), "\n")
	id, err := strconv.ParseUint(line, 16, 64)
	if err != nil || !ended || id == 0 || len(line) != 16 {
		return 0, fmt.Errorf("%s: %q is no Raft id", memberPath(dir), content)
	}
	return id, nil
}

func writeMember(fsys vfs.FS, dir string, id uint64) error {
	return writeFile(fsys, memberPath(dir), fmt.Appendf(nil, "%016x\n", id))
}
