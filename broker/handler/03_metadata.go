package handler

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// Metadata: v0–13
//   - v0: an empty list means all topics, and replicas that cannot be reached are an error, and left out.
//   - v1: null means all, empty means none.
//   - v4: may refuse automatic creation; implied below. v6: LISTENER_NOT_FOUND. v8–10: authorized operations (KIP-430).
//   - v10: topic ids in answers. v12: topics by id (KIP-516). v13: an error for the whole answer, which brokers never set.
//
// The addresses are those of the listener that the request came in on. The controller is a broker, which forwards.

func (h *Handlers) metadata(r *Request, req *kmsg.MetadataRequest) Reply {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	img := h.Image()
	h.addBrokers(resp, img, r.Conn.Listener)
	resp.ClusterID = &img.ClusterID
	resp.ControllerID = h.controllerID(img)
	all := req.Topics == nil || req.Version == 0 && len(req.Topics) == 0
	var named []string
	if all {
		resp.Topics = make([]kmsg.MetadataResponseTopic, 0, img.Topics.Len())
		for t := range img.Topics.All() {
			resp.Topics = append(resp.Topics, h.metadataTopic(img, t, req, r.Conn.Listener))
		}
	} else {
		ids, names, err := metadataTopics(req)
		if err != nil {
			return Now(metadataRefused(req, err))
		}
		for _, id := range ids {
			if t := byID(img, id); t != nil {
				resp.Topics = append(resp.Topics, h.metadataTopic(img, t, req, r.Conn.Listener))
				continue
			}
			row := kmsg.NewMetadataResponseTopic()
			row.ErrorCode, row.TopicID = int16(kafka.UnknownTopicID), id
			resp.Topics = append(resp.Topics, row)
		}
		for _, name := range names {
			if t := byName(img, name); t != nil {
				resp.Topics = append(resp.Topics, h.metadataTopic(img, t, req, r.Conn.Listener))
			} else {
				named = append(named, name)
			}
		}
	}
	h.addMissingTopics(r, req, resp, named)
	if req.IncludeClusterAuthorizedOperations && req.Version <= 10 {
		resp.AuthorizedOperations = clusterOperations
	}
	return Now(resp)
}

// metadataTopics gives what the request names, each once: ids where there is any, else names.
func metadataTopics(req *kmsg.MetadataRequest) (ids []kafka.TopicID, names []string, err error) {
	seenNames, seenIDs := make(map[string]bool), make(map[kafka.TopicID]bool)
	for i := range req.Topics {
		t := &req.Topics[i]
		id := kafka.TopicID(t.TopicID)
		switch {
		case t.Topic == nil && req.Version < 12:
			return nil, nil, kafka.Errorf(kafka.InvalidRequest, "Topic name can not be null for version %d", req.Version)
		case !id.IsZero() && req.Version < 12:
			return nil, nil, kafka.Errorf(kafka.InvalidRequest, "Topic IDs are not supported in requests for version %d", req.Version)
		case !id.IsZero():
			if !seenIDs[id] {
				seenIDs[id] = true
				ids = append(ids, id)
			}
		case t.Topic != nil && !seenNames[*t.Topic]:
			seenNames[*t.Topic] = true
			names = append(names, *t.Topic)
		}
	}
	if len(ids) > 0 {
		names = nil
	}
	return ids, names, nil
}

// metadataRefused answers a request that is wrong as a whole: the error at each topic, and no brokers.
func metadataRefused(req *kmsg.MetadataRequest, err error) *kmsg.MetadataResponse {
	resp := req.ResponseKind().(*kmsg.MetadataResponse)
	resp.Brokers = []kmsg.MetadataResponseBroker{}
	for i := range req.Topics {
		row := kmsg.NewMetadataResponseTopic()
		name := ""
		if req.Topics[i].Topic != nil {
			name = *req.Topics[i].Topic
		}
		row.ErrorCode, row.Topic, row.TopicID = int16(kafka.CodeOf(err)), &name, req.Topics[i].TopicID
		resp.Topics = append(resp.Topics, row)
	}
	return resp
}

