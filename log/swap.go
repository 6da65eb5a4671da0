package log

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
)

// Kafka's cleaner writes a cleaned segment into files with .cleaned, and renames those to .swap when they are whole and
// durable. Then it removes the segments that it read, and takes .swap off, of the batches first. A crash in between is
// completed here, as Kafka does at its next start.
const (
	cleanedSuffix = ".cleaned"
	swapSuffix    = ".swap"
	deletedSuffix = ".deleted" // of a segment's files that Kafka removes after file.delete.delay.ms
)

// completeSwaps puts segments that were being swapped in into their place. It returns whether there were any.
func (l *Log) completeSwaps(entries []os.DirEntry) (bool, error) {
	firstCleaned := int64(math.MaxInt64)
	for _, e := range entries {
		if base, _, ok := cutSegmentSuffix(e.Name(), cleanedSuffix); ok {
			firstCleaned = min(firstCleaned, base)
		}
	}
	var swaps []string
	for _, e := range entries {
		base, suffix, ok := cutSegmentSuffix(e.Name(), swapSuffix)
		switch {
		case !ok:
			continue
		case base >= firstCleaned:
			// A segment was being split, and not all of its parts were whole: the old one still is.
			if err := l.fs.Remove(l.path(e.Name())); err != nil {
				return true, err
			}
			continue
		case suffix == logSuffix:
			if err := l.removeReplaced(e.Name(), base, entries); err != nil {
				return true, err
			}
		}
		swaps = append(swaps, e.Name())
	}
	for _, name := range swaps {
		l.logger.Info("completing what a cleaner had begun", "path", l.path(name))
		if err := l.fs.Rename(l.path(name), l.path(strings.TrimSuffix(name, swapSuffix))); err != nil {
			return true, err
		}
	}
	if len(swaps) == 0 {
		return false, nil
	}
	return true, l.fs.SyncDir(l.Dir())
}

// cutSegmentSuffix takes a name like 00000000000000000000.log.swap apart.
func cutSegmentSuffix(name, last string) (baseOffset int64, suffix string, ok bool) {
	name, found := strings.CutSuffix(name, last)
	if !found {
		return 0, "", false
	}
	return parseSegmentName(name)
}

// removeReplaced removes the segments whose place a cleaned one takes: those that begin within it.
func (l *Log) removeReplaced(swapped string, base int64, entries []os.DirEntry) error {
	end, err := l.endOfFile(l.path(swapped), base)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at, suffix, ok := parseSegmentName(e.Name())
		if ok && at >= base && at < max(end, base+1) && (suffix == logSuffix || isIndexSuffix(suffix)) {
			if err := l.fs.Remove(l.path(e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// endOfFile is the offset after the last batch of a segment file.
func (l *Log) endOfFile(path string, base int64) (int64, error) {
	f, err := l.fs.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close() // opened to read only
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	s := newScanner(f, 0, size)
	defer s.release()
	end := base
	for {
		h, _, err := s.nextStored()
		switch {
		case errors.Is(err, io.EOF):
			return end, nil
		case err != nil && isDamage(err):
			return 0, ErrCorrupt{Path: path, Pos: s.pos, Err: err}
		case err != nil:
			return 0, err
		}
		end = h.NextOffset()
	}
}
