package config

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"weir/internal/kafka"
)

// value is one parsed value; typ says which field counts.
type value struct {
	typ  Type
	num  int64 // Int, Short, Long; Boolean: 1 is true
	dbl  float64
	str  string // String, Class, Password
	list []string
}

// InvalidValueError is a value that its config does not take.
type InvalidValueError struct {
	Name, Value, Reason string
}

// Error gives Kafka's text.
func (e *InvalidValueError) Error() string {
	return "Invalid value " + e.Value + " for configuration " + e.Name + ": " + e.Reason
}

// Code is INVALID_CONFIG.
func (e *InvalidValueError) Code() kafka.Code { return kafka.InvalidConfig }

// parseValue reads raw as Kafka's ConfigDef does: with Java's idea of blanks and of numbers.
func parseValue(name, raw string, typ Type) (value, error) {
	v := value{typ: typ}
	s := javaTrim(raw)
	ok := true
	switch typ {
	case Boolean:
		switch {
		case strings.EqualFold(s, "true"):
			v.num = 1
		case !strings.EqualFold(s, "false"):
			return value{}, &InvalidValueError{name, raw, "Expected value to be either true or false"}
		}
	case Int:
		v.num, ok = javaInteger(s, 32)
	case Short:
		v.num, ok = javaInteger(s, 16)
	case Long:
		v.num, ok = javaInteger(s, 64)
	case Double:
		v.dbl, ok = javaDouble(s)
	case List:
		v.list = splitList(s)
	default:
		v.str = s
	}
	if !ok {
		return value{}, &InvalidValueError{name, raw, "Not a number of type " + typ.String()}
	}
	return v, nil
}

// text gives the value as DescribeConfigs shows it, which is not always as it was written.
func (v value) text() string {
	switch v.typ {
	case Boolean:
		return strconv.FormatBool(v.num == 1)
	case Int, Short, Long:
		return strconv.FormatInt(v.num, 10)
	case Double:
		return formatDouble(v.dbl)
	case List:
		return strings.Join(v.list, ",")
	default:
		return v.str
	}
}

// javaTrim is String.trim: everything up to the blank, so also control characters, and no other kind of space.
func javaTrim(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}

// javaInteger is Integer.parseInt and its like: a sign, decimal digits, nothing else.
func javaInteger(s string, bits int) (int64, bool) {
	n, err := strconv.ParseInt(s, 10, bits) // base 10 takes no underscores and no prefixes
	return n, err == nil
}

// javaDouble is Double.parseDouble: Go's grammar less underscores and short words for infinity, plus a type suffix.
// What is too large is an infinity, as in Java, and left to the validator.
func javaDouble(s string) (float64, bool) {
	switch strings.TrimLeft(s, "+-") {
	case "NaN", "Infinity":
		f, err := strconv.ParseFloat(s, 64)
		return f, err == nil
	}
	hex := strings.Contains(s, "0x") || strings.Contains(s, "0X")
	if strings.ContainsFunc(s, func(r rune) bool { return !isDoubleLetter(r, hex) }) {
		return 0, false
	}
	if n := len(s); n > 0 && strings.ContainsRune("fFdD", rune(s[n-1])) && (!hex || strings.ContainsAny(s, "pP")) {
		s = s[:n-1]
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}

func isDoubleLetter(r rune, hex bool) bool {
	return '0' <= r && r <= '9' || strings.ContainsRune("+-.eEfFdD", r) || hex && strings.ContainsRune("xXpPabcABC", r)
}

// formatDouble is Double.toString: plain from a thousandth to ten million, else with E, and always with a fraction.
func formatDouble(f float64) string {
	switch abs := math.Abs(f); {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case abs != 0 && (abs < 1e-3 || abs >= 1e7):
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'E', -1, 64), "E")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		n, _ := strconv.Atoi(exponent)
		return mantissa + "E" + strconv.Itoa(n)
	default:
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
}

// splitList cuts at commas and the blanks about them. A name that stands twice counts once, as in Kafka 4.2 and later;
// elements that are empty stay, for the validator to judge.
func splitList(s string) []string {
	if s == "" {
		return nil
	}
	var list []string
	seen := make(map[string]bool)
	for element := range strings.SplitSeq(s, ",") {
		element = strings.TrimFunc(element, isJavaSpace)
		if !seen[element] {
			seen[element] = true
			list = append(list, element)
		}
	}
	return list
}

// dropEmpty takes empty elements out of a list.
func dropEmpty(raw string) string {
	return strings.Join(slices.DeleteFunc(splitList(javaTrim(raw)), func(s string) bool { return s == "" }), ",")
}

// isJavaSpace is \s of java.util.regex.
func isJavaSpace(r rune) bool {
	return r == ' ' || '\t' <= r && r <= '\r'
}
