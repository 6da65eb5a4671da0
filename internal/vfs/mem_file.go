package vfs

import (
	"io"
	"os"
	"slices"
	"syscall"
	"time"
)

const pageSize = 4096 // what a disk writes whole, if it is lucky: see tornPage

type page = [pageSize]byte

// memContent is the content of a file. A nil page holds zeros. A page that durable content holds is never written to
// again: content and images share it, and a write copies it first.
type memContent struct {
	pages []*page
	size  int64
}

// readAt copies from the content; it stops at the end of the file.
func (c *memContent) readAt(p []byte, off int64) int {
	if off >= c.size {
		return 0
	}
	p = p[:min(int64(len(p)), c.size-off)]
	for done := 0; done < len(p); {
		at := off + int64(done)
		chunk := p[done:min(len(p), done+int(pageSize-at%pageSize))]
		if from := c.page(at / pageSize); from != nil {
			copy(chunk, from[at%pageSize:])
		} else {
			clear(chunk)
		}
		done += len(chunk)
	}
	return len(p)
}

// page gives the i-th page, nil for zeros and beyond the end.
func (c *memContent) page(i int64) *page {
	if i >= int64(len(c.pages)) {
		return nil
	}
	return c.pages[i]
}

// resize sets the size. What a smaller size cut off reads as zeros should the file grow again.
func (c *memContent) resize(size int64) {
	count := int((size + pageSize - 1) / pageSize)
	for len(c.pages) < count {
		c.pages = append(c.pages, nil)
	}
	clear(c.pages[count:])
	c.pages = c.pages[:count]
	c.size = size
}

func (c *memContent) clone() memContent {
	return memContent{pages: slices.Clone(c.pages), size: c.size}
}

// own makes the i-th page of the content writable: its own copy, and dirty.
func (n *memNode) own(i int64) *page {
	p := n.content.pages[i]
	switch {
	case p == nil:
		p = new(page)
	case p == n.durable.page(i):
		c := *p
		p = &c
	}
	n.content.pages[i] = p
	n.dirty[i] = true
	return p
}

func (n *memNode) write(p []byte, off int64) {
	if end := off + int64(len(p)); end > n.content.size {
		n.content.resize(end)
	}
	for len(p) > 0 {
		copied := copy(n.own(off / pageSize)[off%pageSize:], p)
		p, off = p[copied:], off+int64(copied)
	}
	n.modTime = time.Now()
}

func (n *memNode) truncate(size int64) {
	if size == n.content.size {
		return
	}
	if size < n.content.size {
		for i := size / pageSize; i < int64(len(n.content.pages)); i++ {
			n.dirty[i] = true
		}
		if tail := size % pageSize; tail != 0 && n.content.pages[size/pageSize] != nil {
			clear(n.own(size / pageSize)[tail:])
		}
	}
	n.content.resize(size)
	n.modTime = time.Now()
}

// sync makes the content durable by sharing its pages.
func (n *memNode) sync() {
	if n.names != nil {
		return
	}
	n.durable.resize(n.content.size)
	for i := range n.dirty {
		if i < int64(len(n.durable.pages)) {
			n.durable.pages[i] = n.content.pages[i]
		}
	}
	clear(n.dirty)
}

// memFile is an open file of a Mem.
type memFile struct {
	fs     *Mem
	node   *memNode
	name   string
	flag   int
	closed bool // guarded by fs.mu
}

// do runs call under the file system's lock if the file is open.
func (f *memFile) do(op string, call func() error) error {
	f.fs.mu.Lock()
	defer f.fs.mu.Unlock()
	if f.closed {
		return pathError(op, f.name, os.ErrClosed)
	}
	return pathError(op, f.name, call())
}

func (f *memFile) Name() string { return f.name }

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	read := 0
	err := f.do("read", func() error {
		if off < 0 || f.flag&os.O_WRONLY != 0 {
			return syscall.EBADF
		}
		read = f.node.content.readAt(p, off)
		return nil
	})
	if err == nil && read < len(p) {
		err = io.EOF
	}
	return read, err
}

func (f *memFile) WriteAt(p []byte, off int64) (int, error) {
	err := f.do("write", func() error {
		if off < 0 {
			return syscall.EINVAL
		}
		if f.flag&(os.O_WRONLY|os.O_RDWR) == 0 {
			return syscall.EBADF
		}
		f.node.write(p, off)
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (f *memFile) Truncate(size int64) error {
	return f.do("truncate", func() error {
		if size < 0 || f.flag&(os.O_WRONLY|os.O_RDWR) == 0 {
			return syscall.EINVAL
		}
		f.node.truncate(size)
		return nil
	})
}

func (f *memFile) Size() (size int64, err error) {
	err = f.do("stat", func() error {
		size = f.node.content.size
		return nil
	})
	return size, err
}

func (f *memFile) Sync() error {
	return f.do("sync", func() error {
		f.node.sync()
		return nil
	})
}

func (f *memFile) Datasync() error { return f.Sync() }

func (f *memFile) Preallocate(int64, int64) error {
	return f.do("fallocate", func() error { return nil })
}

func (f *memFile) Close() error {
	return f.do("close", func() error {
		f.closed = true
		return nil
	})
}