// addMissingTopics answers for names that do not exist, and has them created where request and broker allow it. The
// first answer is UNKNOWN_TOPIC_OR_PARTITION even so, as in Kafka; when the client asks again the topic is there.
func (h *Handlers) addMissingTopics(r *Request, req *kmsg.MetadataRequest, resp *kmsg.MetadataResponse, names []string) {
	var create []string
	for _, name := range names {
		row := kmsg.NewMetadataResponseTopic()
		row.Topic, row.IsInternal = &name, kafka.IsInternalTopic(name)
		if req.IncludeTopicAuthorizedOperations {
			row.AuthorizedOperations = topicOperations
		}
		if err := kafka.ValidateTopicName(name); err != nil {
			row.ErrorCode = int16(kafka.CodeOf(err))
		} else {
			row.ErrorCode = int16(kafka.UnknownTopicOrPartition)
			create = append(create, name)
		}
		resp.Topics = append(resp.Topics, row)
	}
	if len(create) > 0 && h.Config.Topics.AutoCreate && (req.AllowAutoTopicCreation || req.Version < 4) {
		h.autoCreate(r, create)
	}
}

func (h *Handlers) addBrokers(resp *kmsg.MetadataResponse, img *metadata.Image, listener string) {
	resp.Brokers = []kmsg.MetadataResponseBroker{}
	for b := range img.Brokers.All() {
		if b.Fenced {
			continue
		}
		if e, ok := endpoint(img, b.ID, listener); ok {
			resp.Brokers = append(resp.Brokers, kmsg.MetadataResponseBroker{NodeID: int32(b.ID), Host: e.Host, Port: int32(e.Port), Rack: nullable(b.Rack)})
		}
	}
}

func (h *Handlers) metadataTopic(img *metadata.Image, t *metadata.Topic, req *kmsg.MetadataRequest, listener string) kmsg.MetadataResponseTopic {
	row := kmsg.NewMetadataResponseTopic()
	row.Topic, row.TopicID, row.IsInternal = &t.Name, t.ID, kafka.IsInternalTopic(t.Name)
	if req.IncludeTopicAuthorizedOperations {
		row.AuthorizedOperations = topicOperations
	}
	row.Partitions = make([]kmsg.MetadataResponseTopicPartition, len(t.Partitions))
	for i := range t.Partitions {
		p := &t.Partitions[i]
		out := kmsg.NewMetadataResponseTopicPartition()
		out.Partition, out.Leader, out.LeaderEpoch = int32(i), int32(p.Leader), int32(p.LeaderEpoch)
		out.Replicas, out.ISR, out.OfflineReplicas = brokerIDs(p.Replicas), brokerIDs(p.ISR), offlineReplicas(img, p, listener)
		if out.ErrorCode = leaderCode(img, p.Leader, listener, req.Version); out.ErrorCode != 0 {
			out.Leader = int32(kafka.NoBroker)
		}
		if req.Version == 0 {
			onlyReachable(img, &out, listener)
		}
		row.Partitions[i] = out
	}
	return row
}

// onlyReachable leaves out the replicas on brokers that are not reached by that listener, which counts as
// an error where there is no other.
func onlyReachable(img *metadata.Image, p *kmsg.MetadataResponseTopicPartition, listener string) {
	away := func(id int32) bool {
		_, ok := liveEndpoint(img, kafka.BrokerID(id), listener)
		return !ok
	}
	replicas := len(p.Replicas)
	p.Replicas, p.ISR = slices.DeleteFunc(p.Replicas, away), slices.DeleteFunc(p.ISR, away)
	if len(p.Replicas) < replicas && p.ErrorCode == int16(kafka.None) {
		p.ErrorCode = int16(kafka.ReplicaNotAvailable)
	}
}

// leaderCode says why a partition's leader cannot be reached by this listener, if so.
func leaderCode(img *metadata.Image, leader kafka.BrokerID, listener string, version int16) int16 {
	b, ok := img.Brokers.ByID(leader)
	if !ok || b.Fenced {
		return int16(kafka.LeaderNotAvailable)
	}
	if _, ok := endpoint(img, leader, listener); ok {
		return int16(kafka.None)
	}
	if version < 6 {
		return int16(kafka.LeaderNotAvailable)
	}
	return int16(kafka.ListenerNotFound)
}
