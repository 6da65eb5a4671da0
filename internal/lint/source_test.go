package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// root is the top of the repository, seen from this package's folder.
const root = "../.."

// sourceFile is one parsed Go file of the main module.
type sourceFile struct {
	pkg    string // folder below the module's root, with slashes: "broker/replica"
	path   string // for messages: "broker/replica/append.go"
	isTest bool
	fset   *token.FileSet
	ast    *ast.File
}

// parseModule parses every Go file of the module, leaving out other modules, testdata and hidden folders.
func parseModule(t *testing.T) []sourceFile {
	t.Helper()
	var files []sourceFile
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skipFolder(name, d)
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		files = append(files, sourceFile{
			pkg: path.Dir(rel), path: rel, isTest: strings.HasSuffix(rel, "_test.go"), fset: fset, ast: parsed,
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Fatal("no Go files found: is this package still two folders below the root?")
	}
	return files
}

// skipFolder leaves out what the go command leaves out of "./...".
func skipFolder(name string, d fs.DirEntry) error {
	if name == root {
		return nil
	}
	if base := d.Name(); base == "testdata" || base[0] == '.' || base[0] == '_' {
		return filepath.SkipDir
	}
	if _, err := os.Stat(filepath.Join(name, "go.mod")); err == nil {
		return filepath.SkipDir
	}
	return nil
}

// imports returns the paths that a file imports.
func (f sourceFile) imports() []string {
	var paths []string
	for _, spec := range f.ast.Imports {
		p, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			panic(err) // the parser accepted it
		}
		paths = append(paths, p)
	}
	return paths
}
