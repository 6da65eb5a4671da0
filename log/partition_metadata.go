package log

import (
	"fmt"
	"path/filepath"
	"strings"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

// partitionMetadataFile is Kafka's name of the file in a log's directory that says whose log it is (KIP-516).
const (
	partitionMetadataFile    = "partition.metadata"
	partitionMetadataVersion = 0 // on disk
)

// ReadPartitionMetadata reads the id of the topic that the log in dir belongs to. Errors are an ErrBrokenFile, one that
// wraps fs.ErrNotExist, or the disk's.
func ReadPartitionMetadata(fsys vfs.FS, dir string) (kafka.TopicID, error) {
	path := filepath.Join(dir, partitionMetadataFile)
	content, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return kafka.TopicID{}, err
	}
	lines := strings.Split(strings.TrimRight(string(content), "\r\n"), "\n")
	version, err := metadataField(path, lines, 1, "version")
	if err != nil {
		return kafka.TopicID{}, err
	}
	if v, err := parseNumber(version, 31); err != nil || v != partitionMetadataVersion {
		return kafka.TopicID{}, brokenLine(path, 1, "version %q, not %d", version, partitionMetadataVersion)
	}
	text, err := metadataField(path, lines, 2, "topic_id")
	if err != nil {
		return kafka.TopicID{}, err
	}
	id, err := kafka.ParseUUID(text)
	if err != nil {
		return kafka.TopicID{}, brokenLine(path, 2, "%v", err)
	}
	if id.IsZero() {
		return id, brokenLine(path, 2, "the topic id is zero")
	}
	return id, nil
}

// metadataField takes "name: value" apart.
func metadataField(path string, lines []string, line int, name string) (string, error) {
	if len(lines) < line {
		return "", brokenLine(path, line, "%s is missing", name)
	}
	key, value, ok := strings.Cut(lines[line-1], ":")
	if !ok || strings.TrimSpace(key) != name {
		return "", brokenLine(path, line, "%q, not %s", lines[line-1], name)
	}
	return strings.TrimSpace(value), nil
}

// WritePartitionMetadata says in dir which topic the log belongs to. See vfs.WriteFileAtomic for what survives which
// crash: without the file, the next start takes the id from the metadata image.
func WritePartitionMetadata(fsys vfs.FS, dir string, id kafka.TopicID, durable bool) error {
	content := fmt.Appendf(nil, "version: %d\ntopic_id: %v", partitionMetadataVersion, id)
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, partitionMetadataFile), content, sideFilePerm, durable)
}
