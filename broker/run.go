package broker

import (
	"path/filepath"
	"sync"

	"weir/internal/kafka"
	"weir/log"
)

// runNote is what the next process is to find of this one if it does not stop in good order: so long as the machine stays up,
// the kernel has all that was written, and that process has the logs of this one whole.
type runNote struct {
	sync.Mutex
	void bool // a disk failed: nobody knows any more what the logs have
	last log.Run
}

// noteRun writes the note down.
func (b *Broker) noteRun(run log.Run) error {
	b.run.Lock()
	defer b.run.Unlock()
	b.run.last = run
	for _, dir := range b.store.Dirs() {
		b.run.void = b.run.void || dir.Offline != nil
	}
	if b.run.void {
		b.removeNoteLocked()
		return nil
	}
	return log.WriteRun(b.FS, b.store.MetadataDir(), run)
}

// voidRun takes the note back when a disk failed. After a write or a sync that did not succeed the kernel may have dropped what
// it had, and that a later process reads without an error proves nothing.
func (b *Broker) voidRun() {
	b.run.Lock()
	defer b.run.Unlock()
	b.run.void = true
	b.removeNoteLocked()
}

// removeNoteLocked need not be durable: a note that is back after the end of the machine has another boot id.
func (b *Broker) removeNoteLocked() {
	if err := log.RemoveRun(b.FS, filepath.Clean(b.Config.MetadataDir)); err != nil {
		b.Logger.Error("the note of this run cannot be removed: should this process be killed, the next one may take its logs for whole", "error", err)
	}
}

// noteRegistered notes that this incarnation has heard of its registration.
func (b *Broker) noteRegistered(epoch kafka.BrokerEpoch) error {
	b.run.Lock()
	run := b.run.last.Registered(epoch)
	b.run.Unlock()
	return b.noteRun(run)
}

// follow notes this incarnation behind those whose logs it has.
func (b *Broker) follow(previous log.Run, incarnation kafka.UUID) error {
	run, dropped := previous.Next(log.MachineBootID(), incarnation, log.FsyncPolicy(b.Config.FsyncPolicy))
	if dropped > 0 {
		b.Logger.Warn("too many processes in a row ended before they had heard of their registration; the first of them is noted no more, and should it be the "+
			"registered one, the logs count as not whole", "incarnation", previous.Incarnations[0])
	}
	return b.noteRun(run)
}
