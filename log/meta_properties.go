package log

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"weir/internal/kafka"
	"weir/internal/properties"
	"weir/internal/vfs"
)

// metaPropertiesFile is Kafka's name of the file in a data directory that says whose directory it is.
const (
	metaPropertiesFile    = "meta.properties"
	metaPropertiesVersion = 1 // on disk; 0 has broker.id instead of node.id
)

// pendingProperty stands in the file of a directory whose node has no cluster yet: it has met the others that found one
// with it, or waits for them. They know it by the directory's id, which therefore has to outlive a crash.
const pendingProperty = "weir.cluster.pending"

// joinedProperty stands in the file of a directory whose node was taken into a cluster that there was already. It must not
// found one of the same id should it lose its metadata log.
const joinedProperty = "weir.cluster.joined"

// MetaProperties says which node of which cluster a data directory belongs to, and its own id among the node's (KIP-858).
type MetaProperties struct {
	ClusterID   string            // empty while the node has no cluster yet
	NodeID      kafka.BrokerID    // NoBroker where the cluster is to give it, which there is none of yet
	DirectoryID kafka.DirectoryID // zero if none is given
	Joined      bool              // see Identity

	// Other are properties that mean nothing here, kept as they were: another version's, or an operator's.
	Other []Property
}

// Property is a line of a Java properties file.
type Property struct {
	Key, Value string
}

// ReadMetaProperties reads the file of a data directory. Errors are an ErrBrokenFile, one that wraps fs.ErrNotExist, or
// the disk's. Version 0, which brokers before KRaft wrote, is understood too.
func ReadMetaProperties(fsys vfs.FS, dir string) (MetaProperties, error) {
	path := filepath.Join(dir, metaPropertiesFile)
	content, err := vfs.ReadFile(fsys, path)
	if err != nil {
		return MetaProperties{}, err
	}
	m := MetaProperties{NodeID: kafka.NoBroker}
	version, pending := int64(0), false
	entries, err := properties.Parse(string(content))
	if bad := (*properties.SyntaxError)(nil); errors.As(err, &bad) {
		return MetaProperties{}, brokenLine(path, bad.Line, "%s", bad.Reason)
	}
	for _, p := range entries {
		switch p.Key {
		case "version":
			version, err = parseNumber(p.Value, 31)
		case "cluster.id":
			m.ClusterID = p.Value
		case "node.id", "broker.id":
			var id int64
			id, err = parseNumber(p.Value, 31)
			m.NodeID = kafka.BrokerID(id)
		case "directory.id":
			m.DirectoryID, err = kafka.ParseUUID(p.Value)
		case pendingProperty:
			pending, err = strconv.ParseBool(p.Value)
		case joinedProperty:
			m.Joined, err = strconv.ParseBool(p.Value)
		default:
			m.Other = append(m.Other, Property{p.Key, p.Value})
		}
		if err != nil {
			return MetaProperties{}, brokenLine(path, p.Line, "%s: %v", p.Key, err)
		}
	}
	end := strings.Count(string(content), "\n") + 1
	switch {
	case version > metaPropertiesVersion:
		return MetaProperties{}, brokenLine(path, end, "version %d is not known", version)
	case m.ClusterID == "" && !pending:
		return MetaProperties{}, brokenLine(path, end, "cluster.id is missing")
	case m.NodeID < 0 && m.ClusterID != "":
		return MetaProperties{}, brokenLine(path, end, "node.id is missing")
	}
	return m, nil
}

// WriteMetaProperties writes the file, with the comment and in the form that Java gives it, and makes it durable.
func WriteMetaProperties(fsys vfs.FS, dir string, m MetaProperties, now time.Time) error {
	var entries []Property
	add := func(given bool, key, value string) {
		if given {
			entries = append(entries, Property{key, value})
		}
	}
	add(m.NodeID >= 0, "node.id", strconv.Itoa(int(m.NodeID)))
	add(!m.DirectoryID.IsZero(), "directory.id", m.DirectoryID.String())
	add(true, "version", strconv.Itoa(metaPropertiesVersion))
	add(m.ClusterID != "", "cluster.id", m.ClusterID)
	add(m.ClusterID == "", pendingProperty, "true")
	add(m.Joined, joinedProperty, "true")
	b := fmt.Appendf(nil, "#\n#%s\n", now.UTC().Format("Mon Jan 02 15:04:05 MST 2006"))
	for _, p := range append(entries, m.Other...) {
		b = properties.Append(b, p.Key, p.Value)
	}
	// A crash leaves the old file or the new one. Without one the directory would be taken for a new one.
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, metaPropertiesFile), b, sideFilePerm, true)
}

// fits reports whether the directory may be node's: what one that has no cluster yet leaves open is no contradiction.
func (m MetaProperties) fits(node kafka.BrokerID) bool {
	return m.NodeID == node || m.ClusterID == "" && (m.NodeID == kafka.NoBroker || node == kafka.NoBroker)
}
