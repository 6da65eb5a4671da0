package log

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"weir/internal/vfs"
)

// indexFile is what the indexes of a segment have in common: entries of one size, in order, in a file without a header
// or a checksum. It is in one of two states:
//
//   - resident, as the active segment's are: entries are added in memory, encoded as they are in the file, and written to the
//     file by flush. So the file is never wrong, only behind; recovery completes it. An index that has grown large keeps in
//     memory what was not flushed yet, and no more.
//   - sealed: look-ups read the file, which is opened for each.
//
// Of what is read from the file, the entries around the last look-up are kept in memory, so that a consumer who reads on
// finds most of its places there, until nobody reads the segment any more.
//
// An index without entries needs no file, but see ensure. Guarded by the owner of the index.
type indexFile struct {
	fs    vfs.FS
	path  string
	width int64 // bytes of an entry

	sealed   bool
	count    int64  // entries
	below    int64  // entries that are in the file only, and right there: all those of a sealed index
	resident []byte // the others
	written  int64  // entries that are in the file; what the file has beyond them is wrong if stale
	stale    bool

	window indexWindow // of those below: what the last search read
}

// maxResidentBytes is how much of an index stays in memory once it is flushed: enough for the first 32 MiB of a segment with
// an entry in 4 KiB, so that small logs never read their indexes.
const maxResidentBytes = 64 << 10

// indexWindow is a stretch of an index, read once.
type indexWindow struct {
	from    int64 // number of the first entry
	entries []byte
}

// probeEntries is how many entries a look-up in a sealed index reads at once, when it has come near: a page's worth of
// offsets.
const probeEntries = 512

// load reads the whole file and makes the index resident. A file that is missing has no entries. check is called with
// each entry and its number, and says what is wrong with it.
func (x *indexFile) load(check func(i int64, entry []byte) string) error {
	content, err := vfs.ReadFile(x.fs, x.path)
	if errors.Is(err, fs.ErrNotExist) {
		content, err = nil, nil
	}
	if err != nil {
		return err
	}
	if int64(len(content))%x.width != 0 {
		return brokenAt(x.path, int64(len(content)), "size is no multiple of %d", x.width)
	}
	count := int64(len(content)) / x.width
	for i := range count {
		if why := check(i, content[i*x.width:(i+1)*x.width]); why != "" {
			return brokenAt(x.path, i*x.width, "%s", why)
		}
	}
	x.resident, x.below, x.count, x.written, x.sealed, x.stale = content, 0, count, count, false, false
	x.window = indexWindow{}
	x.shed()
	return nil
}

