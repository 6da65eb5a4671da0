package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// outputFormat is the value of -o.
type outputFormat string

const (
	outputText outputFormat = "text"
	outputJSON outputFormat = "json"
)

func (o *outputFormat) String() string { return string(*o) }
func (o *outputFormat) Type() string   { return "text|json" }

func (o *outputFormat) Set(s string) error {
	switch f := outputFormat(s); f {
	case outputText, outputJSON:
		*o = f
		return nil
	}
	return errors.New(`must be "text" or "json"`)
}

func (o *outputFormat) register(cmd *cobra.Command) {
	*o = outputText
	cmd.Flags().VarP(o, "output", "o", "text, or json: one object a line")
	completeWords(cmd, "output", string(outputText), string(outputJSON))
}

// writeJSON writes one line.
func writeJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// writeJSONLines writes a line for each element.
func writeJSONLines[T any](w io.Writer, list []T) error {
	for _, v := range list {
		if err := writeJSON(w, v); err != nil {
			return err
		}
	}
	return nil
}

// writeTable prints rows below a header, the columns two blanks apart. Cells hold no tabs and no ends of lines.
func writeTable(w io.Writer, header []string, rows [][]string) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		fmt.Fprintln(tw, strings.Join(row, "\t"))
	}
	return tw.Flush()
}

// joinIDs prints partitions or brokers as 0,1,2.
func joinIDs(ids []int32) string {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = strconv.Itoa(int(id))
	}
	return strings.Join(texts, ",")
}

// textOf is a text that may be missing.
func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// orDash stands for what is not there, as in Kafka's tables.
func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// offsetOrDash is orDash for an offset or a distance of offsets.
func offsetOrDash(o *int64) string {
	if o == nil {
		return "-"
	}
	return strconv.FormatInt(*o, 10)
}

// emptyNotNil keeps JSON's lists lists.
func emptyNotNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
