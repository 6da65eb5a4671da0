package lint

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestEveryPackageSaysWhatItIsFor(t *testing.T) {
	documented := make(map[string]bool)
	for _, f := range parseModule(t) {
		if f.isTest {
			continue
		}
		documented[f.pkg] = documented[f.pkg] || isPackageDoc(f.ast)
	}
	for _, pkg := range slices.Sorted(maps.Keys(documented)) {
		if !documented[pkg] {
			t.Errorf("%s has no doc comment that begins with its name: write doc.go (duty, invariants, goroutines, locks)", pkg)
		}
	}
}

// isPackageDoc reports whether the file holds its package's comment in godoc's form.
func isPackageDoc(file *ast.File) bool {
	text := file.Doc.Text()
	if file.Name.Name == "main" {
		return strings.HasPrefix(text, "Command ")
	}
	return strings.HasPrefix(text, "Package "+file.Name.Name+" ")
}
