package config

import (
	"math"
	"strings"
	"testing"
	"unicode"
)

// Checked against java.lang.Double: parseDouble and toString.
func TestDoubles(t *testing.T) {
	for raw, want := range map[string]string{
		"1e400": "Infinity", "1e7": "1.0E7", "12345678": "1.2345678E7", "0.0001": "1.0E-4", "100": "100.0", "-Infinity": "-Infinity",
		".5": "0.5", "5.": "5.0", "5d": "5.0", "1e-5": "1.0E-5", "123456789012345678": "1.2345678901234568E17", "9999999": "9999999.0",
		"10000000": "1.0E7", "0.001": "0.001", "-0": "-0.0", "0x1.8p1": "3.0", "0x1.8p1d": "3.0", "NaN": "NaN", "0.5f": "0.5",
		"1.7976931348623157E308": "1.7976931348623157E308",
	} {
		f, ok := javaDouble(raw)
		if got := formatDouble(f); !ok || got != want {
			t.Errorf("%s: %s %v, want %s", raw, got, ok, want)
		}
	}
	for _, raw := range []string{"", "inf", "nan", "infinity", "1_0", "x", "0x1.8", "0x", "1e", "f", "--1", "1f2", "0x_1p1", "0b1"} {
		if f, ok := javaDouble(raw); ok {
			t.Errorf("%q is taken as %v", raw, f)
		}
	}
}

func FuzzParseValue(f *testing.F) {
	for _, seed := range []string{"", " 1 ", "-9223372036854775808", "true", "a, b,,a", "0x1p-1f", "\u00a01", "1e999", "\x00"} {
		f.Add(seed, int8(Double))
		f.Add(seed, int8(List))
		f.Add(seed, int8(Long))
	}
	f.Fuzz(func(t *testing.T, raw string, typ int8) {
		v, err := parseValue("x", raw, Type(typ))
		if err != nil || strings.ContainsFunc(raw, unicode.IsControl) { // those at the end of a list are blanks only the second time
			return
		}
		// What is shown is a value again, and the same one.
		again, err := parseValue("x", v.text(), Type(typ))
		if err != nil || again.text() != v.text() || again.num != v.num || again.dbl != v.dbl && !math.IsNaN(v.dbl) {
			t.Fatalf("%q is shown as %q, which is %q (%v)", raw, v.text(), again.text(), err)
		}
	})
}

func FuzzValidateTopic(f *testing.F) {
	f.Add("cleanup.policy", "compact,delete")
	f.Add("leader.replication.throttled.replicas", "1:2,,3:4")
	f.Add("min.cleanable.dirty.ratio", "NaN")
	f.Add("internal.segment.bytes", "-2147483648")
	f.Fuzz(func(t *testing.T, name, raw string) {
		overrides := map[string]string{name: raw}
		if ValidateTopic(overrides) != nil {
			return
		}
		// What is valid has an effect within its bounds and can be shown.
		s := load(t)
		if got := s.TopicConfig(overrides, nil, nil); got.SegmentBytes < 1 || got.MaxMessageBytes < 0 || got.MinInsyncReplicas < 1 {
			t.Fatalf("%s=%q: %+v", name, raw, got)
		}
		for _, e := range s.DescribeTopic(overrides, nil, nil) {
			if e.Name == name && (e.Value == nil || e.Source != SourceTopic) {
				t.Fatalf("%s=%q is shown as %+v", name, raw, e)
			}
		}
	})
}
