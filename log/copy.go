package log

import (
	"errors"
	"io"
	"math"

	"weir/internal/kafka"
)

// A replica moves to another data directory by being copied while it is used, and by the copy taking its place (KIP-113). To the
// world it is one Log all the time: what changes is the directory, and with it the segments. The copy is a Log too, a
// future one, that nobody but the Store knows; nothing is served from it.

const (
	// noCut is cutTo of a log that was not truncated.
	noCut = math.MaxInt64
	// cutAll is cutTo of a log that began anew.
	cutAll = -1
	// copyReserve is how much space a copy leaves in its directory for the partitions that are there, bytes. A directory that
	// is full is offline, with all that is in it.
	copyReserve = 16 << 20
	// lastCopyBytes is how much is copied at most while appends wait, in the end of a move.
	lastCopyBytes = 1 << 20
)

// copyTo appends to f what l has behind f's end, at most maxBytes of it, and at least one batch. First it makes up for what was cut
// off or deleted in l since. One goroutine at a time copies; l is appended to and truncated meanwhile, so that f may get what l has
// not any more: the next call cuts it off.
func (l *Log) copyTo(f *Log, maxBytes int, buf *[]byte) (n int, err error) {
	if err := l.alignCopy(f); err != nil {
		return 0, err
	}
	truncations := l.truncations.Load()
	from, end := f.EndOffset(), l.EndOffset()
	if from >= end {
		f.SetHighWatermark(l.HighWatermark())
		return 0, nil
	}
	r, err := l.Read(ReadRequest{Offset: from, MaxBytes: maxBytes, EndOffset: end, AtLeastOne: true})
	if errors.As(err, new(ErrOffsetOutOfRange)) {
		return 0, nil // cut or deleted just now: aligned the next time
	}
	if err != nil {
		return 0, err
	}
	defer r.Release()
	if r.Len() == 0 {
		return 0, f.extendTo(end)
	}
	b, err := readInto(buf, &r)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return 0, nil // truncated meanwhile
	}
	if err != nil {
		return 0, l.readError(err)
	}
	if err := f.appendCopied(b); err != nil {
		if f.usable() == nil && l.truncations.Load() != truncations {
			return 0, nil // what was read is partly what was there before, and partly what was appended since
		}
		return 0, err
	}
	f.SetHighWatermark(l.HighWatermark())
	return len(b), nil
}

// readInto reads all records into a buffer that is kept, and grows.
func readInto(buf *[]byte, r *Records) ([]byte, error) {
	if cap(*buf) < r.Len() {
		*buf = make([]byte, r.Len())
	}
	b := (*buf)[:r.Len()]
	if _, err := r.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b, nil
}

// alignCopy cuts off f what was cut off l, and moves f's start to l's.
func (l *Log) alignCopy(f *Log) error {
	l.mu.Lock()
	cut, start := l.mu.cutTo, l.startOffset.Load()
	l.mu.cutTo = noCut
	l.mu.Unlock()
	var err error
	switch end := f.EndOffset(); {
	case cut == cutAll && (end != start || f.StartOffset() != start), start > end:
		return f.TruncateFullyAndStartAt(start)
	case cut != cutAll && cut < end:
		err = f.TruncateTo(cut)
	}
	if err == nil && start > f.StartOffset() {
		err = f.AdvanceStartOffset(start)
	}
	return err
}

// appendCopied appends, and where f is empty lets it begin lower if it must: records are deleted up to the middle of a batch, which
// is copied as a whole.
func (f *Log) appendCopied(b []byte) error {
	_, err := f.AppendAsFollower(b)
	var unexpected ErrUnexpectedOffset
	start := f.StartOffset()
	if !errors.As(err, &unexpected) || unexpected.Offset >= start || start != f.EndOffset() {
		return err
	}
	if err := f.TruncateFullyAndStartAt(unexpected.Offset); err != nil {
		return err
	}
	if _, err := f.AppendAsFollower(b); err != nil {
		return err
	}
	return f.AdvanceStartOffset(start)
}

