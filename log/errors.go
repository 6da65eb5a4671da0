package log

import (
	"fmt"

	"weir/internal/kafka"
)

// ErrOffsetOutOfRange says that a read, or a new start of the log, lies outside what the log holds.
type ErrOffsetOutOfRange struct {
	TP         kafka.TopicPartition
	Offset     int64
	Start, End int64 // what there is: [Start, End]; a read at End is empty, not an error
}

func (e ErrOffsetOutOfRange) Error() string {
	return fmt.Sprintf("offset %d of %v is outside of the log, which begins at %d and ends at %d", e.Offset, e.TP, e.Start, e.End)
}

// Code is OFFSET_OUT_OF_RANGE.
func (e ErrOffsetOutOfRange) Code() kafka.Code { return kafka.OffsetOutOfRange }

// ErrFencedLeaderEpoch refuses an append in an epoch that is older than the log's newest.
type ErrFencedLeaderEpoch struct {
	TP     kafka.TopicPartition
	Epoch  kafka.LeaderEpoch // of the append
	Latest kafka.LeaderEpoch // of the log
}

func (e ErrFencedLeaderEpoch) Error() string {
	return fmt.Sprintf("append to %v in leader epoch %d, which is older than %d", e.TP, e.Epoch, e.Latest)
}

// Code is FENCED_LEADER_EPOCH.
func (e ErrFencedLeaderEpoch) Code() kafka.Code { return kafka.FencedLeaderEpoch }

// ErrUnexpectedOffset refuses a follower's append that does not go on where the log ends, or whose batches are not in
// order. Nothing was written.
type ErrUnexpectedOffset struct {
	TP       kafka.TopicPartition
	Offset   int64 // the batch's base offset
	Expected int64 // the lowest that is allowed
}

func (e ErrUnexpectedOffset) Error() string {
	return fmt.Sprintf("append to %v at offset %d, which is below %d", e.TP, e.Offset, e.Expected)
}

// Code is CORRUPT_MESSAGE: the leader sent what no log of this partition can hold.
func (e ErrUnexpectedOffset) Code() kafka.Code { return kafka.CorruptMessage }

// ErrCorrupt says that a file holds something that was not written there, below the point up to which it had been
// made durable: no crash explains it. It is never repaired by cutting, which would lose what was acknowledged.
type ErrCorrupt struct {
	Path string
	Pos  int64 // of the batch, in bytes from the start of the file
	Err  error // what is wrong with it
}

func (e ErrCorrupt) Error() string {
	return fmt.Sprintf("%s is corrupt at byte %d: %v", e.Path, e.Pos, e.Err)
}

// Unwrap gives what is wrong with the batch.
func (e ErrCorrupt) Unwrap() error { return e.Err }

// Code is KAFKA_STORAGE_ERROR: the replica is offline.
func (e ErrCorrupt) Code() kafka.Code { return kafka.KafkaStorageError }

// ErrInvalidRecord says that a batch is what was appended, its CRC right, and holds a record that cannot be read. A producer
// sent it so: in compressed batches, records whose length does not fit their fields are taken, as Kafka takes them.
type ErrInvalidRecord struct {
	Path string
	Pos  int64 // of the batch, in bytes from the start of the file
	Err  error // what is wrong with the record
}

func (e ErrInvalidRecord) Error() string {
	return fmt.Sprintf("%s has a batch with an invalid record at byte %d: %v", e.Path, e.Pos, e.Err)
}

// Unwrap gives what is wrong with the record.
func (e ErrInvalidRecord) Unwrap() error { return e.Err }

// Code is INVALID_RECORD: nothing is wrong with the replica, and to ask again would not help.
func (e ErrInvalidRecord) Code() kafka.Code { return kafka.InvalidRecord }

// ErrStorage says that the disk failed, or that the log is offline because it failed before. Err names the path.
type ErrStorage struct {
	TP  kafka.TopicPartition
	Err error
}

func (e ErrStorage) Error() string { return fmt.Sprintf("log of %v is offline: %v", e.TP, e.Err) }

// Unwrap gives the failure that took the log offline.
func (e ErrStorage) Unwrap() error { return e.Err }

// Code is KAFKA_STORAGE_ERROR.
func (e ErrStorage) Code() kafka.Code { return kafka.KafkaStorageError }

// ErrClosed is returned by a log that was closed or deleted.
type ErrClosed struct{ TP kafka.TopicPartition }

func (e ErrClosed) Error() string { return fmt.Sprintf("log of %v is closed", e.TP) }

// Code is NOT_LEADER_OR_FOLLOWER: the replica is no longer here, and clients look for it anew.
func (e ErrClosed) Code() kafka.Code { return kafka.NotLeaderOrFollower }
