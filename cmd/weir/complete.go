package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// completionTimeout bounds what a shell asks for while somebody types.
const completionTimeout = 2 * time.Second

// completeTopics offers the topics' names, except those that the command line has already.
func (f *clientFlags) completeTopics(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return f.complete(cmd, args, func(ctx context.Context, admin *kadm.Client) []string {
		topics, _ := admin.ListTopicsWithInternal(ctx)
		return topics.Names()
	})
}

// completeGroups offers the groups' names.
func (f *clientFlags) completeGroups(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	return f.complete(cmd, args, func(ctx context.Context, admin *kadm.Client) []string {
		groups, _ := admin.ListGroups(ctx)
		return groups.Groups()
	})
}

// complete asks the brokers for names. Without an answer there is nothing to offer, and no word about it: it would land
// in the middle of a command line.
func (f *clientFlags) complete(cmd *cobra.Command, args []string, ask func(context.Context, *kadm.Client) []string) ([]string, cobra.ShellCompDirective) {
	client, err := kgo.NewClient(kgo.SeedBrokers(f.bootstrap...), kgo.ClientID("weir"), kgo.DisableClientMetrics(), kgo.RetryTimeout(completionTimeout))
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTimeout)
	defer cancel()
	if client.Ping(ctx) != nil { // which does not try again where no connection comes about, unlike other requests
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := slices.DeleteFunc(ask(ctx, kadm.NewClient(client)), func(name string) bool { return slices.Contains(args, name) })
	return names, cobra.ShellCompDirectiveNoFileComp
}

// completeWords offers the words that a flag takes.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	// It fails only for a flag that does not exist.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
}

// completeFirst is a completion of the first argument only.
func completeFirst(complete cobra.CompletionFunc) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return complete(cmd, args, typed)
	}
}
