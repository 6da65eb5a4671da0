package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/broker/config"
)

// configExplanation is a line of `weir config explain -o json`.
type configExplanation struct {
	Name          string   `json:"name"`
	Of            string   `json:"of"` // topic or broker
	Type          string   `json:"type"`
	Default       *string  `json:"default"`
	ValidValues   string   `json:"validValues,omitempty"`
	UpdateMode    string   `json:"updateMode"`
	DefaultFrom   []string `json:"defaultFrom,omitempty"` // the broker configs that a topic's default comes from
	Support       string   `json:"support"`
	Documentation string   `json:"documentation"`
}

func newConfigExplainCommand() *cobra.Command {
	var output outputFormat
	cmd := &cobra.Command{
		Use:   "explain SETTING...",
		Short: "Say what a setting means, which values it takes and what Weir does with it",
		Long: `Say what a setting means, which values it takes, whether it can be changed at run time and what Weir does with it. No
broker is asked. A name that topics and brokers have is explained for both.`,
		Example: `  weir config explain retention.ms weir.fsync.policy`,
		Args:    positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return configNames(true, true), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, names []string) error {
			var unknown []error
			var explained []configExplanation
			for _, name := range names {
				found, err := explain(name)
				unknown = append(unknown, err)
				explained = append(explained, found...)
			}
			if output == outputJSON {
				return errors.Join(append(unknown, writeJSONLines(cmd.OutOrStdout(), explained))...)
			}
			for i, e := range explained {
				if i > 0 {
					fmt.Fprintln(cmd.OutOrStdout())
				}
				unknown = append(unknown, e.write(cmd.OutOrStdout()))
			}
			return errors.Join(unknown...)
		},
	}
	output.register(cmd)
	return cmd
}

// explain finds a setting in the tables. It may be one of topics and one of brokers.
func explain(name string) ([]configExplanation, error) {
	var found []configExplanation
	if d, ok := config.LookupTopic(name); ok {
		e := explanationOf(name, d)
		e.Of, e.UpdateMode, e.DefaultFrom = "topic", "at any time, for each topic", d.Synonyms
		found = append(found, e)
	}
	if d, ok := config.LookupBroker(name); ok {
		e := explanationOf(name, d)
		e.Of, e.UpdateMode = "broker", d.Mode.String()
		found = append(found, e)
	}
	switch {
	case len(found) > 0:
		return found, nil
	case config.IsRemovedTopicConfig(name):
		return nil, fmt.Errorf("%s was removed in Kafka 4.0; Weir takes it for topics, and drops it", name)
	}
	if near := similarConfigs(name); len(near) > 0 {
		return nil, fmt.Errorf("there is no setting %s; did you mean %s?", name, strings.Join(near, ", "))
	}
	return nil, fmt.Errorf("there is no setting %s", name)
}

func explanationOf(name string, d *config.Def) configExplanation {
	e := configExplanation{
		Name: name, Type: strings.ToLower(d.Type.String()), ValidValues: d.ValidValues(), Support: supportOf(d.StanceOn(name)), Documentation: d.Doc,
	}
	if !d.Null {
		e.Default = &d.Default
	}
	return e
}

func supportOf(s config.Stance) string {
	switch s {
	case config.Accept:
		return "validated, stored and reported, without effect"
	case config.Internal:
		return "validated and stored, reported only where it is set, without effect"
	default:
		return "has its effect"
	}
}

func (e configExplanation) write(w io.Writer) error {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s (of a %s)\n  %s\n\n", e.Name, e.Of, e.Documentation)
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&out, "  %-14s %s\n", label+":", text)
		}
	}
	line("Type", e.Type)
	switch {
	case e.Default == nil:
		line("Default", "none")
	case *e.Default == "":
		line("Default", "empty")
	default:
		line("Default", *e.Default)
	}
	line("Valid values", e.ValidValues)
	line("Default from", strings.Join(e.DefaultFrom, ", "))
	line("Changes", e.UpdateMode)
	line("In Weir", e.Support)
	_, err := w.Write(out.Bytes())
	return err
}

// configNames lists the settings' names, sorted.
func configNames(ofTopics, ofBrokers bool) []string {
	var names []string
	if ofTopics {
		for _, d := range config.TopicDefs() {
			names = append(names, d.Name)
		}
	}
	if ofBrokers {
		for _, d := range config.BrokerDefs() {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// similarConfigs finds settings that hold a name, or that it holds.
func similarConfigs(name string) []string {
	const most = 5
	var near []string
	for _, known := range configNames(true, true) {
		if strings.Contains(known, name) || strings.Contains(name, known) {
			near = append(near, known)
		}
	}
	return near[:min(most, len(near))]
}
