package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/config"
)

func newConfigCommand() *cobra.Command {
	flags := new(clientFlags)
	cmd := group(&cobra.Command{
		Use:   "config",
		Short: "Describe, set, delete and explain the settings of topics, brokers and groups",
		Long: `Describe, set, delete and explain settings. What has settings is named by two words, or by one:

  topic NAME      a topic's own settings
  broker ID       one broker's settings
  cluster         what is set for all brokers at run time
  group NAME      a group's settings
  broker-logger ID, client-metrics NAME
                  a broker's log levels; what clients are asked to report`,
	},
		newConfigDescribeCommand(flags),
		newConfigSetCommand(flags),
		newConfigDeleteCommand(flags),
		newConfigListCommand(flags),
		newConfigExplainCommand(),
	)
	flags.register(cmd)
	return cmd
}

// configResource is what has settings.
type configResource struct {
	kind string // a key of configKinds
	name string // "" for the cluster
}

// configKinds are the words of the command line and the protocol's numbers. The defaults of all brokers are the broker
// without a name.
var configKinds = map[string]kmsg.ConfigResourceType{
	"topic":          kmsg.ConfigResourceTypeTopic,
	"broker":         kmsg.ConfigResourceTypeBroker,
	"cluster":        kmsg.ConfigResourceTypeBroker,
	"group":          kmsg.ConfigResourceTypeGroupConfig,
	"broker-logger":  kmsg.ConfigResourceTypeBrokerLogger,
	"client-metrics": kmsg.ConfigResourceTypeClientMetrics,
}

// configKindNames are the words, in the order of the help.
var configKindNames = []string{"topic", "broker", "cluster", "group", "broker-logger", "client-metrics"}

func (r configResource) String() string { return strings.TrimSpace(r.kind + " " + r.name) }

// parseResource takes the one or two words off the front that name a resource.
func parseResource(args []string) (r configResource, rest []string, err error) {
	if len(args) == 0 {
		return r, nil, usageErrorf("name what has the settings: topic NAME, broker ID, cluster or group NAME")
	}
	r.kind, rest = args[0], args[1:]
	if _, ok := configKinds[r.kind]; !ok {
		return r, nil, usageErrorf("%q has no settings: must be one of %s", r.kind, strings.Join(configKindNames, ", "))
	}
	if r.kind == "cluster" {
		return r, rest, nil
	}
	if len(rest) == 0 || rest[0] == "" {
		return r, nil, usageErrorf("which %s? Its name is missing", r.kind)
	}
	r.name = rest[0]
	return r, rest[1:], nil
}

// fail says what went wrong with a resource.
func (r configResource) fail(doing string, err error, message string) error {
	if r.kind == "topic" && errors.Is(err, kerr.UnknownTopicOrPartition) {
		return topicError(doing+" topic", r.name, err, message)
	}
	return brokerError(doing+" "+r.String(), err, message)
}

// completeResource offers the kinds, then the names, then the settings with what follows their name.
func completeResource(flags *clientFlags, after string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) == 0 {
			return configKindNames, cobra.ShellCompDirectiveNoFileComp
		}
		kind := args[0]
		if len(args) == 1 {
			switch kind {
			case "topic":
				return flags.completeTopics(cmd, nil, typed)
			case "group":
				return flags.completeGroups(cmd, nil, typed)
			}
		}
		if kind != "cluster" && len(args) == 1 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names := configNames(kind == "topic", kind == "broker" || kind == "cluster")
		for i := range names {
			names[i] += after
		}
		directive := cobra.ShellCompDirectiveNoFileComp
		if after != "" {
			directive |= cobra.ShellCompDirectiveNoSpace
		}
		return names, directive
	}
}

func newConfigSetCommand(flags *clientFlags) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:   "set (topic NAME | broker ID | cluster | group NAME) NAME=VALUE...",
		Short: "Change settings",
		Long: `Change settings: name=value sets one, name+=value adds a value to a list, name-=value takes one out of it. Other settings
stay as they are. Either all of the changes are made or none.`,
		Example: `  weir config set topic orders retention.ms=3600000 max.message.bytes=2000000
  weir config set topic orders cleanup.policy+=compact --dry-run
  weir config set cluster log.retention.ms=86400000`,
		Args:              positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: completeResource(flags, "="),
		RunE: func(cmd *cobra.Command, args []string) error {
			resource, rest, err := parseResource(args)
			if err != nil {
				return err
			}
			changes, err := parseChanges(rest)
			if err != nil {
				return err
			}
			for _, c := range changes {
				if hint, ok := misplaced(resource, c.Name); ok {
					fmt.Fprintf(cmd.ErrOrStderr(), "weir: %s\n", hint)
				}
			}
			return flags.alter(cmd, resource, changes, dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "ask the broker whether it would, and change nothing")
	return cmd
}

type configChange = kmsg.IncrementalAlterConfigsRequestResourceConfig

// parseChanges reads name=value, name+=value and name-=value. The value may be empty and may hold further equals signs.
func parseChanges(args []string) ([]configChange, error) {
	if len(args) == 0 {
		return nil, usageErrorf("give at least one name=value")
	}
	var changes []configChange
	for _, arg := range args {
		name, value, ok := strings.Cut(arg, "=")
		op := kmsg.IncrementalAlterConfigOpSet
		if plain, plus := strings.CutSuffix(name, "+"); plus {
			name, op = plain, kmsg.IncrementalAlterConfigOpAppend
		} else if plain, minus := strings.CutSuffix(name, "-"); minus {
			name, op = plain, kmsg.IncrementalAlterConfigOpSubtract
		}
		if !ok || name == "" {
			return nil, usageErrorf("%q is not of the form name=value, name+=value or name-=value", arg)
		}
		changes = append(changes, configChange{Op: op, Name: name, Value: &value})
	}
	return changes, nil
}

