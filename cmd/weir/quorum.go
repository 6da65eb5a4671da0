package main

import "github.com/spf13/cobra"

func newQuorumCommand() *cobra.Command {
	return group(&cobra.Command{
		Use:   "quorum",
		Short: "Recover a cluster that lost the majority of its voters",
	},
		newQuorumRecoverCommand(),
	)
}
