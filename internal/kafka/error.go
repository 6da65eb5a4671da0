package kafka

import (
	"errors"
	"fmt"
	"math"
	"strings"
)

// Coder is an error that knows its code of the protocol. Typed errors of every package implement it, so that the
// mapping from errors to codes needs no import upwards.
type Coder interface {
	error
	Code() Code
}

// Error is a code with a message: what a request is answered with.
type Error struct {
	code    Code
	message string
}

// Errorf makes an Error. An empty format leaves the code's name as the message.
func Errorf(code Code, format string, args ...any) *Error {
	if format == "" {
		return &Error{code: code, message: code.String()}
	}
	return &Error{code: code, message: fmt.Sprintf(format, args...)}
}

// Error returns the message alone; it is what users read and search for.
func (e *Error) Error() string { return e.message }

// Code returns the protocol's code.
func (e *Error) Code() Code { return e.code }

// Text makes an error's text fit for an answer: strings of versions without tagged fields have 32,767 bytes at most, and a
// text may repeat what a client sent.
func Text(s string) string {
	if len(s) > math.MaxInt16 {
		s = strings.ToValidUTF8(s[:math.MaxInt16], "")
	}
	return s
}

// CodeOf finds the code in err's chain: None for nil, UnknownServerError where nothing in the chain has one.
func CodeOf(err error) Code {
	if err == nil {
		return None
	}
	var c Coder
	if errors.As(err, &c) {
		return c.Code()
	}
	return UnknownServerError
}
