package golden

import (
	"fmt"
	"hash/crc32"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kversion"
)

var kversion44 = kversion.V4_4_0()

// renderer writes messages as text, a field a line in the order of the protocol. What differs from run to run becomes a
// word in capitals: names with RUN; MEMBER1, MEMBER2, … and ID1, ID2, … in the order in which they are first seen; what
// the fields of fieldWords hold.
type renderer struct {
	run     string
	members map[string]string
	ids     map[[16]byte]string
}

func newRenderer(run string) renderer {
	return renderer{run: run, members: make(map[string]string), ids: make(map[[16]byte]string)}
}

// fieldWords are fields whose values belong to the run or the machine, and the words for them. A value that says that there
// is none (-1, "") stays.
var fieldWords = map[string]string{
	"Host": "HOST", "Port": "PORT", "ClusterID": "CLUSTER", "Dir": "DIR", "ProducerID": "PRODUCER",
	"TotalBytes": "BYTES", "UsableBytes": "BYTES",
}

// sorted are the lists whose order says nothing.
var sorted = map[string]bool{"Members": true, "Groups": true, "Configs": true, "ConfigSynonyms": true, "Topics": true, "Partitions": true, "Endpoints": true}

var memberID = regexp.MustCompile(`^(.*)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// text renders a request or an answer.
func (r *renderer) text(message any) string {
	return strings.Join(r.fields(reflect.ValueOf(message).Elem()), "")
}

// fields renders a structure, a line of text for each field that is there.
func (r *renderer) fields(v reflect.Value) (lines []string) {
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if name == "Version" || name == "UnknownTags" {
			continue
		}
		lines = append(lines, r.field(name, v.Field(i))...)
	}
	return lines
}

func (r *renderer) field(name string, v reflect.Value) []string {
	if v.Kind() == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8 {
		return r.list(name, v)
	}
	if v.Kind() == reflect.Pointer && !v.IsNil() && v.Elem().Kind() == reflect.Struct {
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct {
		return append([]string{name + ":\n"}, indent(r.fields(v))...)
	}
	return []string{name + ": " + r.value(name, v) + "\n"}
}

func (r *renderer) list(name string, v reflect.Value) []string {
	if v.Len() == 0 {
		if v.IsNil() {
			return []string{name + ": none\n"}
		}
		return []string{name + ": []\n"} // where the protocol tells it from null
	}
	var blocks []string
	for i := range v.Len() {
		element := v.Index(i)
		var lines []string
		if element.Kind() == reflect.Struct {
			lines = r.fields(element)
		} else {
			lines = []string{r.value(name, element) + "\n"}
		}
		lines = indent(lines)
		lines[0] = "-" + lines[0][1:]
		blocks = append(blocks, strings.Join(lines, ""))
	}
	if sorted[name] {
		slices.Sort(blocks)
	}
	return append([]string{name + ":\n"}, blocks...)
}

func indent(lines []string) []string {
	out := make([]string, len(lines))
	for i, line := range lines {
		out[i] = "  " + strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\n", "\n  ") + "\n"
	}
	return out
}

func (r *renderer) value(name string, v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "null"
		}
		v = v.Elem()
	}
	if word, ok := fieldWords[name]; ok && (v.CanInt() && v.Int() >= 0 || v.Kind() == reflect.String && v.Len() > 0) {
		return word
	}
	switch {
	case name == "ErrorCode" && v.Kind() == reflect.Int16:
		if err := kerr.TypedErrorForCode(int16(v.Int())); err != nil {
			return fmt.Sprintf("%d %s", v.Int(), err.Message)
		}
	case v.Kind() == reflect.Int64 && v.Int() > 1e12 && v.Int() < 1e13:
		if v.Int() != fixedTime {
			return "TIME"
		}
	case v.Kind() == reflect.String:
		return r.quote(v.String())
	case v.Kind() == reflect.Slice && v.IsNil():
		return "null"
	case v.Kind() == reflect.Slice:
		return r.quote(string(v.Bytes()))
	case v.Kind() == reflect.Array:
		id := v.Interface().([16]byte)
		if id == ([16]byte{}) {
			return "no id"
		}
		return word(r.ids, id, "ID")
	}
	return fmt.Sprint(v.Interface())
}

// longText is the length in bytes from which on text is only told by its checksum.
const longText = 400

// quote renders text or bytes on one line.
func (r *renderer) quote(s string) string {
	if m := memberID.FindStringSubmatch(s); m != nil {
		return m[1] + "-" + word(r.members, s, "MEMBER")
	}
	for id, w := range r.members { // within a message
		s = strings.ReplaceAll(s, id, w)
	}
	s = strings.ReplaceAll(s, r.run, "RUN")
	if len(s) > longText {
		sum := crc32.ChecksumIEEE([]byte(s))
		return fmt.Sprintf("%d bytes, crc32 %08x", len(s), sum)
	}
	return strconv.Quote(s)
}

// word returns the word for a value, the next one if it is new.
func word[T comparable](words map[T]string, value T, kind string) string {
	if words[value] == "" {
		words[value] = fmt.Sprint(kind, len(words)+1)
	}
	return words[value]
}