// extendTo has a log end where another does that has only a gap there: the last batches of a segment were compacted away.
func (f *Log) extendTo(end int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.usable(); err != nil || end <= f.endOffset.Load() {
		return err
	}
	if _, err := f.rollLocked(end, "the copied log ends in a gap"); err != nil {
		return f.fail(err)
	}
	f.endOffset.Store(end)
	return nil
}

// compareCopy has a copy that a process before began go on, as far as it is certain that l has the same. After a crash what was
// not durable may have been lost in one of them, and been written anew in l since.
func (l *Log) compareCopy(f *Log) error {
	if !l.opts.CleanShutdown || !f.opts.CleanShutdown {
		if err := f.truncateCopy(min(l.opts.RecoveryPoint, f.opts.RecoveryPoint)); err != nil {
			return err
		}
	}
	end, latest := f.EndOffset(), f.LatestEpoch()
	if epoch, epochEnd := l.EndOffsetForEpoch(latest); end > f.StartOffset() && (latest == kafka.NoLeaderEpoch || epoch != latest || epochEnd < end) {
		return f.TruncateFullyAndStartAt(l.StartOffset())
	}
	return nil
}

func (f *Log) truncateCopy(offset int64) error {
	if offset >= f.EndOffset() {
		return nil
	}
	return f.TruncateTo(max(offset, 0))
}

// hold keeps the end of what counts as durable where it is, until release: then a copy that is made durable has caught up with it.
func (l *Log) hold() (durable int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.holdingAt = l.recoveryPoint.Load()
	return l.mu.holdingAt
}

func (l *Log) release() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.holdingAt = math.MaxInt64
}

// left is what a log leaves behind where it was.
type left struct {
	place
	segments *segmentSet
}

// errNotYet says that a copy cannot take the place of its log at the moment.
var errNotYet = errors.New("the copy is behind")

// takePlaceOf puts l where its copy f is, under the plain name of the partition's directory: to is that. f has ended then. The log
// lock is held over it, so that nothing is appended or cut off meanwhile; what is read is read in the old place until the new one is
// there. l's directory is as it was if that fails, and f can be deleted.
//
// f's files are durable as far as what counts as durable in l, which goes on there; so at no time does a crash take what was
// acknowledged. That the new name is durable, the next sync sees to, before anything else becomes so.
func (l *Log) takePlaceOf(f *Log, to string, buf *[]byte) (old left, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.mayMoveLocked(f); err != nil {
		return old, err
	}
	if behind, err := l.bytesFrom(f.EndOffset()); err != nil || behind > lastCopyBytes {
		return old, errors.Join(errNotYet, err)
	}
	for f.EndOffset() < l.endOffset.Load() {
		if err := l.copyRestLocked(f, buf); err != nil {
			return old, err
		}
	}
	if err := f.adopt(l.startOffset.Load(), l.highWatermark.Load(), l.mu.epochs.Entries()); err != nil {
		return old, err
	}
	durable := f.recoveryPoint.Load()
	f.retire()
	n, err := f.reopenAt(to, l.Config())
	if err != nil {
		return old, err
	}
	if n.EndOffset() != l.endOffset.Load() {
		n.retire()
		return old, errors.Join(ErrCorrupt{Path: to, Err: errors.New("the copy lost records when it was opened")}, l.fs.Rename(to, f.Dir()))
	}
	old = left{*l.at.Load(), l.segments.Load()}
	epochs := l.mu.epochs.Entries()
	l.enterLocked(n, durable)
	for _, e := range epochs { // an open forgets one that has no records
		l.mu.epochs.Assign(e.Epoch, e.StartOffset)
	}
	return old, l.failing(l.flushEpochsLocked())
}

