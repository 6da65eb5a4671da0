package broker

import (
	"slices"

	"weir/cluster/metadata"
)

// reconfigure follows the dynamic settings of this broker. What topics inherit of them the replicas have taken already
// (replica.Manager.Apply).
func (b *Broker) reconfigure(delta *metadata.Delta, img *metadata.Image) {
	if !slices.ContainsFunc(delta.Configs, func(r metadata.ConfigResource) bool { return r.Type == metadata.BrokerResource }) {
		return
	}
	settings := b.Config.Dynamic(img.Configs.BrokerDefault(), img.Configs.Broker(b.Config.NodeID))
	b.server.SetConnectionLimits(connectionLimits(settings, b.Connections))
	b.others.fetchers.SetPerLeader(int(settings.NumReplicaFetchers))
	now := b.Clock.Now()
	b.replicas.Throttle.SetRate(now, settings.LeaderThrottledRate)
	b.others.fetchers.SetRate(now, settings.FollowerThrottledRate)
	b.replicas.Moves().SetRate(now, settings.AlterLogDirsRate)
	b.store.SetProducerExpiration(settings.ProducerIDExpiration.Milliseconds())
}
