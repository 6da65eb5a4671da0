package main

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

func TestJSONRecordRoundTrips(t *testing.T) {
	at := time.UnixMilli(1767323045678)
	for name, r := range map[string]*kgo.Record{
		"text":      {Key: []byte("k"), Value: []byte("v")},
		"null":      {},
		"empty":     {Key: []byte{}, Value: []byte{}},
		"binary":    {Key: []byte{0xff, 0xfe}, Value: []byte{0, 1, 0x80}},
		"markup":    {Value: []byte("<a & b>\u2028\"\\\n")},
		"unnatural": {Value: []byte(`{"base64":"aGVsbG8="}`)},
		"headers": {Value: []byte("v"), Headers: []kgo.RecordHeader{
			{Key: "a", Value: []byte("1")}, {Key: "a", Value: nil}, {Key: "", Value: []byte{0xff}},
		}},
		"placed": {Partition: 7, Value: []byte("v")},
	} {
		r.Timestamp = at
		var line bytes.Buffer
		if err := writeJSON(&line, newJSONRecord(r)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := bytes.Count(line.Bytes(), []byte("\n")); n != 1 {
			t.Errorf("%s: %d newlines in %q", name, n, line.String())
		}
		back, err := parseJSONRecord(line.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !reflect.DeepEqual(back, r) {
			t.Errorf("%s: %s came back as %+v, want %+v", name, line.String(), back, r)
		}
	}
}

func TestJSONIsWrittenAsPeopleReadIt(t *testing.T) {
	var line bytes.Buffer
	r := &kgo.Record{
		Topic: "orders", Partition: 1, Offset: 42, Timestamp: time.UnixMilli(5),
		Key: nil, Value: []byte("<v>"), Headers: []kgo.RecordHeader{{Key: "h", Value: []byte{0xff}}},
	}
	if err := writeJSON(&line, newJSONRecord(r)); err != nil {
		t.Fatal(err)
	}
	want := `{"topic":"orders","partition":1,"offset":42,"timestamp":5,"key":null,"value":"<v>","headers":[{"key":"h","value":{"base64":"/w=="}}]}` + "\n"
	if line.String() != want {
		t.Errorf("%swant %s", line.String(), want)
	}
}

func TestParseJSONRecordRefuses(t *testing.T) {
	for line, want := range map[string]string{
		``:                          "empty line",
		`  `:                        "empty line",
		`{"vaule":"x"}`:             "vaule",
		`{"value":1}`:               "a key or value is null, a string",
		`{"value":{"base64":1}}`:    "a key or value is null, a string",
		`{"value":{}}`:              "a key or value is null, a string",
		`{"value":{"base64":"?"}}`:  "illegal base64",
		`{"value":"x"} {}`:          "something follows",
		`{"value":"x"}}`:            "something follows",
		`["x"]`:                     "cannot unmarshal",
		`{"value":"x"`:              "unexpected EOF",
		`{"headers":[{"key":null]}`: "invalid character",
	} {
		if r, err := parseJSONRecord([]byte(line)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v; want an error with %q", line, r, err, want)
		}
	}
}

// What is read once is written and read again without a change.
func FuzzParseJSONRecord(f *testing.F) {
	for _, seed := range []string{
		`{"value":"x"}`, `{"key":null,"value":{"base64":"/w=="},"timestamp":-1}`, `{"headers":[{"key":"a","value":"b"}]}`,
		`{"value":"\ud800"}`, `{"timestamp":9223372036854775807}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		r, err := parseJSONRecord(line)
		if err != nil {
			return
		}
		var first, second bytes.Buffer
		if err := writeJSON(&first, newJSONRecord(r)); err != nil {
			t.Fatal(err)
		}
		again, err := parseJSONRecord(first.Bytes())
		if err != nil {
			t.Fatalf("%s: %v", first.String(), err)
		}
		if err := writeJSON(&second, newJSONRecord(again)); err != nil {
			t.Fatal(err)
		}
		if first.String() != second.String() {
			t.Errorf("%q became %q and then %q", line, first.String(), second.String())
		}
	})
}
