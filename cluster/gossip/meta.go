package gossip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/hashicorp/memberlist"

	"weir/internal/kafka"
)

// Member is a node of the cluster.
type Member struct {
	Node       kafka.BrokerID
	RaftID     uint64
	Directory  kafka.DirectoryID
	Controller bool   // it may become a voter of the quorum
	Host       string // where its peers reach it
	Port       uint16
	GossipPort uint16 // on Host
}

// meta is what a process tells of itself. GossipPort is not in it: memberlist tells where packets come from.
//
// Its bytes, numbers in big endian: version int8, flags int8 (1: controller), node int32, Raft id int64, directory 16 bytes,
// incarnation 16 bytes, begin int64, port int16, leader int64, term int32, then host and cluster id, each as its length in one
// byte and its bytes. memberlist takes 512 of them at most.
type meta struct {
	Member
	ClusterID   string
	Incarnation kafka.UUID
	Began       int64  // when the process began to gossip, by its own clock, in ms since 1970
	Leader      uint64 // Raft id of the quorum's leader in Term; 0: it knows none
	Term        int32
}

const (
	metaVersion    = 1
	metaController = 1
	metaFixedBytes = 1 + 1 + 4 + 8 + 16 + 16 + 8 + 2 + 8 + 4
)

// name is what memberlist calls the process.
func (m *meta) name() string { return fmt.Sprintf("%d.%x", m.Node, m.Incarnation[:4]) }

// encode fails where the node cannot be told of.
func (m *meta) encode() ([]byte, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	b := make([]byte, 0, metaFixedBytes+2+len(m.Host)+len(m.ClusterID))
	flags := byte(0)
	if m.Controller {
		flags = metaController
	}
	b = append(b, metaVersion, flags)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Node))
	b = binary.BigEndian.AppendUint64(b, m.RaftID)
	b = append(b, m.Directory[:]...)
	b = append(b, m.Incarnation[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(m.Began))
	b = binary.BigEndian.AppendUint16(b, m.Port)
	b = binary.BigEndian.AppendUint64(b, m.Leader)
	b = binary.BigEndian.AppendUint32(b, uint32(m.Term))
	b = append(append(b, byte(len(m.Host))), m.Host...)
	b = append(append(b, byte(len(m.ClusterID))), m.ClusterID...)
	if len(b) > memberlist.MetaMaxSize {
		return nil, fmt.Errorf("what node %d tells of itself has %d bytes, and %d is the most", m.Node, len(b), memberlist.MetaMaxSize)
	}
	return b, nil
}

var errGarbled = errors.New("what it tells of itself cannot be read")

// decodeMeta reads what encode wrote, and nothing else.
func decodeMeta(b []byte) (meta, error) {
	if len(b) > 0 && b[0] != metaVersion {
		return meta{}, fmt.Errorf("it speaks version %d, and this node %d", b[0], metaVersion)
	}
	if len(b) < metaFixedBytes || len(b) > memberlist.MetaMaxSize || b[1]&^metaController != 0 {
		return meta{}, errGarbled
	}
	var m meta
	m.Controller = b[1] == metaController
	b = b[2:]
	m.Node, b = kafka.BrokerID(binary.BigEndian.Uint32(b)), b[4:]
	m.RaftID, b = binary.BigEndian.Uint64(b), b[8:]
	b = b[copy(m.Directory[:], b):]
	b = b[copy(m.Incarnation[:], b):]
	m.Began, b = int64(binary.BigEndian.Uint64(b)), b[8:]
	m.Port, b = binary.BigEndian.Uint16(b), b[2:]
	m.Leader, b = binary.BigEndian.Uint64(b), b[8:]
	m.Term, b = int32(binary.BigEndian.Uint32(b)), b[4:]
	var ok bool
	if m.Host, b, ok = cutString(b); !ok {
		return meta{}, errGarbled
	}
	if m.ClusterID, b, ok = cutString(b); !ok || len(b) > 0 {
		return meta{}, errGarbled
	}
	return m, m.check()
}

// cutString takes a string off the front of b.
func cutString(b []byte) (s string, rest []byte, ok bool) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil, false
	}
	n := 1 + int(b[0])
	return string(b[1:n]), b[n:], true
}

// check holds for all that is sent and all that is taken.
func (m *meta) check() error {
	switch {
	case m.Node < 0 || m.RaftID == 0 || m.Directory.IsZero() || m.Incarnation.IsZero():
		return errors.New("it does not say which node it is")
	case m.Host == "" || len(m.Host) > math.MaxUint8 || m.Port == 0 || strings.ContainsFunc(m.Host, notOfHost):
		return fmt.Errorf("node %d does not say where its peers reach it", m.Node)
	case m.ClusterID == "" || len(m.ClusterID) > math.MaxUint8:
		return fmt.Errorf("node %d does not say which cluster it is of", m.Node)
	case m.Term < 0:
		return errGarbled
	}
	return nil
}

// notOfHost is true of what no host name or IP address has. What is taken goes to logs and to resolvers.
func notOfHost(r rune) bool { return r <= ' ' || r >= 0x7f || r == '/' || r == '\\' || r == '"' }
