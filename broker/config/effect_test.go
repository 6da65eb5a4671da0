package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// read is a typed value that a setting ends in: a field, and what is named where it is read.
type read struct{ owner, field string }

// derivedReads are the settings whose value Load or a method passes on, so that fill.go and topic.go do not show it.
var derivedReads = map[string]read{
	"listeners":                           {"Config", "Listeners"},
	"advertised.listeners":                {"Config", "Listeners"},
	"listener.security.protocol.map":      {"Config", "Listeners"},
	"controller.listener.names":           {"Config", "ControllerListeners"},
	"controller.quorum.voters":            {"Quorum", "Voters"},
	"controller.quorum.bootstrap.servers": {"Quorum", "Voters"},
	"process.roles":                       {"Roles", "Controller"},
	"inter.broker.listener.name":          {"Config", "InterBrokerListener"},
	"security.inter.broker.protocol":      {"Config", "InterBrokerListener"},
	"weir.join":                           {"Config", "Join"},
	"weir.peer.port":                      {"Config", "PeerListener"},
	"weir.http.listeners":                 {"Config", "HTTPListeners"},
	"broker.id":                           {"Config", "NodeID"},
	"log.dir":                             {"Config", "DataDirs"},
	"log.dirs":                            {"Config", "DataDirs"},
	"metadata.log.dir":                    {"Config", "MetadataDir"},
	"cleanup.policy":                      {"TopicConfig", "Compact"},
	"compression.gzip.level":              {"TopicConfig", "Level"},
	"compression.lz4.level":               {"TopicConfig", "Level"},
	"compression.zstd.level":              {"TopicConfig", "Level"},
}

// readInVain are settings that somebody reads and that change nothing all the same.
var readInVain = map[string]string{}

// refused are settings that have their effect in Load: it takes no other value than the default.
var refused = []string{"authorizer.class.name"}

// A setting has its effect exactly if something outside this package reads what it sets. Where this fails, a feature has
// come or gone without its settings' stance.
func TestStancesAreTrue(t *testing.T) {
	reads, isRead := fills(t), selections(t)
	for _, d := range TopicDefs() { // topics inherit from brokers' settings, whose name need not be a topic's
		for _, name := range d.Synonyms {
			reads[name] = reads[d.Name]
		}
	}
	for _, d := range slices.Concat(TopicDefs(), BrokerDefs()) {
		r, fills := reads[d.Name]
		acts := fills && isRead(r) || slices.Contains(refused, d.Name)
		switch {
		case d.Stance == Implement && !acts:
			t.Errorf("%s is said to have its effect, and nothing outside this package reads %+v", d.Name, r)
		case d.Stance != Implement && acts && readInVain[d.Name] == "":
			t.Errorf("%s is said to be without effect, and %+v is read", d.Name, r)
		case d.Stance != Implement && !acts && readInVain[d.Name] != "":
			t.Errorf("%s is not even read", d.Name)
		}
	}
}

// fills finds, by name of the setting, the field that fill.go or topic.go gives its value to.
func fills(t *testing.T) map[string]read {
	t.Helper()
	out := make(map[string]read)
	note := func(r read, value ast.Expr) {
		ast.Inspect(value, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				name, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				out[name] = r
			}
			_, nested := n.(*ast.CompositeLit) // its fields are noted by themselves
			return !nested
		})
	}
	fields := func(owner string, lit *ast.CompositeLit) {
		for _, element := range lit.Elts {
			if kv, ok := element.(*ast.KeyValueExpr); ok {
				note(read{owner, exported(kv.Key.(*ast.Ident).Name)}, kv.Value)
			}
		}
	}
	for _, name := range []string{"fill.go", "topic.go"} {
		ast.Inspect(parseSource(t, name), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				field, ok := n.Lhs[0].(*ast.SelectorExpr)
				if !ok {
					return true
				}
				if lit, ok := n.Rhs[0].(*ast.CompositeLit); ok {
					fields(field.Sel.Name, lit)
					return true
				}
				owner := "Config"
				if outer, ok := field.X.(*ast.SelectorExpr); ok {
					owner = outer.Sel.Name
				}
				note(read{owner, field.Sel.Name}, n.Rhs[0])
			case *ast.CompositeLit:
				switch kind, _ := n.Type.(*ast.Ident); {
				case kind == nil:
				case kind.Name == "Dynamic":
					fields("Dynamic", n)
				case kind.Name == "Topic", kind.Name == "Compression":
					fields("TopicConfig", n)
				}
			}
			return true
		})
	}
	// internal.segment.bytes is assigned to a field of a Topic that is there already.
	out["internal.segment.bytes"] = out["segment.bytes"]
	for name, r := range derivedReads {
		out[name] = r
	}
	return out
}

// exported is the name of the method that gives a field away which is not exported.
func exported(field string) string {
	r := []rune(field)
	r[0] = unicode.ToUpper(r[0])
	return string(r)
}

// selections finds what is read outside this package: a field counts where one file selects it and names its owner.
func selections(t *testing.T) func(read) bool {
	t.Helper()
	type names struct{ all, selected map[string]bool }
	var files []names
	for _, root := range []string{"..", "../../cmd"} { // no other packages import this one
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case path == filepath.Join("..", "config"):
				return filepath.SkipDir
			case !strings.HasSuffix(path, ".go"), strings.HasSuffix(path, "_test.go"):
				return nil
			}
			f := names{make(map[string]bool), make(map[string]bool)}
			ast.Inspect(parseSource(t, path), func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.SelectorExpr:
					f.selected[n.Sel.Name] = true
				case *ast.Ident:
					f.all[n.Name] = true
				}
				return true
			})
			files = append(files, f)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return func(r read) bool {
		return slices.ContainsFunc(files, func(f names) bool { return f.selected[r.field] && f.all[r.owner] })
	}
}

func parseSource(t *testing.T, path string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}
