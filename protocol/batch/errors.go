package batch

import (
	"errors"
	"fmt"

	"weir/internal/kafka"
)

// ErrTorn is what errors.Is finds where bytes end within a batch.
var ErrTorn = errors.New("batch is torn")

// TornError says that the bytes end within a batch: the tail of a fetch response, or of a segment after a crash.
type TornError struct {
	Have int // bytes there are
	Need int // bytes that the batch, or its header, needs
}

func (e *TornError) Error() string {
	return fmt.Sprintf("batch is torn: %d of %d bytes", e.Have, e.Need)
}

// Is makes errors.Is(err, ErrTorn) true.
func (e *TornError) Is(target error) bool { return target == ErrTorn }

// Code is CORRUPT_MESSAGE.
func (e *TornError) Code() kafka.Code { return kafka.CorruptMessage }

// CorruptError says that bytes which should be a batch are none.
type CorruptError struct {
	BaseOffset int64 // what the header claims
	Reason     error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("batch at offset %d is corrupt: %v", e.BaseOffset, e.Reason)
}

// Unwrap gives the reason.
func (e *CorruptError) Unwrap() error { return e.Reason }

// Code is CORRUPT_MESSAGE.
func (e *CorruptError) Code() kafka.Code { return kafka.CorruptMessage }

func corruptf(baseOffset int64, format string, args ...any) error {
	return &CorruptError{BaseOffset: baseOffset, Reason: fmt.Errorf(format, args...)}
}
