package log

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

// metaPropertiesFile is Kafka's name of the file in a data directory that says whose directory it is.
const (
	metaPropertiesFile    = "meta.properties"
	metaPropertiesVersion = 1 // on disk; 0 has broker.id instead of node.id
)

// MetaProperties says which node of which cluster a data directory belongs to, and its own id among the node's (KIP-858).
type MetaProperties struct {
	ClusterID   string
	NodeID      kafka.BrokerID
	DirectoryID kafka.DirectoryID // zero if none is given

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
	version := int64(0)
	err = parseProperties(path, string(content), func(line int, p Property) (err error) {
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
		default:
			m.Other = append(m.Other, p)
		}
		if err != nil {
			return brokenLine(path, line, "%s: %v", p.Key, err)
		}
		return nil
	})
	if err != nil {
		return MetaProperties{}, err
	}
	end := strings.Count(string(content), "\n") + 1
	switch {
	case version > metaPropertiesVersion:
		return MetaProperties{}, brokenLine(path, end, "version %d is not known", version)
	case m.ClusterID == "":
		return MetaProperties{}, brokenLine(path, end, "cluster.id is missing")
	case m.NodeID < 0:
		return MetaProperties{}, brokenLine(path, end, "node.id is missing")
	}
	return m, nil
}

// WriteMetaProperties writes the file, with the comment and in the form that Java gives it, and makes it durable.
func WriteMetaProperties(fsys vfs.FS, dir string, m MetaProperties, now time.Time) error {
	properties := []Property{
		{"node.id", strconv.Itoa(int(m.NodeID))},
		{"directory.id", m.DirectoryID.String()},
		{"version", strconv.Itoa(metaPropertiesVersion)},
		{"cluster.id", m.ClusterID},
	}
	if m.DirectoryID.IsZero() {
		properties = append(properties[:1], properties[2:]...)
	}
	b := fmt.Appendf(nil, "#\n#%s\n", now.UTC().Format("Mon Jan 02 15:04:05 MST 2006"))
	for _, p := range append(properties, m.Other...) {
		b = append(b, escapeProperty(p.Key, true)+"="+escapeProperty(p.Value, false)+"\n"...)
	}
	// A crash leaves the old file or the new one. Without one the directory would be taken for a new one.
	return vfs.WriteFileAtomic(fsys, filepath.Join(dir, metaPropertiesFile), b, sideFilePerm, true)
}

// parseProperties reads Java's format: comments begin with # or !, a key ends at the first =, : or white space, a
// backslash at the end of a line continues it, and elsewhere takes what follows literally (\uXXXX is a UTF-16 unit).
func parseProperties(path, content string, property func(line int, p Property) error) error {
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(content), "\n")
	for i := 0; i < len(lines); i++ {
		at := i + 1
		text := strings.TrimLeft(lines[i], " \t\f")
		if text == "" || text[0] == '#' || text[0] == '!' {
			continue
		}
		for continued(text) && i+1 < len(lines) {
			i++
			text = text[:len(text)-1] + strings.TrimLeft(lines[i], " \t\f")
		}
		key, rest, err := unescapeUntil(text, "=: \t\f")
		if err != nil {
			return brokenLine(path, at, "%v", err)
		}
		rest = strings.TrimLeft(rest, " \t\f")
		if rest != "" && (rest[0] == '=' || rest[0] == ':') {
			rest = strings.TrimLeft(rest[1:], " \t\f")
		}
		value, _, err := unescapeUntil(rest, "")
		if err != nil {
			return brokenLine(path, at, "%v", err)
		}
		if err := property(at, Property{key, value}); err != nil {
			return err
		}
	}
	return nil
}

// continued reports whether a line ends with a backslash that is not itself escaped.
func continued(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

// unescapeUntil resolves backslashes up to the first of the characters in end that has none.
func unescapeUntil(s, end string) (text, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case strings.IndexByte(end, s[i]) >= 0:
			return b.String(), s[i:], nil
		case s[i] != '\\' || i+1 == len(s):
			b.WriteByte(s[i])
			continue
		}
		i++
		switch s[i] {
		case 't':
			b.WriteByte('\t')
		case 'n':
			b.WriteByte('\n')
		case 'r':
			b.WriteByte('\r')
		case 'f':
			b.WriteByte('\f')
		case 'u':
			if i+5 > len(s) {
				return "", "", fmt.Errorf("%q ends within an escape", s)
			}
			unit, err := strconv.ParseUint(s[i+1:i+5], 16, 16)
			if err != nil {
				return "", "", fmt.Errorf("%q is no escape", s[i-1:i+5])
			}
			b.WriteRune(rune(unit)) // a half of a surrogate pair becomes U+FFFD; ids have none
			i += 4
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), "", nil
}

// escapeProperty writes a key or a value as Java's Properties.store does.
func escapeProperty(s string, key bool) string {
	var b strings.Builder
	for i, c := range []byte(s) {
		switch {
		case c == ' ' && (key || i == 0), strings.IndexByte(`\=:#!`, c) >= 0:
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\f':
			b.WriteString(`\f`)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
