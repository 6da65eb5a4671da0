package controller

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/kafka"
)

// Every type of command and of reply has its name in the codec, and every command has a reply of its name, or that of another
// command which it is a form of.
func TestCodecKnowsEveryType(t *testing.T) {
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string][]string{}
	for _, source := range sources {
		file, err := parser.ParseFile(token.NewFileSet(), source, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if f, isFunc := d.(*ast.FuncDecl); isFunc && f.Recv != nil && len(f.Recv.List[0].Names) == 0 && (f.Name.Name == "command" || f.Name.Name == "reply") {
				declared[f.Name.Name] = append(declared[f.Name.Name], f.Recv.List[0].Type.(*ast.Ident).Name)
			}
		}
	}
	for kind, types := range map[string]map[string]reflect.Type{"command": commandTypes, "reply": replyTypes} {
		slices.Sort(declared[kind])
		if known := slices.Sorted(maps.Keys(types)); len(known) == 0 || !slices.Equal(known, declared[kind]) {
			t.Errorf("%s: declared %v\nknown %v", kind, declared[kind], known)
		}
	}
	for name := range commandTypes {
		if _, known := replyTypes[strings.TrimPrefix(name, "Incremental")+"Reply"]; !known {
			t.Errorf("%s has no reply", name)
		}
	}
}

func TestCommandsRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cmd := anything.drawType(t, commandTypes).(Command)
		text, err := EncodeCommand(cmd)
		if err != nil {
			t.Fatal(err)
		}
		got, err := DecodeCommand(text)
		if err != nil || !reflect.DeepEqual(got, cmd) {
			t.Fatalf("%+v became %s, and that %+v, %v", cmd, text, got, err)
		}
	})
}

func TestAnswersRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		reply, index := anything.drawType(t, replyTypes).(Reply), rapid.Int64().Draw(t, "index")
		text, err := EncodeAnswer(reply, index)
		if err != nil {
			t.Fatal(err)
		}
		got, at, err := DecodeAnswer(text)
		if err != nil || at != index || !reflect.DeepEqual(got, reply) {
			t.Fatalf("%+v became %s, and that %+v, %d, %v", reply, text, got, at, err)
		}
	})
}

func TestErrorsRoundTrip(t *testing.T) {
	for _, want := range []error{kafka.Errorf(kafka.StaleBrokerEpoch, "100%% %s", "stale"), kafka.Errorf(kafka.UnknownServerError, ""), errTrailing} {
		got := DecodeError(EncodeError(want))
		if kafka.CodeOf(got) != kafka.CodeOf(want) || got.Error() != want.Error() {
			t.Errorf("%v %v became %v %v", kafka.CodeOf(want), want, kafka.CodeOf(got), got)
		}
	}
	if err := DecodeError(kafka.None, ""); err != nil {
		t.Error(err)
	}
}

// What a later version adds is passed over; what is no command is refused with what it is.
func TestTextsOfOthers(t *testing.T) {
	cmd, err := DecodeCommand([]byte(` {"command":"BalanceLeaders","arguments":{"Max":3,"Later":[1]},"later":true} `))
	if err != nil || cmd != (BalanceLeaders{Max: 3}) {
		t.Fatal(cmd, err)
	}
	for text, want := range map[string]string{
		``:                                     "A command cannot be read: not a JSON object",
		`null`:                                 "A command cannot be read: not a JSON object",
		`{}`:                                   `The command "" is not known to this version of weir.`,
		`{"command":"Explode","arguments":{}}`: `The command "Explode" is not known to this version of weir.`,
		`{"command":"BalanceLeaders"}`:         "The arguments of the command BalanceLeaders cannot be read: not a JSON object",
		`{"command":"BalanceLeaders","arguments":null}`:                    "The arguments of the command BalanceLeaders cannot be read: not a JSON object",
		`{"command":"BalanceLeaders","arguments":{"Max":"3"}}`:             "The arguments of the command BalanceLeaders cannot be read: json: cannot unmarshal string",
		`{"command":"BalanceLeaders","arguments":{"Max":3}`:                "A command cannot be read: unexpected EOF",
		`{"command":"BalanceLeaders","arguments":{"Max":3}}{}`:             "A command cannot be read: something follows the JSON object",
		`{"command":"RegisterBroker","arguments":{"Incarnation":"AAAA"}}`:  "is not a 22-letter base64 id",
		`{"command":"BrokerHeartbeat","arguments":{"Broker":99999999999}}`: "cannot unmarshal number 99999999999",
	} {
		cmd, err := DecodeCommand([]byte(text))
		if cmd != nil || kafka.CodeOf(err) != kafka.InvalidRequest || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", text, cmd, err)
		}
	}
	for _, text := range []string{``, `{}`, `{"reply":"BalanceLeaders","value":{}}`, `{"reply":"BalanceLeadersReply","index":1}`, `{"reply":"BalanceLeadersReply","index":1.5,"value":{}}`} {
		if reply, _, err := DecodeAnswer([]byte(text)); reply != nil || kafka.CodeOf(err) != kafka.InvalidRequest {
			t.Errorf("%s: %v, %v", text, reply, err)
		}
	}
}

