package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// jsonRecord is the line that `weir consume -o json` writes and `weir produce -i json` reads. Nothing of a record is
// lost between the two but its place: a producer chooses topic, partition and offset anew.
type jsonRecord struct {
	Topic     string       `json:"topic,omitempty"`
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`
	Timestamp *int64       `json:"timestamp,omitempty"` // milliseconds since 1970
	Key       jsonBytes    `json:"key"`
	Value     jsonBytes    `json:"value"`
	Headers   []jsonHeader `json:"headers,omitempty"`
}

type jsonHeader struct {
	Key   string    `json:"key"`
	Value jsonBytes `json:"value"`
}

func newJSONRecord(r *kgo.Record) jsonRecord {
	ms := r.Timestamp.UnixMilli()
	j := jsonRecord{
		Topic: r.Topic, Partition: r.Partition, Offset: r.Offset, Timestamp: &ms, Key: r.Key, Value: r.Value,
	}
	for _, h := range r.Headers {
		j.Headers = append(j.Headers, jsonHeader{Key: h.Key, Value: h.Value})
	}
	return j
}

// parseJSONRecord reads one line. Only the partition of its place is kept, for those who ask for it.
func parseJSONRecord(line []byte) (*kgo.Record, error) {
	var j jsonRecord
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields() // "vaule" would produce null otherwise
	if err := dec.Decode(&j); errors.Is(err, io.EOF) {
		return nil, errors.New("an empty line is no JSON")
	} else if err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON object")
	}
	r := &kgo.Record{Partition: j.Partition, Key: j.Key, Value: j.Value}
	if j.Timestamp != nil {
		r.Timestamp = time.UnixMilli(*j.Timestamp)
	}
	for _, h := range j.Headers {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
	}
	return r, nil
}

// jsonBytes is a key or a value: null, a string where the bytes are UTF-8, and {"base64":"..."} where they are not.
type jsonBytes []byte

// base64Bytes is the form of bytes that are no text.
type base64Bytes struct {
	Base64 *string `json:"base64"`
}

// MarshalJSON never fails.
func (b jsonBytes) MarshalJSON() ([]byte, error) {
	switch {
	case b == nil:
		return []byte("null"), nil
	case utf8.Valid(b):
		var buf bytes.Buffer
		err := writeJSON(&buf, string(b)) // json.Marshal would write "<" as "\u003c"
		return buf.Bytes(), err
	}
	text := base64.StdEncoding.EncodeToString(b)
	return json.Marshal(base64Bytes{&text})
}

// UnmarshalJSON takes what MarshalJSON gives and nothing else: a number or an object would have to be turned into bytes
// by a rule that the reader cannot see.
func (b *jsonBytes) UnmarshalJSON(data []byte) error {
	switch data[0] {
	case 'n':
		*b = nil
		return nil
	case '"':
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*b = []byte(text)
		return nil
	case '{':
		var encoded base64Bytes
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&encoded); err != nil || encoded.Base64 == nil {
			break
		}
		raw, err := base64.StdEncoding.DecodeString(*encoded.Base64)
		if err != nil {
			return err
		}
		*b = raw
		return nil
	}
	return fmt.Errorf(`a key or value is null, a string or {"base64":"..."}, not %.40s`, data)
}
