package broker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"weir/cluster/metadata"
	"weir/internal/vfs"
)

// peerNoteFile is in the metadata directory, beside the metadata log.
const peerNoteFile = "weir-peers.json"

// peerNote is what a node must know of its dealings with others before it can read its metadata log.
type peerNote struct {
	Version int `json:"version"`
	// Port is that of the brokers' own listener, where the settings leave it open; 0: nobody has ever asked for one. Were it
	// another one after each start, nodes that are all started anew at the same time would not find each other again.
	Port uint16 `json:"port,omitempty"`
	// Contacts are the members that a node which joins gets its log from. Without them it would not know whom to ask should it be
	// killed before the log is there.
	Contacts []metadata.QuorumMember `json:"contacts,omitempty"`
}

const peerNoteVersion = 0

// readPeerNote reads the note of a metadata directory. There need not be one.
func readPeerNote(fsys vfs.FS, dir string) (n peerNote, err error) {
	path := filepath.Join(dir, peerNoteFile)
	content, err := vfs.ReadFile(fsys, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return n, nil
	case err != nil:
		return n, err
	}
	if err := json.Unmarshal(content, &n); err != nil {
		return peerNote{}, fmt.Errorf("%s cannot be read: %w", path, err)
	}
	if n.Version != peerNoteVersion {
		return peerNote{}, fmt.Errorf("%s has version %d, which is not known", path, n.Version)
	}
	return n, nil
}

// write makes the note durable.
func (n peerNote) write(fsys vfs.FS, dir string) error {
	content, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, peerNoteFile), append(content, '\n'), 0o644, true)
}