// mayMoveLocked: not while a truncation is under way or was not followed yet, and not before the copy is as durable.
func (l *Log) mayMoveLocked(f *Log) error {
	if err := errors.Join(l.usable(), f.usable()); err != nil {
		return err
	}
	if l.mu.truncatingTo != math.MaxInt64 || l.mu.cutTo != noCut || f.recoveryPoint.Load() < l.recoveryPoint.Load() ||
		f.EndOffset() > l.endOffset.Load() {
		return errNotYet
	}
	return nil
}

// bytesFrom is the size of what the log holds from an offset on, at most its end.
func (l *Log) bytesFrom(offset int64) (int64, error) {
	if offset > l.endOffset.Load() {
		return 0, errNotYet
	}
	set := l.segments.Load()
	i := set.floor(offset)
	at, err := set.all[i].find(offset)
	return (&segmentSet{all: set.all[i:]}).size() - at.pos, err
}

// copyRestLocked is copyTo under the log lock.
func (l *Log) copyRestLocked(f *Log, buf *[]byte) error {
	from, end := f.EndOffset(), l.endOffset.Load()
	r, err := l.Read(ReadRequest{Offset: from, MaxBytes: lastCopyBytes, EndOffset: end, AtLeastOne: true})
	if err != nil {
		return errors.Join(errNotYet, err)
	}
	defer r.Release()
	if r.Len() == 0 {
		return f.extendTo(end)
	}
	b, err := readInto(buf, &r)
	if err != nil {
		return l.readError(err)
	}
	return f.appendCopied(b)
}

// adopt makes the copy what the log is in all that batches do not tell, and completes its files.
func (f *Log) adopt(start, highWatermark int64, epochs []EpochEntry) error {
	if start > f.StartOffset() {
		if err := f.AdvanceStartOffset(start); err != nil {
			return err
		}
	}
	f.SetHighWatermark(highWatermark)
	f.mu.Lock()
	f.mu.epochs.Clear()
	for _, e := range epochs {
		f.mu.epochs.Assign(e.Epoch, e.StartOffset)
	}
	err := f.failing(f.flushEpochsLocked())
	f.mu.Unlock()
	if err != nil {
		return err
	}
	return f.complete()
}

// reopenAt opens a copy that was completed and has ended under another name. If it cannot be, it has its old name again.
func (f *Log) reopenAt(to string, c Config) (*Log, error) {
	o := f.opts
	o.Dir, o.Config, o.CleanShutdown = to, c, true
	o.RecoveryPoint, o.StartOffset, o.HighWatermark = f.recoveryPoint.Load(), f.StartOffset(), f.HighWatermark()
	o.Failed = nil // it is not known before it has taken its place
	if err := f.fs.Rename(f.Dir(), to); err != nil {
		return nil, err
	}
	n, err := Open(o)
	if err != nil {
		return nil, errors.Join(err, f.fs.Rename(to, f.Dir()))
	}
	return n, nil
}

// enterLocked takes over the files of n, of which everything below durable is durable.
func (l *Log) enterLocked(n *Log, durable int64) {
	set := n.segments.Load()
	for _, seg := range set.all {
		seg.owner = l
	}
	l.truncations.Add(1) // syncs of the old files do not count any more, and who reads there looks again
	l.mu.epochs, l.mu.snapshots, l.mu.unsynced = n.mu.epochs, n.mu.snapshots, nil
	for i, seg := range set.all[:len(set.all)-1] {
		if set.endOf(i, 0) > durable {
			l.mu.unsynced = append(l.mu.unsynced, seg)
		}
	}
	clear(l.mu.names)
	l.at.Store(n.at.Load())
	l.segments.Store(set)
	(&recovery{log: l}).noteNames()
	l.recoveryPoint.Store(max(durable, l.recoveryPoint.Load()))
	l.savedPoint.Store(n.savedPoint.Load())
	l.savedStart.Store(n.savedStart.Load())
	l.savedMark.Store(n.savedMark.Load())
	if d := l.home(); d != nil {
		d.marksChanged.Store(true)
		d.startsChanged.Store(true)
	}
}
