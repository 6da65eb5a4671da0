package cluster

import (
	"path/filepath"
	"time"

	"weir/cluster/quorum"
	"weir/internal/kafka"
	"weir/internal/vfs"
)

// QuorumRecovery is what RecoverQuorum did, or would do.
type QuorumRecovery = quorum.Recovery

// RecoverQuorum makes a stopped node the only voter, where its quorum has lost its majority for good: quorum.Recover, with the
// directory that the node was given (Options.MetadataDir). Without force nothing is changed.
func RecoverQuorum(fsys vfs.FS, metadataDir string, now time.Time, force bool) (*QuorumRecovery, error) {
	return quorum.Recover(fsys, filepath.Join(metadataDir, kafka.TopicPartition{Topic: kafka.ClusterMetadataTopic}.String()), now, force)
}
