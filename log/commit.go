package log

import (
	"sync"

	"weir/internal/vfs"
)

// maxSingleSyncs is how many files a group is synced one by one, in parallel; a larger one is synced with the whole file
// system. Measured: 100 files one by one 52-287 ms, in parallel 22-34 ms, one syncfs 2.6-4.7 ms.
const maxSingleSyncs = 4

// committer makes logs of one data directory durable in groups: who asks while a group is being synced is in the next
// one. It owns no goroutine; Store.Run has one for each directory that calls round.
type committer struct {
	fs       vfs.FS
	dir      string
	fileOnly bool          // never syncfs: the directory shares its file system with others that write
	wake     chan struct{} // holds one token when there is something to do

	mu struct {
		sync.Mutex
		waiting []commitRequest
	}
}

type commitRequest struct {
	log  *Log
	done func(error)
}

func newCommitter(fs vfs.FS, dir string, fileOnly bool) *committer {
	return &committer{fs: fs, dir: dir, fileOnly: fileOnly, wake: make(chan struct{}, 1)}
}

// add asks for a log to be made durable.
func (c *committer) add(l *Log, done func(error)) {
	c.mu.Lock()
	c.mu.waiting = append(c.mu.waiting, commitRequest{l, done})
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// round serves who is waiting now, and returns how many that were. done is called without any lock.
func (c *committer) round() int {
	c.mu.Lock()
	requests := c.mu.waiting
	c.mu.waiting = nil
	c.mu.Unlock()
	if len(requests) == 0 {
		return 0
	}
	logs := make([]*Log, 0, len(requests))
	results := make(map[*Log]error, len(requests))
	for _, r := range requests {
		if _, seen := results[r.log]; !seen {
			results[r.log] = nil
			logs = append(logs, r.log)
		}
	}
	c.sync(logs, func(l *Log, err error) { results[l] = err })
	for _, r := range requests {
		r.done(results[r.log])
	}
	return len(requests)
}

// sync makes logs durable as one group and reports how each of them fared.
func (c *committer) sync(logs []*Log, report func(*Log, error)) (bytes int64) {
	var group []pendingSync
	files := 0
	for _, l := range logs {
		p, ok, err := l.beginSync()
		if err != nil || !ok {
			report(l, err)
			continue
		}
		bytes += p.bytes
		if d := p.at.data; d != nil && d.committer != c { // it has moved since it asked: another disk, which this group's sync does not reach
			report(l, l.endSync(&p, p.run()))
			continue
		}
		group = append(group, p)
		files += p.files()
	}
	switch {
	case len(group) == 0:
	case files > maxSingleSyncs && !c.fileOnly:
		err := c.fs.SyncFS(c.dir)
		for i := range group {
			report(group[i].log, group[i].log.endSync(&group[i], err))
		}
	default:
		errs := runParallel(group)
		for i := range group {
			report(group[i].log, group[i].log.endSync(&group[i], errs[i]))
		}
	}
	return bytes
}

// runParallel syncs the files of several logs, maxSingleSyncs logs at a time.
func runParallel(group []pendingSync) []error {
	errs := make([]error, len(group))
	if len(group) == 1 {
		errs[0] = group[0].run()
		return errs
	}
	var wg sync.WaitGroup
	turns := make(chan struct{}, maxSingleSyncs)
	for i := range group {
		turns <- struct{}{}
		wg.Go(func() {
			errs[i] = group[i].run()
			<-turns
		})
	}
	wg.Wait()
	return errs
}

// Commit calls done once everything that was appended to l so far is durable, or cannot be made so. It returns at once.
// Requests of one data directory that come while it is being synced share the next sync (group commit). done must not
// block; it is called without any lock, on the directory's goroutine of Run.
func (s *Store) Commit(l *Log, done func(error)) {
	if l.DurableEndOffset() >= l.EndOffset() && l.Offline() == nil {
		done(nil)
		return
	}
	l.home().committer.add(l, done)
}

// NeedsCommit reports whether what was appended to l must be made durable (Commit) before it is acknowledged: always
// under the policy "ack", and where otherwise more than the topic's flush.messages allows would be acknowledged from
// memory only. Under "never" it is false.
func (s *Store) NeedsCommit(l *Log) bool {
	switch s.opts.FsyncPolicy {
	case FsyncNever:
		return false
	case FsyncAck:
		return true
	}
	return l.EndOffset()-l.DurableEndOffset() >= l.config.Load().FlushMessages
}
