// Package kafka holds the nouns that every other package speaks of: topic-partitions, topic ids, broker ids, the kinds
// of epoch and the protocol's error codes.
//
// It knows no wire format and no state: value types only, safe for concurrent use and fit to be map keys. Kinds of
// number that must not be mixed up are kinds of type; offsets are plain int64 whose names say which offset they are.
package kafka
