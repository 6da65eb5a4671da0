package config

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// property is one entry of a properties file.
type property struct {
	key, value string
	line       int // of the first line, from 1
}

var errUnicodeEscape = errors.New(`\u is not followed by four hexadecimal digits`)

// parseProperties reads the format of java.util.Properties: comments with # or !, keys that end at =, : or a blank,
// lines continued by a backslash, escapes. Bytes beyond ASCII are kept as they are, so a file in UTF-8 means what its
// author sees; Java reads Latin-1. The error, if any, is for the line returned.
func parseProperties(data string) (properties []property, badLine int, err error) {
	line := 0
	for data != "" {
		var natural string
		natural, data = cutLine(data)
		line++
		logical := strings.TrimLeft(natural, propertyBlanks)
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
			logical += strings.TrimLeft(natural, propertyBlanks)
		}
		rawKey, rawValue := splitProperty(logical)
		key, err := unescapeProperty(rawKey)
		if err != nil {
			return nil, first, err
		}
		value, err := unescapeProperty(rawValue)
		if err != nil {
			return nil, first, err
		}
		properties = append(properties, property{key, value, first})
	}
	return properties, 0, nil
}

const propertyBlanks = " \t\f"

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

// splitProperty cuts at the first =, : or blank that is not escaped; blanks about one = or : go with it.
func splitProperty(logical string) (key, value string) {
	i := 0
	for i < len(logical) && !strings.ContainsRune("=:"+propertyBlanks, rune(logical[i])) {
		if logical[i] == '\\' {
			i++
		}
		i++
	}
	i = min(i, len(logical))
	key, value = logical[:i], strings.TrimLeft(logical[i:], propertyBlanks)
	if value != "" && (value[0] == '=' || value[0] == ':') {
		value = strings.TrimLeft(value[1:], propertyBlanks)
	}
	return key, value
}

// unescapeProperty undoes \t, \n, \r, \f and \uXXXX; a backslash before anything else is dropped.
func unescapeProperty(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
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
				return "", errUnicodeEscape
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
	return b.String(), nil
}

// unicodeEscape reads \uXXXX at the head of s.
func unicodeEscape(s string) (rune, bool) {
	if len(s) < 6 || s[:2] != `\u` {
		return 0, false
	}
	n, err := strconv.ParseUint(s[2:6], 16, 16) // a sign or an underscore is not taken at this base
	return rune(n), err == nil
}
