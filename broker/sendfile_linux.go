package broker

import (
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
)

// sendfile sends from files to a TCP socket without passing through the process. The standard library's own use of it
// moves the file's position, which all readers of a segment share; this one gives the position with each call.
//
// The fields are the arguments and the outcome of the call in progress: the functions that the runtime's poller calls
// are made once, so that sending allocates nothing.
type sendfile struct {
	raw      syscall.RawConn // nil before the first use
	unusable bool            // no TCP connection, or the system refused

	b        []byte // what sendMore is to send
	file     int
	pos      int64
	left     int
	err      error
	sendMore func(socket uintptr) (done bool)
	sendFile func(socket uintptr) (done bool)
}

// maxSendfile keeps one system call short enough for the sweeper to see progress.
const maxSendfile = 4 << 20

// usable reports whether t's connection can be sent to by sendfile.
func (s *sendfile) usable(t *transport) bool {
	if s.raw != nil || s.unusable {
		return !s.unusable
	}
	tcp, ok := t.nc.(*net.TCPConn)
	if !ok {
		s.unusable = true
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		s.unusable = true
		return false
	}
	s.raw = raw
	s.sendMore = func(socket uintptr) bool { return s.trySendMore(t, int(socket)) }
	s.sendFile = func(socket uintptr) bool { return s.trySendFile(t, int(socket)) }
	return true
}

// writeMore writes b and tells the kernel that more follows, so that a header does not leave in a packet of its own.
func (s *sendfile) writeMore(_ *transport, b []byte) error {
	s.b, s.err = b, nil
	if err := s.raw.Write(s.sendMore); err != nil {
		return err
	}
	s.b = nil
	return s.err
}

func (s *sendfile) trySendMore(t *transport, socket int) bool {
	for len(s.b) > 0 {
		n, err := syscall.SendmsgN(socket, s.b, nil, nil, syscall.MSG_MORE|syscall.MSG_NOSIGNAL)
		switch {
		case err == syscall.EAGAIN:
			return false
		case err == syscall.EINTR:
			continue
		case err != nil:
			s.err = os.NewSyscallError("sendmsg", err)
			return true
		}
		t.progress()
		s.b = s.b[n:]
	}
	return true
}

// send sends n bytes of f from pos on. Where the system cannot do that with this file it sends nothing, and the caller
// copies; else all or an error.
func (s *sendfile) send(t *transport, f *os.File, pos int64, n int) (int, error) {
	s.file, s.pos, s.left, s.err = int(f.Fd()), pos, n, nil
	err := s.raw.Write(s.sendFile)
	runtime.KeepAlive(f)
	if err == nil {
		err = s.err
	}
	if s.left == n && (errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOSYS)) {
		s.unusable = true
		return 0, nil
	}
	return n - s.left, err
}

func (s *sendfile) trySendFile(t *transport, socket int) bool {
	for s.left > 0 {
		n, err := syscall.Sendfile(socket, s.file, &s.pos, min(s.left, maxSendfile))
		switch {
		case err == syscall.EAGAIN:
			return false
		case err == syscall.EINTR:
			continue
		case err != nil:
			s.err = os.NewSyscallError("sendfile", err)
			return true
		case n == 0: // the file is shorter than the log said
			s.err = &recordsError{io.ErrUnexpectedEOF}
			return true
		}
		t.progress()
		s.left -= n
	}
	return true
}
