package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

func newVersionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the commit and the Go release that this binary was built from",
		Args:  positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			_, err := fmt.Fprintln(cmd.OutOrStdout(), versionLine(info))
			return err
		},
	}
}

// versionLine describes a build: "weir v1.2.3 (commit 0123456789ab, 2026-01-02T03:04:05Z, modified) go1.26 linux/amd64".
// What the build did not record is left out.
func versionLine(info *debug.BuildInfo) string {
	commit := ""
	if info != nil {
		commit = commitOf(info)
	}
	return fmt.Sprintf("weir %s%s %s %s/%s", moduleVersion(info), commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

func moduleVersion(info *debug.BuildInfo) string {
	switch {
	case info == nil:
		return "unknown"
	case info.Main.Version == "", info.Main.Version == "(devel)":
		return "devel"
	}
	return info.Main.Version
}

// softwareVersion is what clients tell brokers of themselves. KIP-511 allows letters, digits, dots and hyphens; a
// version of a changed work tree has a plus sign.
func softwareVersion() string {
	info, _ := debug.ReadBuildInfo()
	return strings.ReplaceAll(moduleVersion(info), "+", "-")
}

func commitOf(info *debug.BuildInfo) string {
	setting := make(map[string]string)
	for _, s := range info.Settings {
		setting[s.Key] = s.Value
	}
	revision := setting["vcs.revision"]
	if revision == "" {
		return ""
	}
	text := " (commit " + revision[:min(12, len(revision))]
	if at := setting["vcs.time"]; at != "" {
		text += ", " + at
	}
	if setting["vcs.modified"] == "true" {
		text += ", modified"
	}
	return text + ")"
}
