// Package sim runs whole clusters in one goroutine: the brokers' own code on disks in memory, with a network and a clock that
// are made up, so that a seed decides everything that happens and the same seed makes the same run.
//
// What is real: log.Store on vfs.Mem, replica.Manager with its followers and its ISR proposals, cluster.Node with Raft below and
// the controller in it, and the coordinators of groups. All of it is stepped. What is made up: the network (network.go), what
// clients do (producer.go, consumer.go, groups.go), what gossip says (gossip.go), and what goes wrong (nemesis.go): machines are
// replaced (members.go) and partitions move (reassign.go) besides. There are no sockets and no handlers.
//
// A seed draws a config (config.go): a random part of the faults, of the sizes and of the policies. When the faults are over,
// everything is healed, and the cluster must come to rest. What must be true during the run and at its end is in check.go:
// it knows every record that any replica ever had below its high watermark.
//
// Faults take no more than the replication promises to bear: of the replicas of a partition at most min.insync.replicas - 1
// at a time have lost what they had and are not back in the ISR, fewer while a partition that gets more replicas has not got
// them; and of no set of voters that may count more than a minority have lost their logs of the metadata.
//
// What chance meets too seldom is written down: a scenario (scenario.go) says what happens to one partition. With the build
// tag mutant, TestMutants leaves out one rule of replication after the other, and some run must notice.
//
// Runs must not be parallel: the source of crypto/rand is the process's, and tests seed it.
package sim
