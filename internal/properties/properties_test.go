package properties

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want []Property
	}{
		"separators": {"a=1\nb:2\nc 3\nd\t=\t4\ne = : 5\nf\n", []Property{
			{"a", "1", 1}, {"b", "2", 2}, {"c", "3", 3}, {"d", "4", 4}, {"e", ": 5", 5}, {"f", "", 6}}},
		"comments": {"# no\n  ! no\n\n \t\na=1 # part of the value\n", []Property{{"a", "1 # part of the value", 5}}},
		"continuation": {"a=1,\\\n   2,\\\n\t# 3\nb=x\\\\\nc=y\\\\\\\n z\n", []Property{
			{"a", "1,2,# 3", 1}, {"b", "x\\", 4}, {"c", "y\\z", 5}}},
		"continued to the end":           {"a=1\\", []Property{{"a", "1", 1}}},
		"a blank line ends continuation": {"a=1\\\n\nb=2", []Property{{"a", "1", 1}, {"b", "2", 3}}},
		"line ends":                      {"a=1\rb=2\r\nc=3\n\rd=4", []Property{{"a", "1", 1}, {"b", "2", 2}, {"c", "3", 3}, {"d", "4", 5}}},
		"escapes": {`a\ b\=c\:d=\t\n\r\f\q\\` + "\n" + `u=\u0041\u00e9\uD83D\uDE00\ud83d!`, []Property{
			{"a b=c:d", "\t\n\r\fq\\", 1}, {"u", "A\u00e9\U0001F600\uFFFD!", 2}}},
		"utf-8":           {"dir=/d\u00e4ta", []Property{{"dir", "/d\u00e4ta", 1}}},
		"trailing blanks": {"a=1  \n", []Property{{"a", "1  ", 1}}},
		"leading blanks":  {" \t a=1", []Property{{"a", "1", 1}}},
		"empty key":       {"=x", []Property{{"", "x", 1}}},
		"a slash alone":   {"\\\n#a=1\n\\\n\nb=\\\n#2\n\\", []Property{{"b", "#2", 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Parse(c.data)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestParseRefusesHalfAnEscape(t *testing.T) {
	for _, data := range []string{`b=\u12`, `b=\u12g4`, `b=\u`, `b\u00=1`, `b=\u+123`} {
		_, err := Parse("a=1\n" + data)
		var bad *SyntaxError
		if !errors.As(err, &bad) || bad.Line != 2 {
			t.Errorf("%s: %v", data, err)
		}
	}
}

// As java.util.Properties.store of JDK 21 writes them.
func TestAppend(t *testing.T) {
	for _, c := range [][3]string{
		{"a", "b", "a=b\n"},
		{"a b", " b c ", `a\ b=\ b c ` + "\n"},
		{"#a", "b=c:d!e#f", `\#a=b\=c\:d\!e\#f` + "\n"},
		{"", "\t\n\r\f\\", `=\t\n\r\f\\` + "\n"},
	} {
		if got := string(Append(nil, c[0], c[1])); got != c[2] {
			t.Errorf("%q: %q, want %q", c[:2], got, c[2])
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "a=1", "a\\\n b", "\\", "\\u", `\u0041=\uD83D\uDE00`, "#\r\n!\r=", "a:b=c d", "a =\\\r\n\t# \\\\\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		properties, err := Parse(data)
		lines := 1 + strings.Count(data, "\n") + strings.Count(data, "\r")
		if bad := (*SyntaxError)(nil); errors.As(err, &bad) && (bad.Line < 1 || bad.Line > lines) {
			t.Fatalf("error in line %d of %d", bad.Line, lines)
		}
		last := 0
		for _, p := range properties {
			if p.Line <= last || p.Line > lines {
				t.Fatalf("line %d after %d of %d", p.Line, last, lines)
			}
			last = p.Line
			// What was read can be written, and reads as the same again.
			again, err := Parse(string(Append(nil, p.Key, p.Value)))
			if err != nil || len(again) != 1 || again[0].Key != p.Key || again[0].Value != p.Value {
				t.Fatalf("%q=%q came back as %v, %v", p.Key, p.Value, again, err)
			}
		}
	})
}
