package protocol

import (
	"math"
	"reflect"
)

// maxString is how many bytes a string of the protocol may have, also where its length is a varint. Kafka refuses longer
// ones; what is made of them (records of groups, answers of older versions) has two bytes for the length.
const maxString = math.MaxInt16

// stringFields are, of the structs that requests are made of, the fields that hold strings, or structs that do. It is
// filled with the table and never changed.
var stringFields = make(map[reflect.Type][]int)

// noteStrings adds a type to stringFields and reports whether it holds strings.
func noteStrings(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String:
		return true
	case reflect.Pointer, reflect.Slice:
		return noteStrings(t.Elem())
	case reflect.Struct:
		var fields []int
		for i := range t.NumField() {
			if noteStrings(t.Field(i).Type) {
				fields = append(fields, i)
			}
		}
		if fields != nil {
			stringFields[t] = fields
		}
		return fields != nil
	}
	return false
}

// hasLongString reports whether a string in a message, which noteStrings has seen, is longer than one may be.
func hasLongString(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.String:
		return v.Len() > maxString
	case reflect.Pointer:
		return !v.IsNil() && hasLongString(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if hasLongString(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		for _, i := range stringFields[v.Type()] {
			if hasLongString(v.Field(i)) {
				return true
			}
		}
	}
	return false
}