func newConfigDeleteCommand(flags *clientFlags) *cobra.Command {
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "delete (topic NAME | broker ID | cluster | group NAME) NAME...",
		Aliases: []string{"unset"},
		Short:   "Take settings back, so that the default counts again",
		Example: `  weir config delete topic orders retention.ms
  weir config delete cluster log.retention.ms`,
		Args:              positional(cobra.MinimumNArgs(1)),
		ValidArgsFunction: completeResource(flags, ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			resource, names, err := parseResource(args)
			if err != nil {
				return err
			}
			if len(names) == 0 {
				return usageErrorf("name the settings to delete")
			}
			var changes []configChange
			for _, name := range names {
				changes = append(changes, configChange{Op: kmsg.IncrementalAlterConfigOpDelete, Name: name})
			}
			return flags.alter(cmd, resource, changes, dryRun)
		},
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "ask the broker whether it would, and change nothing")
	return cmd
}

// alter changes settings of one resource (KIP-339).
func (f *clientFlags) alter(cmd *cobra.Command, r configResource, changes []configChange, dryRun bool) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = dryRun
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName, resource.Configs = configKinds[r.kind], r.name, changes
	req.Resources = append(req.Resources, resource)
	return f.request(cmd, func(ctx context.Context, client *kgo.Client) error {
		if err := checkDeleted(ctx, client, r, changes); err != nil {
			return err
		}
		resp, err := req.RequestWith(ctx, client)
		if err != nil {
			return fmt.Errorf("changing settings of %v: %w", r, err)
		}
		for _, answer := range resp.Resources {
			if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
				return r.fail("changing settings of", err, textOf(answer.ErrorMessage))
			}
		}
		done := "Changed"
		if dryRun {
			done = "The broker would change"
		}
		names := make([]string, len(changes))
		for i, c := range changes {
			names[i] = c.Name
		}
		_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s %s of %v.\n", done, strings.Join(names, ", "), r)
		return err
	})
}

// checkDeleted finds names that are misspelled: a broker deletes what was never set without a word.
func checkDeleted(ctx context.Context, client *kgo.Client, r configResource, changes []configChange) error {
	var names []string
	for _, c := range changes {
		if c.Op != kmsg.IncrementalAlterConfigOpDelete {
			continue
		}
		if _, known := config.LookupBroker(c.Name); known && r.kind == "cluster" {
			continue // the description of all brokers holds only what is set
		}
		names = append(names, c.Name)
	}
	if len(names) == 0 {
		return nil
	}
	_, err := new(configDescribeFlags).ask(ctx, client, r, names)
	return err
}

// misplaced says what to set instead of a topic's setting that somebody wants to give a broker. Brokers take it without a
// word, since it might be a plug-in's.
func misplaced(r configResource, name string) (hint string, ok bool) {
	topic, ofTopics := config.LookupTopic(name)
	_, ofBrokers := config.LookupBroker(name)
	if !ofTopics || ofBrokers || r.kind != "broker" && r.kind != "cluster" {
		return "", false
	}
	hint = name + " is a setting of topics and has no effect here"
	if len(topic.Synonyms) > 0 {
		hint += "; topics without one of their own go by the broker's " + topic.Synonyms[0]
	}
	return hint, true
}

// listedResource is a line of `weir config list -o json`.
type listedResource struct {
	Type string `json:"type"`
	Name string `json:"name"`
}

func newConfigListCommand(flags *clientFlags) *cobra.Command {
	var output outputFormat
	var kinds []string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Print what can have settings of its own: topics, brokers, groups, client metrics",
		Args:  positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			req := kmsg.NewPtrListConfigResourcesRequest()
			for _, kind := range kinds {
				typ, ok := configKinds[kind]
				if !ok || kind == "cluster" {
					return usageErrorf("--type %q: must be one of %s", kind, strings.Join(listedKinds(), ", "))
				}
				req.ResourceTypes = append(req.ResourceTypes, int8(typ))
			}
			return flags.request(cmd, func(ctx context.Context, client *kgo.Client) error {
				resp, err := req.RequestWith(ctx, client)
				if err == nil {
					err = kerr.ErrorForCode(resp.ErrorCode)
				}
				if err != nil {
					return fmt.Errorf("listing resources: %w", err)
				}
				return writeResources(cmd, output, resp.ConfigResources)
			})
		},
	}
	output.register(cmd)
	cmd.Flags().StringSliceVar(&kinds, "type", nil, "only these `types`, separated by commas: "+strings.Join(listedKinds(), ", "))
	completeWords(cmd, "type", listedKinds()...)
	return cmd
}

// listedKinds are those that can be listed: there is only one cluster.
func listedKinds() []string {
	return slices.DeleteFunc(slices.Clone(configKindNames), func(kind string) bool { return kind == "cluster" })
}

func writeResources(cmd *cobra.Command, output outputFormat, resources []kmsg.ListConfigResourcesResponseConfigResource) error {
	var listed []listedResource
	for _, r := range resources {
		for _, kind := range listedKinds() {
			if configKinds[kind] == kmsg.ConfigResourceType(r.Type) {
				listed = append(listed, listedResource{kind, r.Name})
			}
		}
	}
	slices.SortFunc(listed, func(a, b listedResource) int {
		return strings.Compare(a.Type+"\x00"+a.Name, b.Type+"\x00"+b.Name)
	})
	if output == outputJSON {
		return writeJSONLines(cmd.OutOrStdout(), listed)
	}
	for _, r := range listed {
		if _, err := fmt.Fprintln(cmd.OutOrStdout(), r.Type, r.Name); err != nil {
			return err
		}
	}
	return nil
}
