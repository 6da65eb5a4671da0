package lint

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// modulePath is the main module's; the imports of the layering table are relative to it.
const modulePath = "weir"

// The names by which the table speaks of modules outside.
const (
	kmsg     = "github.com/twmb/franz-go/pkg/kmsg"
	kbin     = "github.com/twmb/franz-go/pkg/kbin"
	kerr     = "github.com/twmb/franz-go/pkg/kerr"
	kgo      = "github.com/twmb/franz-go/pkg/kgo"
	kadm     = "github.com/twmb/franz-go/pkg/kadm"
	raft     = "go.etcd.io/raft/v3"
	protobuf = "google.golang.org/protobuf"
	gossip   = "github.com/hashicorp/memberlist"
	compress = "github.com/klauspost/compress"
	lz4      = "github.com/pierrec/lz4/v4"
	sys      = "golang.org/x/sys"
	cobra    = "github.com/spf13/cobra"
	prom     = "github.com/prometheus/client_golang"
	promData = "github.com/prometheus/client_model"
)

// layer says what a package may import beside the standard library.
type layer struct {
	level    int
	weir     []string // packages of this module; L0 (internal/*) is always allowed
	external []string // modules or packages outside, with everything below them
}

// layering is the import direction: an arrow only points down. A package that is not here has no place yet: give it
// one in docs/ARCHITECTURE.md first. Packages may be listed before they exist.
var layering = map[string]layer{
	// L0: nouns and small primitives; internal/lint and internal/sim stand outside the order.
	"internal/kafka":      {level: 0},
	"internal/clock":      {level: 0},
	"internal/deferred":   {level: 0},
	"internal/invariant":  {level: 0},
	"internal/metrics":    {level: 0},
	"internal/mutant":     {level: 0},
	"internal/scripttest": {level: 0},
	"internal/properties": {level: 0},
	"internal/vfs":        {level: 0, external: []string{sys}},

	// L1: the wire, and the table of configs.
	"protocol/batch": {level: 1, external: []string{kbin, compress, lz4}},
	"protocol":       {level: 1, external: []string{kmsg, kbin, kerr}},
	"broker/config":  {level: 1},

	// L2: one node's state, and the pure deciders.
	"log":                        {level: 2, weir: []string{"protocol/batch"}},
	"coordinator":                {level: 2, weir: []string{"protocol/batch"}, external: []string{kmsg, kerr}},
	"coordinator/group":          {level: 2, weir: []string{"coordinator", "coordinator/group/assignor", "protocol/batch"}, external: []string{kmsg, kerr}},
	"coordinator/group/assignor": {level: 2, external: []string{kmsg}},
	"coordinator/txn":            {level: 2, weir: []string{"coordinator", "protocol/batch"}, external: []string{kmsg, kerr}},
	"coordinator/share":          {level: 2, weir: []string{"coordinator", "protocol/batch"}, external: []string{kmsg, kerr}},
	"cluster/metadata":           {level: 2},
	"cluster/controller":         {level: 2, weir: []string{"cluster/metadata", "broker/config"}},
	"broker/replica/tracker":     {level: 2},

	// L3: the shells around them.
	"cluster/quorum": {level: 3, weir: []string{"cluster/metadata", "log", "protocol/batch"}, external: []string{raft, protobuf}},
	"cluster/gossip": {level: 3, external: []string{gossip}},
	"cluster":        {level: 3, weir: []string{"cluster/metadata", "cluster/controller", "cluster/quorum"}},
	"broker/replica": {level: 3, weir: []string{"broker/replica/tracker", "log", "cluster/metadata", "protocol/batch"}, external: []string{kmsg}},
	"broker/peer":    {level: 3, weir: []string{"protocol"}, external: []string{kmsg, kbin}},
	"broker/auth":    {level: 3, weir: []string{"cluster/metadata"}},
	"broker/quota":   {level: 3, weir: []string{"cluster/metadata"}},

	// L4: one file per API key.
	"broker/handler": {level: 4, weir: []string{
		"protocol", "protocol/batch", "broker/config", "broker/auth", "broker/quota", "broker/replica", "coordinator",
		"coordinator/group", "coordinator/txn", "coordinator/share", "cluster/metadata", "cluster/controller",
	}, external: []string{kmsg}},

	// L5: composition and the network edge. It may import every package above but the gossip, which is handed to it.
	"broker": {level: 5, weir: []string{
		"protocol", "protocol/batch", "broker/config", "log", "coordinator", "coordinator/group", "coordinator/txn",
		"coordinator/share", "cluster", "cluster/metadata", "cluster/controller", "cluster/quorum", "broker/replica",
		"broker/peer", "broker/auth", "broker/quota", "broker/handler",
	}, external: []string{kmsg, raft, protobuf}},

	// L6: programs and what embeds a broker.
	"cmd/weir": {level: 6, weir: []string{
		"broker", "broker/config", "cluster", "cluster/metadata", "cluster/gossip", "console", "log", "protocol", "protocol/batch",
	}, external: []string{cobra, "github.com/spf13/pflag", kgo, kadm, kmsg, kerr, prom, promData}},
	"console":  {level: 6, weir: []string{"broker"}, external: []string{kgo, kadm, kmsg, kerr}},
	"weirtest": {level: 6, weir: []string{"broker", "broker/config"}, external: []string{kmsg}},
}

