package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"weir/broker/config"
	"weir/cluster"
	"weir/internal/clock"
	"weir/internal/vfs"
	"weir/log"
)

// recoverFlags are those of `weir quorum recover`. The settings are found as `weir serve` finds them.
type recoverFlags struct {
	file        string
	overrides   []string
	dataDir     string
	metadataDir string
	force       bool
	output      outputFormat
}

func newQuorumRecoverCommand() *cobra.Command {
	var flags recoverFlags
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Make a stopped node the only voter, when the majority is lost for good",
		Long: `Make a stopped node the only voter of its cluster, with the metadata that it has: the last resort, when the majority of the
voters will never be back. Without --force nothing is changed, and it is only printed what there is.

Do that on every node that is left, and recover the one whose log has the highest term, and of those with that term the one with the
highest index. What others had decided beyond that is lost, and nobody can tell what it was. Never recover two nodes of one cluster:
they would be two clusters of the same name.

The directory is found as "weir serve" finds it: give the same --config, --data-dir and --override, in the same environment.`,
		Example: `  weir quorum recover --data-dir n3
  weir quorum recover --config server.properties --force`,
		Args: positional(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return flags.run(cmd.OutOrStdout()) },
	}
	f := cmd.Flags()
	f.StringVarP(&flags.file, "config", "c", "", "read settings from this `file` (server.properties)")
	f.StringArrayVar(&flags.overrides, "override", nil, "set `name=value`; may be given often")
	f.StringVar(&flags.dataDir, "data-dir", "", "the node's data `folder`; of several the first one has the metadata log")
	f.StringVar(&flags.metadataDir, "metadata-dir", "", "the `folder` of the metadata log, where it is another one (metadata.log.dir)")
	f.BoolVar(&flags.force, "force", false, "do it")
	flags.output.register(cmd)
	return cmd
}

// quorumRecovery is the line of `weir quorum recover -o json`.
type quorumRecovery struct {
	Term       int64           `json:"term"` // of the last entry of the node's log; the higher the better, the index next
	Index      int64           `json:"index"`
	Cluster    string          `json:"cluster"`
	Node       int32           `json:"node"`
	Directory  string          `json:"directory"` // that the metadata log is in
	Brokers    int             `json:"brokers"`
	Topics     int             `json:"topics"`
	Partitions int             `json:"partitions"`
	Others     []recoveredPeer `json:"others"` // members of the quorum that lose their votes
	Recovered  bool            `json:"recovered"`
	NewTerm    int64           `json:"newTerm"` // where the log goes on
	NewIndex   int64           `json:"newIndex"`
	Backup     string          `json:"backup,omitempty"` // where the old log is now
}

type recoveredPeer struct {
	Node    int32  `json:"node"`
	Address string `json:"address"` // where its peers reached it; "" where nobody knows
}

func (f *recoverFlags) run(out io.Writer) error {
	dir, err := f.directory()
	if err != nil {
		return err
	}
	fsys := vfs.OS()
	switch _, err := log.ReadMetaProperties(fsys, dir); {
	case errors.Is(err, fs.ErrNotExist):
		return usageLine(fmt.Errorf("%s is no data directory of a node: it has no meta.properties", dir))
	case err != nil:
		return err
	}
	r, err := cluster.RecoverQuorum(fsys, dir, clock.System().Now(), f.force)
	if errors.As(err, new(vfs.ErrLocked)) {
		return fmt.Errorf("the node of %s runs: stop it first, and see that nothing starts it meanwhile", dir)
	}
	if err != nil {
		return err
	}
	report := newQuorumRecovery(r, dir)
	if f.output == outputJSON {
		return writeJSON(out, report)
	}
	report.write(out)
	return nil
}

// directory is where `weir serve` with the same settings keeps its metadata log.
func (f *recoverFlags) directory() (string, error) {
	overrides := f.overrides
	if f.metadataDir != "" {
		overrides = append(slices.Clone(overrides), "metadata.log.dir="+f.metadataDir)
	}
	settings, _, err := config.Load(config.Inputs{File: f.file, Env: os.Environ(), Overrides: overrides, DataDir: f.dataDir, Host: config.LocalHost()})
	if err != nil {
		return "", usageLine(err)
	}
	return filepath.Clean(settings.MetadataDir), nil
}

func newQuorumRecovery(r *cluster.QuorumRecovery, dir string) *quorumRecovery {
	report := &quorumRecovery{
		Term: r.LastTerm, Index: r.LastIndex, Cluster: r.ClusterID, Node: int32(r.Self.Node), Directory: dir,
		Brokers: r.Brokers, Topics: r.Topics, Partitions: r.Partitions, Others: []recoveredPeer{},
		Recovered: r.Backup != "", NewTerm: r.Term, NewIndex: r.Index, Backup: r.Backup,
	}
	for _, m := range r.Others {
		peer := recoveredPeer{Node: int32(m.Node)}
		if m.Host != "" {
			peer.Address = config.Voter{Host: m.Host, Port: m.Port}.Address()
		}
		report.Others = append(report.Others, peer)
	}
	slices.SortFunc(report.Others, func(a, b recoveredPeer) int { return int(a.Node) - int(b.Node) })
	return report
}

func (r *quorumRecovery) write(w io.Writer) {
	fmt.Fprintf(w, "Term, index:  %d, %d\n", r.Term, r.Index)
	fmt.Fprintf(w, "Node:         %d of cluster %s, in %s\n", r.Node, r.Cluster, r.Directory)
	fmt.Fprintf(w, "Knows:        %d brokers, %d topics with %d partitions\n", r.Brokers, r.Topics, r.Partitions)
	var others []string
	for _, o := range r.Others {
		others = append(others, fmt.Sprintf("node %d (%s)", o.Node, orDash(o.Address)))
	}
	fmt.Fprintf(w, "Others:       %s\n\n", orDash(strings.Join(others, ", ")))
	if !r.Recovered {
		fmt.Fprint(w, recoverPlan)
		return
	}
	fmt.Fprintf(w, "Node %d is the only voter now. Its old metadata log is in %s.\n%s", r.Node, r.Backup, recoverNext)
}

const recoverPlan = `Nothing was changed. With --force this node becomes the only voter, by what its log has. Do that on one node alone: the one with the
highest term, and of those with that term the highest index. What the others had decided beyond it is lost: topics, settings, and
which replicas are in sync. So none counts as in sync: of a partition, this node's replica leads if it was in sync by this log,
otherwise that of the last leader, once it is back with its disk.
`

const recoverNext = `
Next:
 1. Start this node as ever.
 2. Start the others that have their disks: they follow it. Those that lost theirs come with an empty data directory, as new nodes
    ("weir serve --join" and the address of this node).
 3. "weir cluster status" counts the partitions that are offline: their last leader is not back. Where it never will be, any other
    replica can lead, and what that one lacks is lost: "weir topic elect-leaders TOPIC --unclean"
 4. Move the replicas of nodes that will not be back ("weir cluster drain NODE"), and remove these ("weir cluster remove NODE").
`
