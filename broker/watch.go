package broker

import "sync/atomic"

// watch notices a peer that leaves while its request is handled: nobody reads the socket then. Whoever is about to wait
// asks for it. Most waits are short, such as the half second of a consumer's fetch, so the sweeper starts the watcher of
// those that have lasted; it reads ahead until the peer ends or sends its next request. The reader does not stop it
// afterwards but waits for the same bytes, so that no deadline has to be set and cleared.
type watch struct {
	state atomic.Int32
	done  chan error // one slot: how the watcher ended
}

// States: who may use the frame reader.
const (
	readerReads int32 = 0
	held        int32 = 1 // nobody: a request is handled
	wanted      int32 = 2 // nobody yet: its handler waits and wants to know
	watching    int32 = 3 // a watcher that runs, or has ended and not been waited for
)

// hold lets others watch from here on.
func (c *conn) hold() { c.watch.state.Store(held) }

// unhold ends that. A watcher that runs is left to run; unwatch waits for it.
func (c *conn) unhold() {
	if !c.watch.state.CompareAndSwap(held, readerReads) {
		c.watch.state.CompareAndSwap(wanted, readerReads)
	}
}

// watched asks for a watcher, if the reader is held, and returns what is closed when the peer is gone. It is
// handler.Conn.Closed.
func (c *conn) watched() <-chan struct{} {
	c.watch.state.CompareAndSwap(held, wanted)
	return c.gone
}

// startWatch starts the watcher that was asked for; the sweeper calls it.
func (c *conn) startWatch() {
	if !c.watch.state.CompareAndSwap(wanted, watching) {
		return
	}
	go func() {
		err := c.frames.Watch()
		if err != nil {
			c.peerGone()
		}
		c.watch.done <- err
	}()
}

// await returns when the next frame has begun to arrive.
func (c *conn) await() error {
	if err := c.unwatch(); err != nil {
		return err
	}
	return c.frames.Wait()
}

// unwatch waits for a watcher, if there is one; then only the reader reads.
func (c *conn) unwatch() error {
	if c.watch.state.Load() != watching {
		return nil
	}
	err := <-c.watch.done
	c.watch.state.Store(readerReads)
	return err
}