// outsideTheOrder may import anything.
var outsideTheOrder = []string{"internal/lint", "internal/sim"}

func TestImportsOnlyPointDown(t *testing.T) {
	for _, f := range parseModule(t) {
		if f.isTest || slices.Contains(outsideTheOrder, f.pkg) {
			continue
		}
		if f.pkg == "." {
			t.Errorf("%s: the module's root holds no package", f.path)
			continue
		}
		for _, imported := range f.imports() {
			if why := forbiddenImport(f.pkg, imported); why != "" {
				t.Errorf("%s imports %s: %s", f.path, imported, why)
			}
		}
	}
}

// Only the client verbs speak to a broker from outside; the server part of the command must not come to need a client.
func TestServeUsesNoClientLibrary(t *testing.T) {
	for _, f := range parseModule(t) {
		name, inCommand := strings.CutPrefix(f.path, "cmd/weir/")
		if !inCommand || f.isTest || !strings.HasPrefix(name, "serve") {
			continue
		}
		for _, imported := range f.imports() {
			if within(imported, kgo) || within(imported, kadm) {
				t.Errorf("%s imports %s, which is for client verbs only", f.path, imported)
			}
		}
	}
}

// forbiddenImport says why pkg may not import a path, or returns "".
func forbiddenImport(pkg, imported string) string {
	row, ok := layering[pkg]
	if !ok {
		return "package " + pkg + " has no row in the layering table"
	}
	if first, _, _ := strings.Cut(imported, "/"); imported == modulePath || first == modulePath {
		target := strings.TrimPrefix(imported, modulePath+"/")
		if slices.Contains(row.weir, target) {
			return ""
		}
		if other, ok := layering[target]; ok && other.level == 0 {
			return ""
		}
		return "the layering table has no such arrow"
	} else if !strings.Contains(first, ".") {
		return "" // standard library
	}
	for _, allowed := range row.external {
		if within(imported, allowed) {
			return ""
		}
	}
	return "the layering table does not give " + pkg + " this module"
}

// within reports whether an import path is p or lies below it.
func within(imported, p string) bool { return imported == p || strings.HasPrefix(imported, p+"/") }

// An arrow of the table that points up, or sideways in a circle, would make the table worthless.
func TestLayeringTableOnlyPointsDown(t *testing.T) {
	for _, pkg := range slices.Sorted(maps.Keys(layering)) {
		for _, target := range layering[pkg].weir {
			row, ok := layering[target]
			switch {
			case !ok:
				t.Errorf("%s → %s: the target has no row", pkg, target)
			case row.level > layering[pkg].level:
				t.Errorf("%s (L%d) → %s (L%d) points up", pkg, layering[pkg].level, target, row.level)
			case slices.Contains(row.weir, pkg):
				t.Errorf("%s and %s point at each other", pkg, target)
			}
		}
	}
}

func TestForbiddenImport(t *testing.T) {
	for _, c := range []struct {
		pkg, imported string
		allowed       bool
	}{
		{"log", "weir/protocol/batch", true},
		{"log", "weir/internal/vfs", true},
		{"log", "log/slog", true},
		{"log", "weir/broker", false},
		{"log", "weir/internal/lint", false},
		{"log", kmsg, false},
		{"cluster/quorum", raft + "/raftpb", true},
		{"broker", kgo, false},
		{"cmd/weir", kgo, true},
		{"weirtest", gossip, false},
		{"util", "fmt", false},
	} {
		if why := forbiddenImport(c.pkg, c.imported); (why == "") != c.allowed {
			t.Errorf("%s imports %s: %q, want allowed=%v", c.pkg, c.imported, why, c.allowed)
		}
	}
}
