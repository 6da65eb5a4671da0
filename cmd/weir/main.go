package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// The exit codes are part of the command's interface; scripts tell by them whether trying again may help.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, newRootCommand(), os.Args[1:]))
}

// run executes one command line and returns its exit code. The error, if any, is printed here and nowhere else.
func run(ctx context.Context, root *cobra.Command, args []string) int {
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitOK
	}
	for line := range strings.Lines(err.Error()) { // several errors are a line each
		fmt.Fprintf(root.ErrOrStderr(), "weir: %s\n", strings.TrimSuffix(line, "\n"))
	}
	var coded *exitError
	if !errors.As(err, &coded) {
		return exitFailed
	}
	if coded.showUsage {
		fmt.Fprintf(root.ErrOrStderr(), "Run '%s --help' for usage.\n", cmd.CommandPath())
	}
	return coded.code
}

func newRootCommand() *cobra.Command {
	root := group(&cobra.Command{
		Use:   "weir",
		Short: "A broker that speaks Apache Kafka's protocol, and a client for any such broker",
		Long: `Weir is a message broker in one binary that speaks Apache Kafka's wire protocol.

It is also a client: the other verbs work against any Kafka-compatible broker, but for 'weir quorum', which works on a
stopped node's files.

Exit codes: 0 done, 1 failed, 2 wrong command line or configuration.`,
	},
		newServeCommand(),
		newTopicCommand(),
		newGroupCommand(),
		newConfigCommand(),
		newClusterCommand(),
		newQuorumCommand(),
		newProduceCommand(),
		newConsumeCommand(),
		newVersionCommand(),
	)
	root.SilenceErrors = true
	root.SilenceUsage = true
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError(err) })
	return root
}

// group makes a command that only holds others. By itself it prints its help; with a word that is none of its verbs it
// fails, which cobra would do at the root only.
func group(cmd *cobra.Command, verbs ...*cobra.Command) *cobra.Command {
	cmd.AddCommand(verbs...)
	cmd.Args = cobra.ArbitraryArgs
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		hint := ""
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			hint = "; did you mean " + strings.Join(near, " or ") + "?"
		}
		return usageErrorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
	}
	cmd.SuggestionsMinimumDistance = 2
	return cmd
}

// exitError is an error that says which code the process ends with.
type exitError struct {
	code      int
	showUsage bool // point to --help
	err       error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usageError marks err as a mistake in the command line: exit code 2 and a pointer to the help.
func usageError(err error) error { return &exitError{code: exitUsage, showUsage: true, err: err} }

func usageErrorf(format string, args ...any) error { return usageError(fmt.Errorf(format, args...)) }

// positional makes the violation of an argument rule a usage error.
func positional(rule cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := rule(cmd, args); err != nil {
			return usageError(err)
		}
		return nil
	}
}
