package broker

import (
	"context"

	"weir/broker/config"
	"weir/cluster"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/kafka"
	"weir/log"
)

// startNode opens the metadata log and registers this broker. When it returns, the partitions of the image are open and
// clients can be served.
func (b *Broker) startNode(ctx context.Context) error {
	registration, err := b.registration()
	if err != nil {
		return err
	}
	c, founded := b.Config, b.founded
	o := cluster.Options{
		FS: b.FS, Clock: b.Clock, Logger: b.Logger,
		MetadataDir: b.store.MetadataDir(), DirectoryID: b.metadataDirectory(), ClusterID: b.store.ClusterID(), Self: c.NodeID,
		Roles:    cluster.Roles{NoBroker: !c.Roles.Broker, NoController: !c.Roles.Controller},
		Founders: founded.Founders, Join: founded.Join, Peers: gossipingPeers{b.others.peers, b.gossip},
		Registration:      registration,
		Settings:          b.controllerSettings(),
		HeartbeatInterval: c.Cluster.HeartbeatInterval, SessionTimeout: c.Cluster.SessionTimeout, ElectionTimeout: c.Quorum.ElectionTimeout,
		SelfFence: c.Cluster.SelfFence, LeaseLost: b.fence.leaseLost,
		MaxVoters: c.Quorum.MaxVoters, RegistrationTimeout: c.Cluster.RegistrationTimeout, DirFailureTimeout: c.Cluster.DirFailureTimeout,
		Stalled: b.store.Stalled, Failed: b.fail,
	}
	if c.Replication.AutoLeaderRebalance {
		o.BalanceInterval = c.Replication.ImbalanceCheck
	}
	o.Address = b.address()
	node := cluster.New(o)
	node.Subscribe(b.publish())
	b.node = node
	b.incarnation = registration.Incarnation
	b.belongs()
	b.gossip.begin()
	err = node.Start(ctx)
	epoch, registered := node.Registered()
	if registered { // also if the start was broken off after that: the next one is compared with this registration
		b.store.SetBrokerEpoch(epoch)
	}
	if err != nil || !c.Roles.Broker {
		return err
	}
	return b.noteRegistered(epoch)
}

// metadataDirectory is the id of the directory that the metadata log lives in.
func (b *Broker) metadataDirectory() kafka.DirectoryID {
	id, _ := b.directoryID(b.store.MetadataDir())
	return id
}

// directoryID finds the id of a data directory.
func (b *Broker) directoryID(dir string) (kafka.DirectoryID, bool) {
	for _, info := range b.store.Dirs() {
		if info.Path == dir {
			return info.ID, !info.ID.IsZero()
		}
	}
	return kafka.DirectoryID{}, false
}

func (b *Broker) controllerSettings() controller.Settings {
	return controller.Settings{
		Self:                        b.Config.NodeID,
		NumPartitions:               b.Config.Topics.NumPartitions,
		DefaultReplicationFactor:    b.Config.Topics.DefaultReplicationFactor,
		MinInSyncReplicas:           b.Config.TopicConfig(nil, nil, nil).MinInsyncReplicas,
		UncleanLeaderElectionEnable: b.Config.TopicConfig(nil, nil, nil).UncleanLeaderElection,
		DeleteTopicEnable:           b.Config.Topics.DeleteEnabled,

		OffsetsTopicReplicationFactor:     b.Config.Offsets.TopicReplicationFactor,
		TransactionTopicReplicationFactor: b.Config.Transactions.TopicReplicationFactor,
		Config:                            b.Config,
	}
}

// registration is what this incarnation says of itself, and of the one before.
func (b *Broker) registration() (cluster.Registration, error) {
	r := cluster.Registration{Incarnation: kafka.NewUUID(), Listeners: endpoints(b.listening(), b.forBrokers), Rack: b.Config.Rack}
	for _, info := range b.store.Dirs() {
		if info.Offline == nil { // what is offline may not even have an id
			r.Directories = append(r.Directories, info.ID)
		}
	}
	previous := b.store.PreviousRun(log.MachineBootID())
	r.PreviousEpoch, r.PreviousIncarnations = previous.BrokerEpoch, previous.Incarnations
	b.store.SetBrokerEpoch(r.PreviousEpoch) // a start that fails before it registers leaves the logs as whole as it found them
	// Before anything is said to the controller: should this process die before it has an answer, the next one knows whose
	// logs it has.
	return r, b.follow(previous, r.Incarnation)
}

// forBrokers says which listeners a registration names: those of clients, and that of the brokers.
func (b *Broker) forBrokers(l config.Listener) bool {
	return !l.Controller || l.Name == b.Config.InterBrokerListener
}

// publish returns the subscriber that makes a change of the metadata known to this broker's parts, in one fixed order: the
// ways to other brokers, over which partitions are fetched; replicas, since coordinators will be the leaders of their
// partitions; the broker's own settings last.
func (b *Broker) publish() func(*metadata.Delta, *metadata.Image) {
	first := true
	return func(delta *metadata.Delta, img *metadata.Image) {
		b.gossip.setKey(img.GossipKey)
		b.others.links.Apply(delta, img)
		b.replicas.Apply(delta, img)
		b.others.places.Apply(delta, img)
		for _, change := range delta.Brokers {
			b.others.fetchers.Retry(change.ID)
		}
		if first {
			b.replicas.SetStraysAside()
			first = false
		}
		b.coordinate(delta, img)
		b.reconfigure(delta, img)
		b.countUnclean(delta)
		b.tellAddress(img)
	}
}
