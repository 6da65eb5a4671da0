// Package properties reads and writes the format of java.util.Properties, which Kafka keeps settings and the identity of
// its data directories in. It does no I/O and has no state.
package properties

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Property is one entry.
type Property struct {
	Key, Value string
	Line       int // its first one, from 1
}

// SyntaxError is a line that cannot be read.
type SyntaxError struct {
	Line   int // from 1
	Reason string
}

// Error names the line and the reason.
func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Reason) }

// Parse reads the entries in their order: comments with # or !, keys that end at =, : or a blank, lines continued by a
// backslash, escapes. Bytes beyond ASCII are kept as they are, so that a file in UTF-8 means what its author sees; Java
// reads Latin-1. The error is a *SyntaxError.
func Parse(data string) ([]Property, error) {
	var properties []Property
	line := 0
	for data != "" {
		var natural string
		natural, data = cutLine(data)
		line++
		logical := strings.TrimLeft(natural, blanks)
		if logical == "" || logical == `\` || logical[0] == '#' || logical[0] == '!' {
			continue // a backslash alone continues nothing: the next line may be a comment again
		}
		first := line
		for continued(logical) {
			logical = logical[:len(logical)-1]
			if data == "" {
				break
			}
			natural, data = cutLine(data)
			line++
			logical += strings.TrimLeft(natural, blanks)
		}
		rawKey, rawValue := split(logical)
		key, keyOK := unescape(rawKey)
		value, valueOK := unescape(rawValue)
		if !keyOK || !valueOK {
			return nil, &SyntaxError{first, `\u is not followed by four hexadecimal digits`}
		}
		properties = append(properties, Property{key, value, first})
	}
	return properties, nil
}

// Append adds the line of one entry to b, as Java writes it but for letters beyond ASCII, which stay as they are.
func Append(b []byte, key, value string) []byte {
	b = appendEscaped(b, key, true)
	b = append(b, '=')
	b = appendEscaped(b, value, false)
	return append(b, '\n')
}

func appendEscaped(b []byte, s string, isKey bool) []byte {
	for i, c := range []byte(s) {
		switch {
		case c == ' ' && (isKey || i == 0), strings.IndexByte(`\=:#!`, c) >= 0:
			b = append(b, '\\', c)
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case c == '\f':
			b = append(b, `\f`...)
		default:
			b = append(b, c)
		}
	}
	return b
}

const blanks = " \t\f"

// cutLine takes off the first natural line; it ends with \n, \r, both, or the file.
func cutLine(data string) (line, rest string) {
	i := strings.IndexAny(data, "\r\n")
	if i < 0 {
		return data, ""
	}
	line, rest = data[:i], data[i+1:]
	if data[i] == '\r' {
		rest = strings.TrimPrefix(rest, "\n")
	}
	return line, rest
}

// continued reports whether a line ends with a backslash that is not itself escaped.
func continued(line string) bool {
	n := len(line) - len(strings.TrimRight(line, `\`))
	return n%2 == 1
}

// split cuts at the first =, : or blank that is not escaped; blanks about one = or : go with it.
func split(logical string) (key, value string) {
	i := 0
	for i < len(logical) && !strings.ContainsRune("=:"+blanks, rune(logical[i])) {
		if logical[i] == '\\' {
			i++
		}
		i++
	}
	i = min(i, len(logical))
	key, value = logical[:i], strings.TrimLeft(logical[i:], blanks)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], blanks)
	}
	return key, value
}

// unescape undoes \t, \n, \r, \f and \uXXXX; a backslash before anything else is dropped. ok is false where \u has no
// number.
func unescape(s string) (text string, ok bool) {
	if !strings.Contains(s, `\`) {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b.WriteByte(s[i])
			continue
		}
		i++
		if i == len(s) {
			break
		}
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
			r, ok := unicodeEscape(s[i-1:])
			if !ok {
				return "", false
			}
			i += 4
			if utf16.IsSurrogate(r) { // a pair is two escapes in a row
				low, _ := unicodeEscape(s[i+1:])
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			b.WriteRune(r)
		default:
			b.WriteByte(s[i])
		}
	}
	return b.String(), true
}

// unicodeEscape reads \uXXXX at the head of s.
func unicodeEscape(s string) (rune, bool) {
	if len(s) < 6 || s[:2] != `\u` {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16) // a sign or an underscore is not taken at this base
	return rune(n), err == nil
}
