package log

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

// Kafka's checkpoint files of a data directory. Each is text: a version, the number of entries, an entry a line.
const (
	RecoveryPointCheckpoint     = "recovery-point-offset-checkpoint" // everything below the offset is durable
	ReplicationOffsetCheckpoint = "replication-offset-checkpoint"    // the high watermark
	LogStartOffsetCheckpoint    = "log-start-offset-checkpoint"
)

const (
	checkpointVersion = 0 // on disk, of offset and of leader epoch checkpoints
	sideFilePerm      = 0o644
)

// ErrBrokenFile says that a file beside the log (a checkpoint, an index, a snapshot, one of the small files) does not
// hold what it should: a crash tore it, or somebody wrote to it. What it held can be made again from the log or the
// metadata image, so the caller warns and does that, instead of refusing to start.
type ErrBrokenFile struct {
	Path   string
	Line   int   // of text files, from 1; 0 for binary files
	Pos    int64 // of binary files, in bytes from the start
	Reason string
}

func (e ErrBrokenFile) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s is broken at line %d: %s", e.Path, e.Line, e.Reason)
	}
	return fmt.Sprintf("%s is broken at byte %d: %s", e.Path, e.Pos, e.Reason)
}

// Code is KAFKA_STORAGE_ERROR, should it reach a client.
func (e ErrBrokenFile) Code() kafka.Code { return kafka.KafkaStorageError }

func brokenLine(path string, line int, format string, args ...any) error {
	return ErrBrokenFile{Path: path, Line: line, Reason: fmt.Sprintf(format, args...)}
}

func brokenAt(path string, pos int64, format string, args ...any) error {
	return ErrBrokenFile{Path: path, Pos: pos, Reason: fmt.Sprintf(format, args...)}
}

// ReadOffsetCheckpoint reads one offset for each partition. A file that is missing, or empty as Kafka makes it at first,
// has no entries. The error is an ErrBrokenFile or the disk's.
func ReadOffsetCheckpoint(fsys vfs.FS, path string) (map[kafka.TopicPartition]int64, error) {
	offsets := map[kafka.TopicPartition]int64{}
	err := readCheckpoint(fsys, path, 3, func(line int, fields []string) error {
		partition, err := parseNumber(fields[1], 31)
		if err != nil {
			return brokenLine(path, line, "partition %v", err)
		}
		offset, err := parseNumber(fields[2], 63)
		if err != nil {
			return brokenLine(path, line, "offset %v", err)
		}
		offsets[kafka.TopicPartition{Topic: fields[0], Partition: int32(partition)}] = offset
		return nil
	})
	if err != nil {
		return nil, err
	}
	return offsets, nil
}

// WriteOffsetCheckpoint replaces the file, with its lines in the order of topics and partitions. See
// vfs.WriteFileAtomic for what survives which crash.
func WriteOffsetCheckpoint(fsys vfs.FS, path string, offsets map[kafka.TopicPartition]int64, durable bool) error {
	partitions := slices.SortedFunc(maps.Keys(offsets), func(a, b kafka.TopicPartition) int {
		return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	b := checkpointHeader(len(partitions))
	for _, tp := range partitions {
		b = append(b, tp.Topic...)
		b = strconv.AppendInt(append(b, ' '), int64(tp.Partition), 10)
		b = strconv.AppendInt(append(b, ' '), offsets[tp], 10)
		b = append(b, '\n')
	}
	return vfs.WriteFileAtomic(fsys, path, b, sideFilePerm, durable)
}

func checkpointHeader(entries int) []byte {
	return fmt.Appendf(nil, "%d\n%d\n", checkpointVersion, entries)
}

// readCheckpoint calls entry with the fields of each line, as many as there must be. The count in the file guards
// against one that was cut off at the end of a line.
func readCheckpoint(fsys vfs.FS, path string, fields int, entry func(line int, fields []string) error) error {
	content, err := vfs.ReadFile(fsys, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(content) == 0 {
		return nil
	}
	version, rest, _ := bytes.Cut(content, []byte("\n"))
	if v, err := parseNumber(string(version), 31); err != nil || v != checkpointVersion {
		return brokenLine(path, 1, "version %q, not %d", version, checkpointVersion)
	}
	count, rest, _ := bytes.Cut(rest, []byte("\n"))
	want, err := parseNumber(string(count), 31)
	if err != nil {
		return brokenLine(path, 2, "number of entries %v", err)
	}
	if len(rest) > 0 && rest[len(rest)-1] != '\n' {
		// Cut within a line: the last number may lack digits, and still look right.
		return brokenLine(path, bytes.Count(content, []byte("\n"))+1, "the line has no end")
	}
	line := 2
	for ; len(rest) > 0; line++ {
		var text []byte
		text, rest, _ = bytes.Cut(rest, []byte("\n"))
		parts := strings.Fields(string(text))
		if len(parts) != fields {
			return brokenLine(path, line+1, "%d fields, not %d", len(parts), fields)
		}
		if err := entry(line+1, parts); err != nil {
			return err
		}
	}
	if got := int64(line - 2); got != want {
		return brokenLine(path, line, "%d entries, not %d", got, want)
	}
	return nil
}

// parseNumber reads a number that is not negative and has at most that many bits. The error reads as a continuation.
func parseNumber(s string, bits int) (int64, error) {
	n, err := strconv.ParseUint(s, 10, bits)
	if err != nil {
		return 0, fmt.Errorf("%q is not a number of %d bits", s, bits)
	}
	return int64(n), nil
}
