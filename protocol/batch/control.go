package batch

import (
	"encoding/binary"
	"fmt"
)

// ControlType is the kind of a control record. The numbers are the format's.
type ControlType int16

// The markers that end a transaction. Kafka's other control records (KRaft's) never occur in a topic's partition.
const (
	Abort  ControlType = 0
	Commit ControlType = 1
)

const (
	controlKeyVersion   = 0
	endTxnMarkerVersion = 0
	controlKeySize      = 4
	endTxnMarkerSize    = 6
)

// EndTxnMarker is the one record of the batch that ends a producer's transaction in a partition (KIP-98).
type EndTxnMarker struct {
	Type             ControlType
	CoordinatorEpoch int32 // leader epoch of the coordinator's partition: an older coordinator's markers are refused
}

// ControlBatch builds the batch of a marker: one record, no sequence, not compressed, base offset 0 and leader epoch as
// given. producerEpoch is that of the transaction, in version 2 of transactions the one after the bump (KIP-890).
func ControlBatch(m EndTxnMarker, producerID int64, producerEpoch int16, leaderEpoch int32, timestampMs int64) []byte {
	var key [controlKeySize]byte
	binary.BigEndian.PutUint16(key[0:], controlKeyVersion)
	binary.BigEndian.PutUint16(key[2:], uint16(m.Type))
	var value [endTxnMarkerSize]byte
	binary.BigEndian.PutUint16(value[0:], endTxnMarkerVersion)
	binary.BigEndian.PutUint32(value[2:], uint32(m.CoordinatorEpoch))

	b := NewBuilder(None, 0)
	b.SetLeaderEpoch(leaderEpoch)
	b.SetProducer(producerID, producerEpoch, NoSequence)
	b.SetTransactional()
	b.SetControl()
	b.Append(timestampMs, key[:], value[:])
	out, err := b.Build()
	if err != nil {
		panic(err) // Build fails for a codec's sake or a batch of 2 GiB
	}
	return out
}

// ParseEndTxnMarker reads the record of a control batch. The error is for a record that is none, or one of a kind other
// than Abort and Commit. Versions after 0 may have more fields behind these, which are ignored, as in Kafka.
func ParseEndTxnMarker(r Record) (EndTxnMarker, error) {
	if len(r.Key) < controlKeySize || int16(binary.BigEndian.Uint16(r.Key)) < controlKeyVersion {
		return EndTxnMarker{}, fmt.Errorf("control record has a key of %d bytes, %x", len(r.Key), r.Key)
	}
	t := ControlType(binary.BigEndian.Uint16(r.Key[2:]))
	if t != Abort && t != Commit {
		return EndTxnMarker{}, fmt.Errorf("control record is of type %d, not the end of a transaction", t)
	}
	if len(r.Value) < endTxnMarkerSize || int16(binary.BigEndian.Uint16(r.Value)) < endTxnMarkerVersion {
		return EndTxnMarker{}, fmt.Errorf("end of a transaction has a value of %d bytes, %x", len(r.Value), r.Value)
	}
	return EndTxnMarker{Type: t, CoordinatorEpoch: int32(binary.BigEndian.Uint32(r.Value[2:]))}, nil
}
