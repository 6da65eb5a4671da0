package config

import (
	"fmt"
	"strconv"

	"weir/internal/kafka"
)

// Origin says where a setting was made. The later kinds win.
type Origin struct {
	Kind OriginKind
	Name string // the file or the environment variable
	Line int    // in the file, from 1
}

// OriginKind is a place where settings are made, in the order of precedence.
type OriginKind int8

const (
	FromFile     OriginKind = 1 // server.properties
	FromEnv      OriginKind = 2 // KAFKA_*, WEIR_*
	FromOverride OriginKind = 3 // --override
	FromFlag     OriginKind = 4 // --listen, --data-dir, --http
)

// String gives what leads the operator there: server.properties:12, KAFKA_LISTENERS, --listen.
func (o Origin) String() string {
	switch o.Kind {
	case FromFile:
		return o.Name + ":" + strconv.Itoa(o.Line)
	default:
		return o.Name
	}
}

// Setting is one value as the operator gave it.
type Setting struct {
	Name, Value string
	Origin      Origin
}

// Shown is the value fit for screens and logs: that of a password, or of a name that no table has, is hidden.
func (s Setting) Shown() string {
	if d, ok := LookupBroker(s.Name); !ok || d.Type.sensitive() {
		return hidden
	}
	return s.Value
}

const hidden = "[hidden]"

// SettingError is a setting that the server cannot start with.
type SettingError struct {
	Setting Setting
	Reason  string
	Allowed string // empty where Reason says it
}

// Error names place, name, value, reason and what is allowed, in one line.
func (e *SettingError) Error() string {
	value := e.Setting.Value
	if d, ok := LookupBroker(e.Setting.Name); ok && d.Type.sensitive() {
		value = hidden
	}
	s := fmt.Sprintf("%s: %s=%s: %s", e.Setting.Origin, e.Setting.Name, value, e.Reason)
	if e.Setting.Origin.Kind == 0 {
		s = fmt.Sprintf("%s: %s", e.Setting.Name, e.Reason) // nobody set it: the default does not do here
	}
	if e.Allowed != "" {
		s += " (allowed: " + e.Allowed + ")"
	}
	return s
}

// Code is INVALID_CONFIG.
func (e *SettingError) Code() kafka.Code { return kafka.InvalidConfig }

// FileError is a properties file, or a line of one, that cannot be read.
type FileError struct {
	Path string
	Line int // 0: the file as a whole
	Err  error
}

// Error names the place and the reason in one line.
func (e *FileError) Error() string {
	if e.Line == 0 {
		return e.Err.Error() // of os.ReadFile, which names the path itself
	}
	return e.Path + ":" + strconv.Itoa(e.Line) + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }
