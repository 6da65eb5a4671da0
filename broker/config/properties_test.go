package config

import (
	"strings"
	"testing"
)

func TestParseProperties(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		want []property
	}{
		"separators": {"a=1\nb:2\nc 3\nd\t=\t4\ne = : 5\nf\n", []property{
			{"a", "1", 1}, {"b", "2", 2}, {"c", "3", 3}, {"d", "4", 4}, {"e", ": 5", 5}, {"f", "", 6}}},
		"comments": {"# no\n  ! no\n\n \t\na=1 # part of the value\n", []property{{"a", "1 # part of the value", 5}}},
		"continuation": {"a=1,\\\n   2,\\\n\t# 3\nb=x\\\\\nc=y\\\\\\\n z\n", []property{
			{"a", "1,2,# 3", 1}, {"b", "x\\", 4}, {"c", "y\\z", 5}}},
		"continued to the end":           {"a=1\\", []property{{"a", "1", 1}}},
		"a blank line ends continuation": {"a=1\\\n\nb=2", []property{{"a", "1", 1}, {"b", "2", 3}}},
		"line ends":                      {"a=1\rb=2\r\nc=3\n\rd=4", []property{{"a", "1", 1}, {"b", "2", 2}, {"c", "3", 3}, {"d", "4", 5}}},
		"escapes": {`a\ b\=c\:d=\t\n\r\f\q\\` + "\n" + `u=\u0041\u00e9\uD83D\uDE00\ud83d!`, []property{
			{"a b=c:d", "\t\n\r\fq\\", 1}, {"u", "A\u00e9\U0001F600\uFFFD!", 2}}},
		"utf-8":           {"dir=/d\u00e4ta", []property{{"dir", "/d\u00e4ta", 1}}},
		"trailing blanks": {"a=1  \n", []property{{"a", "1  ", 1}}},
		"leading blanks":  {" \t a=1", []property{{"a", "1", 1}}},
		"empty key":       {"=x", []property{{"", "x", 1}}},
		"a slash alone":   {"\\\n#a=1\n\\\n\nb=\\\n#2\n\\", []property{{"b", "#2", 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, line, err := parseProperties(c.data)
			if err != nil {
				t.Fatal(line, err)
			}
			equal(t, got, c.want)
		})
	}
}

func TestParsePropertiesRefusesHalfAnEscape(t *testing.T) {
	for _, data := range []string{`b=\u12`, `b=\u12g4`, `b=\u`, `b\u00=1`, `b=\u+123`} {
		if _, line, err := parseProperties("a=1\n" + data); err == nil || line != 2 {
			t.Errorf("%s: line %d, %v", data, line, err)
		}
	}
}

func FuzzParseProperties(f *testing.F) {
	for _, seed := range []string{"", "a=1", "a\\\n b", "\\", "\\u", `\u0041=\uD83D\uDE00`, "#\r\n!\r=", "a:b=c d", "a =\\\r\n\t# \\\\\\"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data string) {
		properties, badLine, err := parseProperties(data)
		lines := 1 + strings.Count(data, "\n") + strings.Count(data, "\r")
		if err != nil && (badLine < 1 || badLine > lines) {
			t.Fatalf("error in line %d of %d", badLine, lines)
		}
		last := 0
		for _, p := range properties {
			if p.line <= last || p.line > lines {
				t.Fatalf("line %d after %d of %d", p.line, last, lines)
			}
			last = p.line
			// What was read can be written, and reads as the same again.
			again, _, err := parseProperties(escapeProperty(p.key) + "=" + escapeProperty(p.value))
			if err != nil || len(again) != 1 || again[0].key != p.key || again[0].value != p.value {
				t.Fatalf("%q=%q came back as %v, %v", p.key, p.value, again, err)
			}
		}
	})
}

// escapeProperty writes a key or a value so that nothing in it has a meaning.
func escapeProperty(s string) string {
	var b strings.Builder
	for i := range len(s) {
		switch c := s[i]; {
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case strings.ContainsRune(" \t\f\\=:#!", rune(c)):
			b.Write([]byte{'\\', c})
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
