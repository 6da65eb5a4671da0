package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// configDescription is a line of `weir config describe -o json`.
type configDescription struct {
	Name          string          `json:"name"`
	Value         *string         `json:"value"` // null where there is none, and where it is secret
	Source        string          `json:"source"`
	Type          string          `json:"type"`
	ReadOnly      bool            `json:"readOnly"`
	Sensitive     bool            `json:"sensitive"`
	Synonyms      []configSynonym `json:"synonyms,omitempty"`
	Documentation string          `json:"documentation,omitempty"`
}

// configSynonym is a place where a value was found; the first is in force, the next would be without it.
type configSynonym struct {
	Name   string  `json:"name"`
	Value  *string `json:"value"`
	Source string  `json:"source"`
}

type configDescribeFlags struct {
	changed       bool
	synonyms      bool
	documentation bool
	output        outputFormat
}

func newConfigDescribeCommand(flags *clientFlags) *cobra.Command {
	describe := new(configDescribeFlags)
	cmd := &cobra.Command{
		Use:   "describe (topic NAME | broker ID | cluster | group NAME) [SETTING...]",
		Short: "Print settings with their value and where it comes from",
		Long: `Print settings with the value that is in force and where it comes from; with names, only those settings. A "-" stands
for no value.`,
		Example: `  weir config describe topic orders
  weir config describe topic orders retention.ms --synonyms
  weir config describe broker 1 --changed
  weir config describe cluster -o json`,
		Args:              positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: completeResource(flags, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			resource, names, err := parseResource(args)
			if err != nil {
				return err
			}
			return flags.request(cmd, func(ctx context.Context, client *kgo.Client) error {
				configs, err := describe.ask(ctx, client, resource, names)
				return errors.Join(err, describe.write(cmd.OutOrStdout(), configs))
			})
		},
	}
	f := cmd.Flags()
	f.BoolVar(&describe.changed, "changed", false, "leave out the settings that have their default")
	f.BoolVar(&describe.synonyms, "synonyms", false, "print every place where a value was found, in the order in which they count")
	f.BoolVar(&describe.documentation, "documentation", false, "print what the broker says about the setting")
	describe.output.register(cmd)
	return cmd
}

// ask returns the settings by name, and an error for those that are asked for and not there.
func (f *configDescribeFlags) ask(ctx context.Context, client *kgo.Client, r configResource, names []string) ([]configDescription, error) {
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = f.synonyms, f.documentation
	resource := kmsg.NewDescribeConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.ConfigNames = configKinds[r.kind], r.name, names
	req.Resources = append(req.Resources, resource)
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return nil, fmt.Errorf("describing settings of %v: %w", r, err)
	}
	var configs []configDescription
	for _, answer := range resp.Resources {
		if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
			return nil, r.fail("describing settings of", err, textOf(answer.ErrorMessage))
		}
		for _, c := range answer.Configs {
			if !f.changed || c.Source != kmsg.ConfigSourceDefaultConfig {
				configs = append(configs, newConfigDescription(c))
			}
		}
	}
	slices.SortFunc(configs, func(a, b configDescription) int { return strings.Compare(a.Name, b.Name) })
	var missing []error
	for _, name := range names {
		if !f.changed && !slices.ContainsFunc(configs, func(c configDescription) bool { return c.Name == name }) {
			missing = append(missing, fmt.Errorf("%v has no setting %s", r, name))
		}
	}
	return configs, errors.Join(missing...)
}

func newConfigDescription(c kmsg.DescribeConfigsResponseResourceConfig) configDescription {
	d := configDescription{
		Name: c.Name, Value: c.Value, Source: c.Source.String(), Type: strings.ToLower(c.ConfigType.String()),
		ReadOnly: c.ReadOnly, Sensitive: c.IsSensitive, Documentation: textOf(c.Documentation),
	}
	for _, s := range c.ConfigSynonyms {
		d.Synonyms = append(d.Synonyms, configSynonym{s.Name, s.Value, s.Source.String()})
	}
	return d
}

func (f *configDescribeFlags) write(w io.Writer, configs []configDescription) error {
	if f.output == outputJSON {
		return writeJSONLines(w, configs)
	}
	if len(configs) == 0 {
		return nil
	}
	header := []string{"NAME", "VALUE", "SOURCE"}
	if f.synonyms {
		header = append(header, "SYNONYMS")
	}
	if f.documentation {
		header = append(header, "DOCUMENTATION")
	}
	var rows [][]string
	for _, c := range configs {
		row := []string{c.Name, configText(c.Value, c.Sensitive), c.Source}
		if f.synonyms {
			var synonyms []string
			for _, s := range c.Synonyms {
				synonyms = append(synonyms, s.Source+":"+s.Name+"="+configText(s.Value, c.Sensitive))
			}
			row = append(row, orDash(strings.Join(synonyms, ", ")))
		}
		if f.documentation {
			row = append(row, orDash(strings.Join(strings.Fields(c.Documentation), " ")))
		}
		rows = append(rows, row)
	}
	return writeTable(w, header, rows)
}

// configText is a value in a table.
func configText(value *string, sensitive bool) string {
	switch {
	case sensitive:
		return "(sensitive)"
	case value == nil:
		return "-"
	}
	return strings.Join(strings.Fields(*value), " ")
}
