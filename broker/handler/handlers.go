package handler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/broker/config"
	"weir/broker/replica"
	"weir/cluster/controller"
	"weir/cluster/metadata"
	"weir/internal/clock"
	"weir/internal/kafka"
)

// Controller takes commands that change the cluster's metadata. Submit returns when the change is published on this
// broker, so that a client that got its answer finds what it made.
type Controller interface {
	Submit(ctx context.Context, cmd controller.Command) (controller.Reply, error)
}

// Directories tells about the broker's log directories.
type Directories interface {
	// Describe returns one entry for each configured directory, offline ones included.
	Describe() []Directory
}

// Directory is one log directory.
type Directory struct {
	Path          string
	Err           error // why it is offline
	Total, Usable int64 // bytes of the file system
}

// Options are what handlers work on. All fields are required.
type Options struct {
	Self        kafka.BrokerID
	Image       func() *metadata.Image
	Controller  Controller
	Replicas    *replica.Manager
	Directories Directories
	Groups      Groups
	Config      *config.Server
	Clock       clock.Clock
	Stopping    <-chan struct{} // closed when the broker stops: who waits for records is answered
	Logger      *slog.Logger
}

// Handlers answers the requests of one broker.
type Handlers struct {
	Options
	sessions    *sessions
	producerIDs producerIDs
}

// New returns the handlers of a broker.
func New(o Options) *Handlers {
	return &Handlers{Options: o, sessions: newSessions(o.Config.Fetch.SessionSlots)}
}

// Handle answers r. The edge has checked that key and version stand in the API table.
func (h *Handlers) Handle(r *Request) Reply {
	return table[r.Header.Key](h, r)
}

type handlerFunc func(*Handlers, *Request) Reply

// on adapts a handler of one kind of request to the table.
func on[T kmsg.Request](f func(*Handlers, *Request, T) Reply) handlerFunc {
	return func(h *Handlers, r *Request) Reply { return f(h, r, r.Body.(T)) }
}

// table has a handler for each key of the API table; a test holds them equal.
var table = map[int16]handlerFunc{
	0:  on((*Handlers).produce),
	1:  on((*Handlers).fetch),
	2:  on((*Handlers).listOffsets),
	3:  on((*Handlers).metadata),
	8:  on((*Handlers).offsetCommit),
	9:  on((*Handlers).offsetFetch),
	10: on((*Handlers).findCoordinator),
	11: on((*Handlers).joinGroup),
	12: on((*Handlers).heartbeat),
	13: on((*Handlers).leaveGroup),
	14: on((*Handlers).syncGroup),
	15: on((*Handlers).describeGroups),
	16: on((*Handlers).listGroups),
	18: on((*Handlers).apiVersions),
	19: on((*Handlers).createTopics),
	20: on((*Handlers).deleteTopics),
	21: on((*Handlers).deleteRecords),
	22: on((*Handlers).initProducerID),
	23: on((*Handlers).offsetForLeaderEpoch),
	32: on((*Handlers).describeConfigs),
	33: on((*Handlers).alterConfigs),
	34: on((*Handlers).alterReplicaLogDirs),
	35: on((*Handlers).describeLogDirs),
	37: on((*Handlers).createPartitions),
	42: on((*Handlers).deleteGroups),
	43: on((*Handlers).electLeaders),
	44: on((*Handlers).incrementalAlterConfigs),
	45: on((*Handlers).alterPartitionReassignments),
	46: on((*Handlers).listPartitionReassignments),
	47: on((*Handlers).offsetDelete),
	55: on((*Handlers).describeQuorum),
	60: on((*Handlers).describeCluster),
	61: on((*Handlers).describeProducers),
	64: on((*Handlers).unregisterBroker),
	74: on((*Handlers).listConfigResources),
	75: on((*Handlers).describeTopicPartitions),
	81: on((*Handlers).removeRaftVoter),
}

// submit runs a controller command within the request's own timeout (milliseconds), or until the client is gone. The
// command may still come true after that. With no time at all it is not begun, as in Kafka.
func (h *Handlers) submit(r *Request, timeoutMs int32, cmd controller.Command) (controller.Reply, error) {
	if timeoutMs <= 0 {
		return nil, errCommandTimedOut
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := h.Clock.AfterFunc(time.Duration(timeoutMs)*time.Millisecond, cancel)
	defer timer.Stop()
	gone := r.Conn.Closed()
	go func() {
		select {
		case <-gone:
			cancel()
		case <-ctx.Done():
		}
	}()
	reply, err := h.Controller.Submit(ctx, cmd)
	if err != nil && ctx.Err() != nil {
		return nil, errCommandTimedOut
	}
	return reply, err
}

var errCommandTimedOut = kafka.Errorf(kafka.RequestTimedOut, "")

// ownTimeoutMs is for commands that the client has set no time for: request.timeout.ms of brokers.
const ownTimeoutMs = 30_000

// topicPartition finds a partition that a request named. The error is UNKNOWN_TOPIC_OR_PARTITION for what the image does
// not hold, and NOT_LEADER_OR_FOLLOWER for what lives elsewhere or is only being made here.
func (h *Handlers) topicPartition(t *metadata.Topic, partition int32) (*replica.Partition, error) {
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return nil, errUnknownTopicOrPartition
	}
	if p := h.Replicas.Partition(kafka.TopicPartition{Topic: t.Name, Partition: partition}); p != nil && p.TopicID() == t.ID {
		if p.Log().Offline() != nil { // whoever leads by now: this is what Kafka's broker says of a directory of its own
			return nil, kafka.Errorf(kafka.KafkaStorageError, "")
		}
		return p, nil
	}
	if h.Replicas.Offline(kafka.TopicPartition{Topic: t.Name, Partition: partition}) {
		return nil, kafka.Errorf(kafka.KafkaStorageError, "")
	}
	return nil, kafka.Errorf(kafka.NotLeaderOrFollower, "")
}

// byName finds a topic, nil where there is none.
func byName(img *metadata.Image, name string) *metadata.Topic {
	t, _ := img.Topics.ByName(name)
	return t
}

// byID finds a topic, nil where there is none.
func byID(img *metadata.Image, id kafka.TopicID) *metadata.Topic {
	t, _ := img.Topics.ByID(id)
	return t
}

var errUnknownTopicOrPartition = kafka.Errorf(kafka.UnknownTopicOrPartition, "")

// invalidRequestText is what Kafka says where it has nothing particular to say about an INVALID_REQUEST.
const invalidRequestText = "This most likely occurs because of a request being malformed by the client library or the message was sent to an incompatible broker. " +
	"See the broker logs for more details."

// code is the error code of an answer; what has no code of its own is logged, since no client can tell what happened.
func (h *Handlers) code(r *Request, err error) int16 {
	c := kafka.CodeOf(err)
	var known kafka.Coder
	if c == kafka.UnknownServerError && !errors.As(err, &known) {
		h.Logger.Error("a request failed unexpectedly", "key", r.Header.Key, "version", r.Header.Version, "client", r.Header.ClientID, "error", err)
	}
	return int16(c)
}

// messageOf is the text of an error; null where that says no more than the code.
func messageOf(err error) *string {
	if err.Error() == kafka.CodeOf(err).String() {
		return nil
	}
	return nullable(kafka.Text(err.Error()))
}

// nullable gives a pointer to s, or null for the empty string.
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
