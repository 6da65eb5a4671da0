package vfs

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// ReadFile reads a whole file.
func ReadFile(fs FS, name string) ([]byte, error) {
	f, err := fs.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened to read only: nothing is lost by an error
	size, err := f.Size()
	if err != nil {
		return nil, err
	}
	data := make([]byte, size)
	n, err := f.ReadAt(data, 0)
	if err != nil && !errors.Is(err, io.EOF) { // shorter, should it be truncated meanwhile
		return nil, err
	}
	return data[:n], nil
}

// WriteFileAtomic replaces a file by way of name.tmp, as Kafka does with its checkpoints. A reader and a kill -9 at any
// moment meet the old or the new content, never a part.
//
// If durable, so does a power cut, and once it has returned, only the new content: the temporary file is synced before
// it takes the name, the directory after. If not, a power cut may also leave a file that is empty or torn (the name can
// reach the disk before the content), until SyncFS, or a Sync of the file and SyncDir of its directory.
//
// An error leaves the old content in force, but for one of the final SyncDir, which leaves either.
func WriteFileAtomic(fs FS, name string, data []byte, perm os.FileMode, durable bool) error {
	tmp := name + ".tmp"
	if err := writeFile(fs, tmp, data, perm, durable); err != nil {
		return err
	}
	if err := fs.Rename(tmp, name); err != nil {
		return err
	}
	if !durable {
		return nil
	}
	return fs.SyncDir(filepath.Dir(name))
}

func writeFile(fs FS, name string, data []byte, perm os.FileMode, durable bool) error {
	f, err := fs.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	if err == nil && durable {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}
