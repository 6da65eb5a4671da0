package broker

import (
	"context"
	"errors"
	"io/fs"

	"weir/cluster"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/log"
)

// startNode opens the metadata log and registers this broker. When it returns, the partitions of the image are open and
// clients can be served.
func (b *Broker) startNode(ctx context.Context) error {
	registration := b.registration()
	node := cluster.New(cluster.Options{
		FS: b.FS, Clock: b.Clock, Logger: b.Logger,
		MetadataDir: b.store.MetadataDir(), DirectoryID: b.store.DirectoryIDs()[b.store.MetadataDir()], ClusterID: b.store.ClusterID(), Self: b.Config.NodeID,
		Registration:   registration,
		Settings:       b.controllerSettings(),
		SessionTimeout: b.Config.Cluster.SessionTimeout,
		Failed:         b.fail,
	})
	node.Subscribe(b.publish())
	err := node.Start(ctx)
	epoch, registered := node.Registered()
	if registered { // also if the start was broken off after that: the next one is compared with this registration
		b.store.SetBrokerEpoch(epoch)
	}
	if err != nil {
		return err
	}
	b.node = node
	return log.WriteRun(b.FS, b.store.MetadataDir(), log.Run{BootID: log.MachineBootID(), Incarnation: registration.Incarnation, BrokerEpoch: epoch})
}

func (b *Broker) controllerSettings() controller.Settings {
	return controller.Settings{
		Self:                        b.Config.NodeID,
		NumPartitions:               b.Config.Topics.NumPartitions,
		DefaultReplicationFactor:    b.Config.Topics.DefaultReplicationFactor,
		MinInSyncReplicas:           b.Config.TopicConfig(nil, nil, nil).MinInsyncReplicas,
		UncleanLeaderElectionEnable: b.Config.TopicConfig(nil, nil, nil).UncleanLeaderElection,
		DeleteTopicEnable:           b.Config.Topics.DeleteEnabled,
		Config:                      b.Config,
	}
}

// registration is what this incarnation says of itself. It names the epoch of the one before only where the logs are
// known to be whole: that one stopped cleanly, or was killed while the machine stayed up (R7).
func (b *Broker) registration() cluster.Registration {
	r := cluster.Registration{Incarnation: kafka.NewUUID(), Listeners: endpoints(b.bound), Rack: b.Config.Rack, PreviousEpoch: -1}
	for _, info := range b.store.Dirs() {
		if info.Offline == nil { // what is offline may not even have an id
			r.Directories = append(r.Directories, info.ID)
		}
	}
	if epoch, clean := b.store.CleanShutdown(); clean {
		r.PreviousEpoch = epoch
	} else if run, err := log.ReadRun(b.FS, b.store.MetadataDir()); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			b.Logger.Warn("the note of the last run cannot be read, and the logs count as not whole", "error", err)
		}
	} else if run.BootID != "" && run.BootID == log.MachineBootID() && !b.store.Lossy() {
		r.PreviousEpoch = run.BrokerEpoch // killed, but the kernel kept what was written
	}
	b.store.SetBrokerEpoch(r.PreviousEpoch) // a start that fails before it registers leaves the logs as whole as it found them
	return r
}

// publish returns the subscriber that makes a change of the metadata known to this broker's parts, in one fixed order:
// replicas first, since coordinators will be the leaders of their partitions; the broker's own settings last.
func (b *Broker) publish() func(*metadata.Delta, *metadata.Image) {
	first := true
	return func(delta *metadata.Delta, img *metadata.Image) {
		b.replicas.Apply(delta, img)
		if first {
			b.replicas.SetStraysAside()
			first = false
		}
		b.coordinate(delta, img)
		b.reconfigure(delta, img)
	}
}
