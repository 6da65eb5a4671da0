package kafka

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTopicNames(t *testing.T) {
	for _, name := range []string{"a", "A.b_c-9", strings.Repeat("x", 249), "...", "__consumer_offsets"} {
		if err := ValidateTopicName(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", ".", "..", strings.Repeat("x", 250), "a b", "a/b", "../x", "ä", "a\x00", "a\n"} {
		err := ValidateTopicName(name)
		if CodeOf(err) != InvalidTopic || !strings.HasPrefix(err.Error(), "Topic name is invalid: ") {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestCollisionKey(t *testing.T) {
	if CollisionKey("a.b_c") != CollisionKey("a_b.c") || CollisionKey("ab") == CollisionKey("a.b") {
		t.Fatal("names collide where only . and _ differ")
	}
}

func TestUUIDText(t *testing.T) {
	for range 1000 {
		u := NewUUID()
		back, err := ParseUUID(u.String())
		if err != nil || back != u || len(u.String()) != 22 || u.String()[0] == '-' {
			t.Fatalf("%v became %v, %v", u, back, err)
		}
	}
	if got := MetadataTopicID.String(); got != "AAAAAAAAAAAAAAAAAAAAAQ" {
		t.Fatalf("the id of the metadata topic is %s", got)
	}
	for _, s := range []string{"", "AAAA", strings.Repeat("A", 23), strings.Repeat("!", 22)} {
		if _, err := ParseUUID(s); err == nil {
			t.Errorf("%q was taken for an id", s)
		}
	}
}

func TestUUIDInJSON(t *testing.T) {
	type ids struct {
		One  UUID
		Many []UUID
	}
	want := ids{NewUUID(), []UUID{{}, MetadataTopicID}}
	text, err := json.Marshal(want)
	if err != nil || !strings.Contains(string(text), `"One":"`+want.One.String()+`"`) {
		t.Fatalf("%s, %v", text, err)
	}
	var got ids
	if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%s became %+v, %v", text, got, err)
	}
	got.One = want.One
	if err := json.Unmarshal([]byte(`{"One":"AAAA"}`), &got); err == nil || got.One != want.One {
		t.Fatalf("AAAA became %v, %v", got.One, err)
	}
}

func TestCodeOf(t *testing.T) {
	if c := CodeOf(nil); c != None {
		t.Errorf("nil: %v", c)
	}
	if c := CodeOf(errors.New("x")); c != UnknownServerError {
		t.Errorf("an error without a code: %v", c)
	}
	if c := CodeOf(fmt.Errorf("wrapped: %w", Errorf(OffsetOutOfRange, ""))); c != OffsetOutOfRange {
		t.Errorf("a wrapped code: %v", c)
	}
	if got := Errorf(OffsetOutOfRange, "").Error(); got != "OFFSET_OUT_OF_RANGE" {
		t.Errorf("the default message is %q", got)
	}
	if got := Code(9999).String(); got != "ERROR_9999" {
		t.Errorf("an unknown code is %q", got)
	}
}

func TestLogLinesAreReadable(t *testing.T) {
	var b strings.Builder
	slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "tp", TopicPartition{"orders", 3}, "id", MetadataTopicID, "code", OffsetOutOfRange)
	for _, want := range []string{`"tp":"orders-3"`, `"id":"AAAAAAAAAAAAAAAAAAAAAQ"`, `"code":"OFFSET_OUT_OF_RANGE"`} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%s is not in %s", want, b.String())
		}
	}
}

func TestTextFitsAnAnswer(t *testing.T) {
	for _, s := range []string{"", "short", strings.Repeat("x", 40_000), strings.Repeat("ä", 20_000)} {
		got := Text(s)
		if len(got) > 32_767 || !strings.HasPrefix(s, got) || !utf8.ValidString(got) || len(got) < min(len(s), 32_766) {
			t.Errorf("%d bytes become %d", len(s), len(got))
		}
	}
}