// openSealed looks only at the file's size.
func (x *indexFile) openSealed() error {
	info, err := x.fs.Stat(x.path)
	size := int64(0)
	switch {
	case err == nil:
		size = info.Size()
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if size%x.width != 0 {
		return brokenAt(x.path, size, "size is no multiple of %d", x.width)
	}
	count := size / x.width
	x.resident, x.below, x.count, x.written, x.sealed, x.stale = nil, count, count, count, true, false
	return nil
}

// shed lets go of what the file has, if that is much.
func (x *indexFile) shed() {
	if len(x.resident) > maxResidentBytes && x.written == x.count && !x.stale {
		x.resident, x.below = nil, x.count
	}
}

// append adds an entry to a resident index.
func (x *indexFile) append(entry []byte) {
	x.resident = append(x.resident, entry...)
	x.count++
}

// renew begins without entries, whatever the file has.
func (x *indexFile) renew() {
	x.resident, x.below, x.count, x.written, x.sealed, x.stale = nil, 0, 0, 0, false, true
	x.window = indexWindow{}
}

// truncate keeps the entries for which above is false; they must be the first ones. A sealed index becomes resident: its
// segment grows again. The file follows with the next flush.
func (x *indexFile) truncate(above func(entry []byte) bool) error {
	if x.sealed {
		if err := x.load(func(int64, []byte) string { return "" }); err != nil {
			return err
		}
	}
	last, _, err := x.search(above)
	if err != nil {
		return err
	}
	x.keep(last + 1)
	return nil
}

func (x *indexFile) keep(count int64) {
	x.below = min(x.below, count)
	x.resident = x.resident[:max(count-x.below, 0)*x.width]
	x.count = count
	x.window = indexWindow{}
	if count < x.written {
		x.written, x.stale = count, true
	}
}

// flush writes to the file what it lacks. It does not sync it.
func (x *indexFile) flush() error {
	if x.written == x.count && !x.stale {
		return nil
	}
	flag := os.O_WRONLY | os.O_CREATE
	if x.count == 0 {
		flag = os.O_WRONLY // there may be a file to empty, but none is made for no entries
	}
	f, err := x.fs.OpenFile(x.path, flag, sideFilePerm)
	if x.count == 0 && errors.Is(err, fs.ErrNotExist) {
		x.stale = false
		return nil
	}
	if err != nil {
		return err
	}
	if x.stale {
		// First: a kill between the two leaves the file behind, not wrong.
		err = f.Truncate(x.written * x.width)
	}
	if err == nil {
		_, err = f.WriteAt(x.resident[(x.written-x.below)*x.width:], x.written*x.width)
	}
	if err := errors.Join(err, f.Close()); err != nil {
		// What of it is in the file is not known: the next flush writes it again.
		x.stale = true
		return err
	}
	x.written, x.stale = x.count, false
	x.shed()
	return nil
}

// ensure makes the file of an index that has no entries.
func (x *indexFile) ensure() error {
	if x.count > 0 {
		return nil
	}
	f, err := x.fs.OpenFile(x.path, os.O_WRONLY|os.O_CREATE, sideFilePerm)
	if err != nil {
		return err
	}
	return f.Close()
}

// seal flushes the index and frees its memory.
func (x *indexFile) seal() error {
	if x.sealed {
		return nil
	}
	if err := x.flush(); err != nil {
		return err
	}
	x.resident, x.below, x.sealed = nil, x.count, true
	return nil
}

// sync makes the file durable, but for its name in the directory. Without entries there may be no file. It needs no lock: it
// looks at nothing that changes.
func (x *indexFile) sync() error {
	err := syncFile(x.fs, x.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// dropWindow frees what the last search read.
func (x *indexFile) dropWindow() { x.window = indexWindow{} }

// search returns the last entry for which above is false, and its number; -1 if there is none. above must be false for
// all entries up to some point and true from there on.
func (x *indexFile) search(above func(entry []byte) bool) (int64, []byte, error) {
	if i := searchEntries(x.resident, x.width, above); i >= 0 {
		return x.below + i, x.resident[i*x.width : (i+1)*x.width], nil
	}
	if x.below == 0 {
		return -1, nil, nil
	}
	if i, entry, ok := x.searchWindow(above); ok {
		return i, entry, nil
	}
	return x.searchFile(above)
}

// searchWindow searches in what the last search read; ok is false if the entry looked for may be elsewhere.
func (x *indexFile) searchWindow(above func(entry []byte) bool) (number int64, entry []byte, ok bool) {
	w := x.window
	if len(w.entries) == 0 {
		return 0, nil, false
	}
	i := searchEntries(w.entries, x.width, above)
	last := int64(len(w.entries))/x.width - 1
	switch {
	case i < 0:
		return -1, nil, w.from == 0
	case i == last && w.from+i != x.below-1:
		return 0, nil, false // the next one may not be above either
	}
	return w.from + i, w.entries[i*x.width : (i+1)*x.width], true
}

// searchFile halves the range by reading single entries, until what is left is worth one read, to which it adds what
// follows: the next search is mostly for that.
func (x *indexFile) searchFile(above func(entry []byte) bool) (int64, []byte, error) {
	f, err := x.fs.OpenFile(x.path, os.O_RDONLY, 0)
	if err != nil {
		return -1, nil, err
	}
	defer f.Close() // opened to read only
	block := make([]byte, min(x.below, probeEntries)*x.width)
	low, high := int64(0), x.below // the entry looked for is in [low, high), or there is none and low is 0
	for high-low > probeEntries {
		middle := (low + high) / 2
		if err := x.read(f, block[:x.width], middle); err != nil {
			return -1, nil, err
		}
		if above(block[:x.width]) {
			high = middle
		} else {
			low = middle
		}
	}
	high = min(low+probeEntries, x.below)
	block = block[:(high-low)*x.width]
	if err := x.read(f, block, low); err != nil {
		return -1, nil, err
	}
	x.window = indexWindow{from: low, entries: block}
	i := searchEntries(block, x.width, above)
	if i < 0 {
		return -1, nil, nil
	}
	return low + i, block[i*x.width : (i+1)*x.width], nil
}

// read fills p with entries of the file. A file that ends before is broken: it was longer when it was opened.
func (x *indexFile) read(f vfs.File, p []byte, entry int64) error {
	n, err := f.ReadAt(p, entry*x.width)
	if n == len(p) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return brokenAt(x.path, entry*x.width+int64(n), "file ends, but had %d entries", x.count)
	}
	return err
}

// searchEntries is search in entries that are in memory.
func searchEntries(entries []byte, width int64, above func(entry []byte) bool) int64 {
	low, high := int64(0), int64(len(entries))/width
	for low < high {
		middle := (low + high) / 2
		if above(entries[middle*width : (middle+1)*width]) {
			high = middle
		} else {
			low = middle + 1
		}
	}
	return low - 1
}

// each calls visit with the entries from one on, until it returns false.
func (x *indexFile) each(from int64, visit func(entry []byte) bool) error {
	if from < x.below {
		more, err := x.eachOfFile(from, visit)
		if err != nil || !more {
			return err
		}
	}
	visitEntries(x.resident[min(max(from-x.below, 0)*x.width, int64(len(x.resident))):], x.width, visit)
	return nil
}

// eachOfFile is each for the entries that are in the file only; it reports whether visit wants more.
func (x *indexFile) eachOfFile(from int64, visit func(entry []byte) bool) (more bool, err error) {
	f, err := x.fs.OpenFile(x.path, os.O_RDONLY, 0)
	if err != nil {
		return false, err
	}
	defer f.Close() // opened to read only
	block := make([]byte, min(x.below-from, probeEntries)*x.width)
	for ; from < x.below; from += probeEntries {
		block = block[:min(x.below-from, probeEntries)*x.width]
		if err := x.read(f, block, from); err != nil {
			return false, err
		}
		if !visitEntries(block, x.width, visit) {
			return false, nil
		}
	}
	return true, nil
}

func visitEntries(entries []byte, width int64, visit func(entry []byte) bool) bool {
	for ; len(entries) > 0; entries = entries[width:] {
		if !visit(entries[:width]) {
			return false
		}
	}
	return true
}

// last is the newest entry, nil if there is none.
func (x *indexFile) last() ([]byte, error) {
	_, entry, err := x.search(func([]byte) bool { return false })
	return entry, err
}
