package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

// inputFlags say how bytes become records.
type inputFlags struct {
	format       outputFormat
	layout       string
	keySeparator string
	key          string
	headers      []string
	nullMarker   string
}

func (f *inputFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	f.format = outputText
	flags.VarP(&f.format, "input", "i", "text: a line is a value; json: a line is what consume -o json prints")
	completeWords(cmd, "input", string(outputText), string(outputJSON))
	flags.StringVarP(&f.layout, "format", "f", "", `read records by a layout, such as '%k %v\n'`)
	flags.StringVarP(&f.keySeparator, "key-separator", "K", "", "split each line into key and value at the first `separator`")
	flags.StringVarP(&f.key, "key", "k", "", "the key of every record")
	flags.StringArrayVarP(&f.headers, "header", "H", nil, "a header for every record, `name=value`; repeatable")
	flags.StringVar(&f.nullMarker, "null-marker", "", "a key or value that equals this `text` is sent as null")
}

// reader returns a function that yields records until io.EOF.
func (f *inputFlags) reader(cmd *cobra.Command) (func() (*kgo.Record, error), error) {
	headers, err := parseHeaders(f.headers)
	if err != nil {
		return nil, usageError(err)
	}
	parse, err := f.parser(bufio.NewReader(cmd.InOrStdin()))
	if err != nil {
		return nil, err
	}
	// The empty string is a key, and a marker for empty fields, so only the flag's presence tells.
	keyGiven, markerGiven := cmd.Flags().Changed("key"), cmd.Flags().Changed("null-marker")
	return func() (*kgo.Record, error) {
		r, err := parse()
		if err != nil {
			return nil, err
		}
		if keyGiven {
			r.Key = []byte(f.key)
		}
		if markerGiven {
			r.Key, r.Value = nullIf(r.Key, f.nullMarker), nullIf(r.Value, f.nullMarker)
		}
		r.Headers = append(r.Headers, headers...)
		return r, nil
	}, nil
}

// parser picks the form of the input; at most one may be asked for.
func (f *inputFlags) parser(in *bufio.Reader) (func() (*kgo.Record, error), error) {
	asked := 0
	for _, set := range []bool{f.format == outputJSON, f.layout != "", f.keySeparator != ""} {
		if set {
			asked++
		}
	}
	if asked > 1 {
		return nil, usageErrorf("--input json, --format and --key-separator exclude each other")
	}
	switch {
	case f.layout != "":
		r, err := kgo.NewRecordReader(in, f.layout)
		if err != nil {
			return nil, usageErrorf("--format: %w", err)
		}
		return numbered("record", r.ReadRecord), nil
	case f.format == outputJSON:
		return lineParser(in, parseJSONRecord), nil
	}
	return lineParser(in, f.parseLine), nil
}

func lineParser(in *bufio.Reader, parse func(line []byte) (*kgo.Record, error)) func() (*kgo.Record, error) {
	return numbered("line", func() (*kgo.Record, error) {
		line, err := readLine(in)
		if err != nil {
			return nil, err
		}
		return parse(line)
	})
}

func (f *inputFlags) parseLine(line []byte) (*kgo.Record, error) {
	if f.keySeparator == "" {
		return &kgo.Record{Value: line}, nil
	}
	key, value, ok := bytes.Cut(line, []byte(f.keySeparator))
	if !ok {
		return nil, fmt.Errorf("no key separator %q in %.60q", f.keySeparator, line)
	}
	return &kgo.Record{Key: key, Value: value}, nil
}

// numbered says in errors which piece of the input is meant.
func numbered(unit string, next func() (*kgo.Record, error)) func() (*kgo.Record, error) {
	n := 0
	return func() (*kgo.Record, error) {
		n++
		r, err := next()
		if err != nil && !errors.Is(err, io.EOF) {
			err = fmt.Errorf("%s %d of the input: %w", unit, n, err)
		}
		return r, err
	}
}

// readLine returns a line without its end, in memory of its own. The last line may lack its newline.
func readLine(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadBytes('\n')
	if errors.Is(err, io.EOF) && len(line) > 0 {
		return line, nil
	}
	return bytes.TrimSuffix(line, []byte{'\n'}), err
}

func parseHeaders(texts []string) ([]kgo.RecordHeader, error) {
	var headers []kgo.RecordHeader
	for _, text := range texts {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("--header %q is not of the form name=value", text)
		}
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	return headers, nil
}

func nullIf(field []byte, marker string) []byte {
	if string(field) == marker {
		return nil
	}
	return field
}
