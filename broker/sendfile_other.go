//go:build !linux

package broker

import (
	"errors"
	"os"
)

// sendfile is Linux's; elsewhere records are copied.
type sendfile struct{}

func (*sendfile) usable(*transport) bool { return false }

func (*sendfile) writeMore(*transport, []byte) error { return errors.ErrUnsupported }

func (*sendfile) send(*transport, *os.File, int64, int) (int, error) { return 0, errors.ErrUnsupported }
