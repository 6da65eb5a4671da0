package broker

import "sync/atomic"

// watch notices a peer that leaves while its request is handled: nobody reads the socket then. Whoever is about to wait
// starts it; it reads ahead until the peer ends or sends its next request. The reader does not stop it afterwards but
// waits for the same bytes, so that no deadline has to be set and cleared for each long poll.
type watch struct {
	state atomic.Int32
	done  chan error // one slot: how the watcher ended
}

// States of the frame reader's ownership.
const (
	readerReads int32 = 0
	held        int32 = 1 // a request is handled: nobody reads
	watching    int32 = 2 // a watcher goroutine reads, or has read and not been waited for
)

// hold lets others watch from here on.
func (c *conn) hold() { c.watch.state.Store(held) }

// unhold ends that. A watcher that runs is left to run; await waits for it.
func (c *conn) unhold() { c.watch.state.CompareAndSwap(held, readerReads) }

// watched starts a watcher if the reader is held and none runs, and returns what is closed when the peer is gone. It is
// handler.Conn.Closed.
func (c *conn) watched() <-chan struct{} {
	if c.watch.state.CompareAndSwap(held, watching) {
		go func() {
			err := c.frames.Watch()
			if err != nil {
				c.peerGone()
			}
			c.watch.done <- err
		}()
	}
	return c.gone
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