func FuzzDecodeCommand(f *testing.F) {
	f.Add([]byte(`{"command":"CreateTopics","arguments":{"Topics":[{"Name":"a","ID":"AAAAAAAAAAAAAAAAAAAAAQ","Configs":[{"Name":"x","Value":null}]}],"Seed":18446744073709551615}}`))
	f.Add([]byte(`{"command":"AlterPartition","arguments":{"Partitions":[{"ISR":[{}]}]}}`))
	f.Add([]byte(`{"command":"BalanceLeaders","arguments":{}}{}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		cmd, err := DecodeCommand(text)
		if err != nil {
			if kafka.CodeOf(err) != kafka.InvalidRequest {
				t.Fatal(err)
			}
			return
		}
		again, err := EncodeCommand(cmd)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := DecodeCommand(again); err != nil || !reflect.DeepEqual(got, cmd) {
			t.Fatalf("%s became %+v, %s and %+v, %v", text, cmd, again, got, err)
		}
	})
}

// drawer fills values of whatever type.
type drawer struct {
	ints    *rapid.Generator[int64] // are cut to the size of the field
	strings *rapid.Generator[string]
	uuids   *rapid.Generator[kafka.UUID]
}

var anything = drawer{
	ints: rapid.Int64(), strings: rapid.String(),
	uuids: rapid.Custom(func(t *rapid.T) (id kafka.UUID) {
		copy(id[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		return id
	}),
}

// drawType draws a value of one of the types.
func (d drawer) drawType(t *rapid.T, types map[string]reflect.Type) any {
	typ := types[rapid.SampledFrom(slices.Sorted(maps.Keys(types))).Draw(t, "type")]
	v := reflect.New(typ).Elem()
	d.fill(t, v)
	return v.Interface()
}

// fill fills v with anything that its type can hold: lists and pointers that are nil, and ones that are empty.
func (d drawer) fill(t *rapid.T, v reflect.Value) {
	if v.Type() == reflect.TypeFor[kafka.UUID]() {
		v.Set(reflect.ValueOf(d.uuids.Draw(t, "id")))
		return
	}
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, "bool"))
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.Set(reflect.ValueOf(d.ints.Draw(t, "int")).Convert(v.Type()))
	case reflect.Uint8, reflect.Uint16, reflect.Uint64:
		v.Set(reflect.ValueOf(d.ints.Draw(t, "uint")).Convert(v.Type()))
	case reflect.String:
		v.SetString(d.strings.Draw(t, "string"))
	case reflect.Pointer:
		if rapid.Bool().Draw(t, "not nil") {
			v.Set(reflect.New(v.Type().Elem()))
			d.fill(t, v.Elem())
		}
	case reflect.Slice:
		if n := rapid.IntRange(-1, 3).Draw(t, "length"); n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				d.fill(t, v.Index(i))
			}
		}
	case reflect.Map:
		if n := rapid.IntRange(-1, 3).Draw(t, "length"); n >= 0 {
			v.Set(reflect.MakeMap(v.Type()))
			for range n {
				key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
				d.fill(t, key)
				d.fill(t, value)
				v.SetMapIndex(key, value)
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			d.fill(t, v.Field(i))
		}
	default:
		t.Fatalf("no generator for %v", v.Type())
	}
}
