package config

import (
	"slices"
	"strconv"
	"strings"

	"weir/internal/kafka"
)

// Validator narrows the values of a type. Its errors carry Kafka's texts.
type Validator interface {
	// String describes the valid values in the notation of Kafka's documentation.
	String() string
	check(name string, v value) error
}

// span is a range of numbers, the ends included. Kafka compares as double, whatever the type.
type span struct {
	min, max       float64
	hasMin, hasMax bool
}

func atLeast(n float64) Validator        { return span{min: n, hasMin: true} }
func between(min, max float64) Validator { return span{min: min, max: max, hasMin: true, hasMax: true} }

func (s span) String() string {
	if s.hasMax {
		return "[" + bound(s.min) + ",...," + bound(s.max) + "]"
	}
	return "[" + bound(s.min) + ",...]"
}

func bound(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func (s span) check(name string, v value) error {
	n := v.dbl
	if v.typ != Double {
		n = float64(v.num)
	}
	// Written so that NaN passes, as it does in Kafka.
	if s.hasMin && n < s.min {
		return &InvalidValueError{name, v.text(), "Value must be at least " + bound(s.min)}
	}
	if s.hasMax && n > s.max {
		return &InvalidValueError{name, v.text(), "Value must be no more than " + bound(s.max)}
	}
	return nil
}

// gzipLevel is 1 to 9, or -1 for the library's own choice.
type gzipLevel struct{}

func (gzipLevel) String() string { return "[1,...,9] or -1" }

func (gzipLevel) check(name string, v value) error {
	if v.num == -1 || 1 <= v.num && v.num <= 9 {
		return nil
	}
	return &InvalidValueError{name, v.text(), "Value must be between 1 and 9 or equal to -1"}
}

// oneOfNumbers is a fixed set of numbers.
type oneOfNumbers []int64

func (o oneOfNumbers) String() string {
	words := make([]string, len(o))
	for i, n := range o {
		words[i] = strconv.FormatInt(n, 10)
	}
	return "[" + strings.Join(words, ", ") + "]"
}

func (o oneOfNumbers) check(name string, v value) error {
	if slices.Contains(o, v.num) {
		return nil
	}
	return &InvalidValueError{name, v.text(), "Value must be one of: " + strings.Trim(o.String(), "[]")}
}

// oneOf is a fixed set of words.
type oneOf []string

func (o oneOf) String() string { return "[" + strings.Join(o, ", ") + "]" }

func (o oneOf) check(name string, v value) error {
	if slices.Contains(o, v.str) {
		return nil
	}
	return &InvalidValueError{name, v.str, "String must be one of: " + strings.Join(o, ", ")}
}

// oneOfFold is a fixed set of words, written in capitals, that may be given in any case.
type oneOfFold []string

func (o oneOfFold) String() string { return "(case insensitive) [" + strings.Join(o, ", ") + "]" }

func (o oneOfFold) check(name string, v value) error {
	if slices.Contains(o, strings.ToUpper(v.str)) {
		return nil
	}
	return &InvalidValueError{name, v.str, "String must be one of (case insensitive): " + strings.Join(o, ", ")}
}

// listOf is a list, of certain words where words is not nil. Kafka checks the list as a whole before its elements.
type listOf struct {
	words    []string
	nonEmpty bool
}

func (l listOf) String() string {
	if l.words == nil {
		return ""
	}
	return oneOf(l.words).String()
}

func (l listOf) check(name string, v value) error {
	if l.nonEmpty && len(v.list) == 0 {
		valid := "any non-empty value"
		if l.words != nil {
			valid = l.String()
		}
		return kafka.Errorf(kafka.InvalidConfig, "Configuration '%s' must not be empty. Valid values include: %s", name, valid)
	}
	for _, element := range v.list {
		if element == "" {
			return kafka.Errorf(kafka.InvalidConfig, "Configuration '%s' values must not be empty.", name)
		}
		if l.words != nil {
			if err := oneOf(l.words).check(name, value{str: element}); err != nil {
				return err
			}
		}
	}
	return nil
}

// throttledReplicas is '*' or partition:broker pairs; an empty element does no harm in Kafka either.
type throttledReplicas struct{}

const throttledReplicasForm = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."

func (throttledReplicas) String() string { return throttledReplicasForm }

func (throttledReplicas) check(name string, v value) error {
	if strings.Join(v.list, "") == "*" || !slices.ContainsFunc(v.list, func(s string) bool { return !isThrottledReplica(s) }) {
		return nil
	}
	return &InvalidValueError{name, "[" + strings.Join(v.list, ", ") + "]",
		name + " must be the literal '*' or a list of replicas in the following format: " + throttledReplicasForm}
}

func isThrottledReplica(s string) bool {
	partition, broker, ok := strings.Cut(s, ":")
	return s == "" || ok && isDigits(partition) && isDigits(broker)
}

func isDigits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r < '0' || r > '9' })
}

// nonEmpty is any string but the empty one.
type nonEmpty struct{}

func (nonEmpty) String() string { return "non-empty string" }

func (nonEmpty) check(name string, v value) error {
	if v.str == "" {
		return &InvalidValueError{name, v.str, "String must be non-empty"}
	}
	return nil
}
