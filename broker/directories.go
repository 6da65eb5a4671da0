package broker

import (
	"weir/broker/handler"
	"weir/internal/vfs"
	"weir/log"
)

// directories tells DescribeLogDirs about the data directories of a store.
type directories struct {
	store *log.Store
	fs    vfs.FS
}

// Describe implements handler.Directories.
func (d directories) Describe() []handler.Directory {
	var out []handler.Directory
	for _, info := range d.store.Dirs() {
		dir := handler.Directory{Path: info.Path, Err: info.Offline}
		if dir.Err == nil {
			usage, err := d.fs.Usage(info.Path)
			dir.Total, dir.Usable, dir.Err = usage.Total, usage.Usable, err
		}
		out = append(out, dir)
	}
	return out
}
