package lint

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// purePackages decide and do not act: they take `now` and an input, and return effects as data. That is what makes
// whole-cluster simulation and replay possible. The coordinator's runtime itself (package coordinator) is a shell.
var purePackages = []string{
	"coordinator/group", "coordinator/group/assignor", "coordinator/txn", "coordinator/share",
	"cluster/metadata", "cluster/controller", "broker/replica/tracker",
}

// impureImports are packages that act, wait or hide an input, each with what to do instead.
var impureImports = map[string]string{
	"os":                     "return the effect",
	"io/fs":                  "return the effect",
	"syscall":                "return the effect",
	"net":                    "return the effect (net/netip is fine)",
	"net/http":               "return the effect",
	"sync":                   "the shell owns the lock",
	"sync/atomic":            "the shell owns the lock",
	"context":                "nothing here waits",
	"runtime":                "the outcome must not depend on the machine",
	"log":                    "return the error",
	"log/slog":               "return the error",
	"crypto/rand":            "take the random value as an input",
	"hash/maphash":           "seeds differ between processes",
	"unsafe":                 "no need of it",
	"weir/internal/clock":    "take now as an argument",
	"weir/internal/vfs":      "return the effect",
	"weir/internal/deferred": "the shell parks replies",
	"weir/internal/metrics":  "the shell counts",
}

// impureNames are the functions of otherwise harmless packages that read the clock, the scheduler or hidden state. An
// empty list with allowed names means: only those.
var impureNames = map[string]struct{ forbidden, allowed []string }{
	"time": {forbidden: []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local", "LoadLocation"}},
	// Only generators with a source that was handed in; the top-level functions share a seed nobody knows.
	"math/rand/v2":        {allowed: []string{"Rand", "New", "Source", "PCG", "NewPCG", "ChaCha8", "NewChaCha8", "Zipf", "NewZipf"}},
	"math/rand":           {allowed: []string{"Rand", "New", "Source", "Source64", "NewSource", "Zipf", "NewZipf"}},
	"weir/internal/kafka": {forbidden: []string{"NewUUID"}},
	"fmt":                 {forbidden: []string{"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"}},
}

func TestPurePackagesOnlyDecide(t *testing.T) {
	for _, f := range parseModule(t) {
		if f.isTest || !slices.Contains(purePackages, f.pkg) {
			continue
		}
		for _, v := range impurities(f.fset, f.ast) {
			t.Errorf("%s/%s", f.pkg, v)
		}
	}
}

// impurities lists what in a file acts, waits or reads hidden state, as "file.go:line: what".
func impurities(fset *token.FileSet, file *ast.File) []string {
	var found []string
	report := func(at token.Pos, format string, args ...any) {
		p := fset.Position(at)
		found = append(found, fmt.Sprintf("%s:%d: ", path.Base(p.Filename), p.Line)+fmt.Sprintf(format, args...))
	}
	names := make(map[string]string) // name in the file → import path
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if instead, bad := impureImports[imported]; bad {
			report(spec.Pos(), "imports %s: %s", imported, instead)
		}
		names[localName(spec, imported)] = imported
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			report(n.Pos(), "starts a goroutine")
		case *ast.ChanType:
			report(n.Pos(), "has a channel")
		case *ast.SelectStmt:
			report(n.Pos(), "selects")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && impureName(names[x.Name], n.Sel.Name) {
				report(n.Pos(), "uses %s.%s", names[x.Name], n.Sel.Name)
			}
		}
		return true
	})
	return found
}

func localName(spec *ast.ImportSpec, imported string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	base := path.Base(imported)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(imported)) // math/rand/v2 is rand
	}
	return base
}

func impureName(imported, name string) bool {
	rule, ok := impureNames[imported]
	if !ok {
		return false
	}
	if rule.allowed != nil {
		return !slices.Contains(rule.allowed, name)
	}
	return slices.Contains(rule.forbidden, name)
}

func TestImpurities(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{`import "time"; func f(now time.Time) time.Time { return now.Add(time.Second) }`, ""},
		{`import "time"; var t = time.Now()`, "x.go:1: uses time.Now"},
		{`import clk "time"; func f() { clk.Sleep(1) }`, "x.go:1: uses time.Sleep"},
		{`import "sync"; var m sync.Mutex`, "x.go:1: imports sync: the shell owns the lock"},
		{`import "net/netip"; var a netip.Addr`, ""},
		{`func f() { go f() }`, "x.go:1: starts a goroutine"},
		{`func f(c <-chan int) {}`, "x.go:1: has a channel"},
		{`func f() { select {} }`, "x.go:1: selects"},
		{`import "math/rand/v2"; func f(r *rand.Rand) int { return r.IntN(3) }`, ""},
		{`import "math/rand/v2"; func f() int { return rand.IntN(3) }`, "x.go:1: uses math/rand/v2.IntN"},
		{`import "weir/internal/kafka"; var id = kafka.NewUUID()`, "x.go:1: uses weir/internal/kafka.NewUUID"},
	} {
		fset := token.NewFileSet()
		file, err := parser.ParseFile(fset, "x.go", "package x; "+c.source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatalf("%s: %v", c.source, err)
		}
		if got := strings.Join(impurities(fset, file), "\n"); got != c.want {
			t.Errorf("%s\ngot:  %s\nwant: %s", c.source, got, c.want)
		}
	}
}
