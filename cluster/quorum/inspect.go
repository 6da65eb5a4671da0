package quorum

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"weir/cluster/metadata"
	"weir/internal/vfs"
	"weir/protocol/batch"
)

// RefusedError is a directory that this node must not use as its metadata log. Nothing in it was changed.
type RefusedError struct {
	Dir    string
	Reason string
	Err    error // may be nil
}

func (e *RefusedError) Error() string {
	s := fmt.Sprintf("metadata log %s is refused and left as it is: %s", e.Dir, e.Reason)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *RefusedError) Unwrap() error { return e.Err }

// disk is what lies in a directory.
type disk struct {
	snap   *snapshot
	state  *raftState
	member uint64 // whose log was here; 0: nobody's, or it cannot be read, while there is a log
	begun  bool   // there is a log
}

// waits: the node was told to join, and has not had its first snapshot, or not to the end.
func (d *disk) waits() bool { return d.state != nil && d.state.Committed == 0 }

// unfounded: an older version, which wrote raft-state first, founded the log of a node that is alone and did not finish.
func (d *disk) unfounded() bool {
	return d.state != nil && d.state.Committed == unknown && d.state.Term == 0
}

// inspect looks at a directory without changing it: whose log it is, and whether it is whole.
func inspect(o *Options) (d disk, err error) {
	refuse := func(reason string, err error) (disk, error) { return disk{}, &RefusedError{o.Dir, reason, err} }
	if d.snap, err = newestSnapshot(o.FS, o.Dir); err != nil {
		return refuse("its newest snapshot cannot be read", err)
	}
	if d.state, err = readRaftState(o.FS, o.Dir); err != nil {
		return refuse("term and vote cannot be read", err)
	}
	var z zero
	image := metadata.Empty()
	if d.snap != nil {
		image = d.snap.image
	} else if !d.waits() {
		if z, err = readZero(o.FS, o.Dir); err != nil && !(z.unfinished && (d.state == nil || d.unfounded())) {
			return refuse("its first entry cannot be read", err)
		}
		image = cmp.Or(z.image, image)
	}
	d.begun = image.ClusterID != ""
	switch {
	case d.state == nil && d.begun && !z.unfinished:
		return refuse("term and vote are gone (raft-state)", nil)
	case d.state == nil:
		d.begun = false // a crash came before the end of the founding; there is nothing yet that could be lost
	case d.begun && image.ClusterID != o.ClusterID:
		return refuse(fmt.Sprintf("it belongs to cluster %s, and this node to cluster %s", image.ClusterID, o.ClusterID), nil)
	case !d.begun && !d.waits() && !d.unfounded():
		return refuse(fmt.Sprintf("it is empty, and this node has had it up to term %d (raft-state)", d.state.Term), nil)
	case !d.unfounded() && !o.owns(d.state.RaftID, image):
		return refuse(fmt.Sprintf("it is that of raft id 0x%016x, which is not this directory's, %s", d.state.RaftID, o.Self.Directory), nil)
	}
	d.member, err = readMember(o.FS, o.Dir)
	if err != nil && !d.begun {
		return refuse("whether it was there before cannot be told", err)
	}
	if !d.begun && d.member == o.Self.RaftID {
		return refuse(fmt.Sprintf("it is empty, and this node has had one before (%s)", memberPath(o.Dir)), nil)
	}
	return d, nil
}

// owns reports whether a Raft id is this directory's. Older versions drew the ids: then the log says whose it is.
func (o *Options) owns(id uint64, image *metadata.Image) bool {
	m, ok := image.Quorum.ByRaftID(id)
	return id == o.Self.RaftID || ok && m.Directory == o.Self.Directory
}

// zero is offset 0, as far as the file alone tells.
type zero struct {
	image *metadata.Image // nil: there is none, or only the torn beginning of one
	// unfinished: nothing can stand behind it, so that it may be what a crash left of the founding.
	unfinished bool
}

// maxFirstBatch bounds what is read of a file that may be anybody's. Offset 0 of a log of Weir has a few hundred bytes;
// what is longer than maxFounding is no founding that a crash cut short.
const (
	maxFirstBatch = 1 << 20
	maxFounding   = 64 << 10
)

// readZero reads the format record at offset 0.
func readZero(fsys vfs.FS, dir string) (zero, error) {
	first, rest, err := firstBatch(fsys, dir)
	if err != nil {
		return zero{}, err
	}
	z := zero{unfinished: rest == 0 && len(first) <= maxFounding}
	if len(first) == 0 {
		return z, nil
	}
	r, err := parseRecord(first)
	if errors.Is(err, batch.ErrTorn) && z.unfinished {
		return z, nil
	}
	if err != nil {
		z.unfinished = z.unfinished && errors.As(err, new(*batch.CorruptError))
		return z, err
	}
	if r.offset != 0 || r.kind != kindMetadata {
		return zero{}, &ForeignEntryError{r.offset, fmt.Sprintf("kind %d", r.kind)}
	}
	image, _, err := metadata.Apply(metadata.Empty(), 0, 0, r.value)
	if err != nil {
		return zero{}, err
	}
	if image.ClusterID == "" {
		return zero{}, &ForeignEntryError{0, "no format record"}
	}
	z.image = image
	return z, nil
}

// firstBatch reads the first batch of the log's first segment, or the beginning of the file where it begins with none; rest
// is how many bytes follow, in that segment or any other. It is empty where there is no log.
func firstBatch(fsys vfs.FS, dir string) (first []byte, rest int64, err error) {
	entries, err := fsys.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, 0, err
	}
	for _, e := range entries {
		switch {
		case !strings.HasSuffix(e.Name(), ".log"):
		case first == nil:
			if zero := fmt.Sprintf("%020d.log", 0); e.Name() != zero {
				return nil, 0, fmt.Errorf("the log begins with %s, and there is no snapshot", e.Name())
			}
			if first, rest, err = beginning(fsys, filepath.Join(dir, e.Name())); err != nil {
				return nil, 0, err
			}
		default:
			rest++ // of another segment: it is enough that there is one
		}
	}
	return first, rest, nil
}

// beginning reads the first batch of a file.
func beginning(fsys vfs.FS, path string) (first []byte, rest int64, err error) {
	f, err := fsys.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, 0, err
	}
	first = make([]byte, min(size, maxFirstBatch))
	if size > 0 {
		if _, err := f.ReadAt(first, 0); err != nil {
			return nil, 0, err
		}
	}
	if h, err := batch.ParseHeader(first); err == nil && h.Size() <= len(first) {
		first = first[:h.Size()]
	}
	return first, size - int64(len(first)), nil
}
