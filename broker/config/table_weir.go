package config

// weirTable: what Kafka has no name for. Limits whose Kafka name has a default without effect ("unlimited") have a finite
// default here; where both apply the lower counts.
var weirTable = []Def{
	{Name: "weir.fsync.policy", Type: String, Default: "background", Valid: oneOf{"background", "ack", "never"},
		Doc: "When records reach the disk. background: acknowledged from the page cache, synced every second, so a power cut may lose the last second; ack: synced before acks=1 and acks=all are answered; never: left to the system, for tests. A crash of the process loses nothing in any of them."},
	{Name: "weir.record.validation", Type: String, Default: "full", Valid: oneOf{"full", "batch"},
		Doc: "How closely produced batches are checked. full: every record, as Kafka does; batch: header and checksum only."},
	{Name: "weir.metadata.version", Type: Int, Default: "30", Valid: between(7, 30),
		Doc: "The metadata.version that a new cluster is finalized at, which tells clients what its brokers can do."},
	{Name: "weir.peer.port", Type: Int, Default: "0", Valid: between(0, 65535),
		Doc: "Port of the listener that brokers talk over where no Kafka listener is set for that; 0 takes any free one."},
	{Name: "weir.broker.self.fence", Type: Boolean, Default: "false", Stance: Accept,
		Doc: "Whether a broker that has lost contact with the controller stops serving its partitions at once instead of until it hears of a new leader."},
	{Name: "weir.http.listeners", Type: List, Default: "",
		Doc: "Where metrics for Prometheus (/metrics), health (/healthz, /readyz) and profiles (/debug/pprof) are served, as host:port, ...; nowhere if empty. Port 0 takes any free one."},
	{Name: "weir.limit.inflight.bytes", Type: Long, Default: "0", Valid: atLeast(0),
		Doc: "Bytes of all requests being read or worked on; readers wait above it. 0 is a quarter of the memory that the process may use."},
	{Name: "weir.limit.frame.read.ms", Type: Int, Default: "30000", Valid: atLeast(1),
		Doc: "How long a request may take to arrive once its first byte is there, besides the time that weir.limit.frame.read.bytes.per.second grants its length."},
	{Name: "weir.limit.frame.read.bytes.per.second", Type: Int, Default: "1024", Valid: atLeast(1),
		Doc: "Slowest rate at which a long request may arrive."},
	{Name: "weir.limit.write.ms", Type: Int, Default: "60000", Valid: atLeast(1),
		Doc: "How long a client may leave an answer unread before its connection is closed."},
	{Name: "weir.limit.connections", Type: Int, Default: "10000", Valid: atLeast(1),
		Doc: "Largest number of client connections at a time. The lower of this and max.connections counts; a fifth of the files that the process may have bounds both."},
	{Name: "weir.limit.connections.per.ip", Type: Int, Default: "1000", Valid: atLeast(1),
		Doc: "Largest number of client connections from one address at a time; loopback has no such limit. The lower of this and max.connections.per.ip counts."},
	{Name: "weir.limit.connections.per.second", Type: Int, Default: "200", Valid: atLeast(1),
		Doc: "Largest number of new client connections a second, those from loopback not counted."},
}
