package batch

import (
	"bytes"
	"testing"
)

// The markers that Kafka wrote must come out to the byte.
func TestControlBatchOfKafka(t *testing.T) {
	for name, want := range map[string]EndTxnMarker{"commit": {Type: Commit}, "abort": {Type: Abort}} {
		b := kafkaBatches(t)[name]
		h, err := CheckStored(b)
		if err != nil || !h.Attributes.Control() || !h.Attributes.Transactional() {
			t.Fatalf("%s: %+v, %v", name, h, err)
		}
		for r, err := range Records(b) {
			if err != nil {
				t.Fatal(err)
			}
			if m, err := ParseEndTxnMarker(r); err != nil || m != want {
				t.Errorf("%s: %+v, %v", name, m, err)
			}
		}
		mine := ControlBatch(want, h.ProducerID, h.ProducerEpoch, h.LeaderEpoch, h.BaseTimestamp)
		SetBaseOffset(mine, h.BaseOffset)
		if !bytes.Equal(mine, b) {
			t.Errorf("%s:\n%x\nKafka's\n%x", name, mine, b)
		}
	}
}

func TestControlBatchKeepsEpoch(t *testing.T) {
	for r, err := range Records(ControlBatch(EndTxnMarker{Commit, 1 << 20}, 5, 6, 7, 8)) {
		if m, err2 := ParseEndTxnMarker(r); err != nil || err2 != nil || m.CoordinatorEpoch != 1<<20 {
			t.Fatalf("%+v, %v, %v", m, err, err2)
		}
	}
}

func TestParseEndTxnMarkerErrors(t *testing.T) {
	key, value := []byte{0, 0, 0, 1}, []byte{0, 0, 0, 0, 0, 9}
	for name, r := range map[string]Record{
		"no key":           {Value: value},
		"short key":        {Key: key[:3], Value: value},
		"version -1":       {Key: []byte{0xff, 0xff, 0, 1}, Value: value},
		"leader change":    {Key: []byte{0, 0, 0, 2}, Value: value},
		"unknown type":     {Key: []byte{0, 0, 0xff, 0xff}, Value: value},
		"no value":         {Key: key},
		"short value":      {Key: key, Value: value[:5]},
		"value version -1": {Key: key, Value: []byte{0xff, 0xff, 0, 0, 0, 9}},
	} {
		if m, err := ParseEndTxnMarker(r); err == nil {
			t.Errorf("%s: %+v", name, m)
		}
	}
	later := Record{Key: []byte{0, 1, 0, 0, 7}, Value: []byte{0, 1, 0, 0, 0, 9, 7}}
	if m, err := ParseEndTxnMarker(later); err != nil || m != (EndTxnMarker{Abort, 9}) {
		t.Errorf("later versions: %+v, %v", m, err)
	}
}
