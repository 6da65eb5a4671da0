package config

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/configuration.md anew")

//go:generate go test . -run DocumentIsCurrent -update

func TestDocumentIsCurrent(t *testing.T) {
	const path = "../../docs/configuration.md"
	want := document()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s does not say what the tables say: go generate ./broker/config", path)
	}
}

// document writes what users read about settings, from the tables.
func document() []byte {
	var b bytes.Buffer
	b.WriteString(documentHead)
	own := func(d *Def) bool { return strings.HasPrefix(d.Name, "weir.") }
	section := func(title, text string, defs []*Def, wanted func(d *Def) bool, columns ...string) {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| %s |\n|%s\n", title, text, strings.Join(columns, " | "), strings.Repeat("--|", len(columns)))
		for _, d := range defs {
			if wanted(d) {
				fmt.Fprintf(&b, "| %s |\n", strings.Join(cells(d, columns), " | "))
			}
		}
	}
	topics := slices.SortedFunc(slices.Values(TopicDefs()), func(a, b *Def) int { return strings.Compare(a.Name, b.Name) })
	brokers := BrokerDefs()
	section("Weir's own settings", "Kafka knows none of these. All are read at start.", brokers, func(d *Def) bool { return d.Stance == Implement && own(d) },
		"name", "type", "default", "valid", "what it does")
	section("Topic settings", "A topic that has no value of its own has the broker's, under the name given last; the first of several that is set counts.",
		topics, func(d *Def) bool { return d.Stance == Implement }, "name", "type", "default", "valid", "what it does", "broker setting")
	section("Topic settings without effect", "They are validated, stored and reported.",
		topics, func(d *Def) bool { return d.Stance == Accept }, "name", "type", "default", "valid", "what it is for", "broker setting")
	section("Broker settings", "Changed at run time: for all brokers or for one (cluster-wide), for one only (per-broker), or not (read-only).",
		brokers, func(d *Def) bool { return d.Stance == Implement && !own(d) }, "name", "type", "default", "valid", "changed", "what it does")
	section("Broker settings without effect", "They are validated and reported, and one line at start names those that are set. Many are there for what Weir does not have yet.",
		brokers, func(d *Def) bool { return d.Stance == Accept }, "name", "type", "default", "what it is for")
	section("Internal settings", "Kafka keeps these for its own tests. They are taken without effect, and reported only where they are set.",
		slices.Concat(topics, brokers), func(d *Def) bool { return d.Stance == Internal }, "name", "type", "default", "what it is for")
	return b.Bytes()
}

func cells(d *Def, columns []string) []string {
	row := make([]string, len(columns))
	for i, column := range columns {
		switch column {
		case "name":
			row[i] = "`" + d.Name + "`"
		case "type":
			row[i] = strings.ToLower(d.Type.String())
		case "default":
			row[i] = cell(d.Default)
			if d.Null {
				row[i] = "none"
			} else if d.Default == "" {
				row[i] = "empty"
			}
		case "valid":
			row[i] = cell(d.ValidValues())
		case "changed":
			row[i] = d.Mode.String()
		case "broker setting":
			row[i] = strings.Join(d.Synonyms, ", ")
		default:
			row[i] = cell(d.Doc)
		}
	}
	return row
}

// cell keeps a text from ending its cell or opening an HTML element, and lets long lists break.
func cell(s string) string {
	return strings.NewReplacer(",...,", ", ..., ", "|", `\|`, "<", "&lt;", "*", `\*`, ",...", ", ...").Replace(s)
}

const documentHead = `# Settings

Made from the tables in ` + "`broker/config` by `go generate ./broker/config`" + `: do not edit.

Weir starts without any setting. What Kafka calls by a name has that name here, with Kafka's default unless this page
says otherwise.

## Where settings come from

Later places win:

1. the default;
2. the file: ` + "`server.properties`" + ` as Java reads it, comments (` + "`#`, `!`), `=`, `:`" + ` or a blank after the name, a backslash at the end of a line
   that goes on, ` + "`\\uXXXX`" + `. It is read as UTF-8;
3. the environment: ` + "`KAFKA_LOG_RETENTION_MS`" + ` is log.retention.ms, as in Kafka's images. One underscore is a dot, two are an
   underscore, three a hyphen. ` + "`KAFKA_CFG_…`" + ` means the same, ` + "`WEIR_FSYNC_POLICY`" + ` is weir.fsync.policy, ` + "`CLUSTER_ID`" + ` names a new
   cluster and ` + "`KAFKA_LOG4J_ROOT_LOGLEVEL`" + ` sets the level of the log;
4. ` + "`--override name=value`" + `;
5. ` + "`--listen`" + ` (listeners), ` + "`--data-dir`" + ` (log.dirs) and ` + "`--http`" + ` (weir.http.listeners).

A value that will not do stops the start with exit code 2 and one line that names its place, its value and what is
allowed. A name that nobody knows is named in a warning and ignored, and so is one that has no effect in Weir. Empty
elements of a list, such as after a trailing comma, are dropped.

While the cluster runs, a topic's own value is over the dynamic value of its broker, over the dynamic value of all brokers,
over what was read at start. Dynamic values are set with ` + "`kafka-configs.sh` or `weir config`" + `, act at once, and are kept with the
cluster's metadata: they survive a restart, and outlive what the file says.

## Listeners

Without ` + "`listeners`" + ` Weir binds 127.0.0.1 and, where there is one, [::1], port 9092, and tells clients ` + "`localhost`" + `. A listener that
binds every interface (` + "`PLAINTEXT://:9092`" + `, 0.0.0.0, [::]) and is not in ` + "`advertised.listeners`" + ` tells clients the host's name, with a
warning; a wildcard is never told to clients. Listeners with TLS or SASL do not exist yet, and one that asks for them stops
the start. A listener that others than this machine can reach is named in one warning at start, because everybody who
reaches it may do everything.
`
