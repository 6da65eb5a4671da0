package handler

import (
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
)

// DescribeLogDirs: v1–4
//   - v3: an error for the whole answer. v4: space of the file system (KIP-827).

func (h *Handlers) describeLogDirs(r *Request, req *kmsg.DescribeLogDirsRequest) Reply {
	resp := req.ResponseKind().(*kmsg.DescribeLogDirsResponse)
	wanted := func(kafka.TopicPartition) bool { return true }
	if req.Topics != nil {
		named := make(map[kafka.TopicPartition]bool)
		for i := range req.Topics {
			for _, p := range req.Topics[i].Partitions {
				named[kafka.TopicPartition{Topic: req.Topics[i].Topic, Partition: p}] = true
			}
		}
		wanted = func(tp kafka.TopicPartition) bool { return named[tp] }
	}
	topics := h.logDirTopics(wanted)
	for _, d := range h.Directories.Describe() {
		dir := kmsg.NewDescribeLogDirsResponseDir()
		dir.Dir = d.Path
		if d.Err != nil {
			dir.ErrorCode = int16(kafka.KafkaStorageError)
			dir.TotalBytes, dir.UsableBytes = -1, -1
		} else {
			dir.TotalBytes, dir.UsableBytes = d.Total, d.Usable
			dir.Topics = topics[d.Path]
		}
		resp.Dirs = append(resp.Dirs, dir)
	}
	return Now(resp)
}

// logDirTopics groups the replicas of this broker by directory and topic, those on their way to another directory included.
func (h *Handlers) logDirTopics(wanted func(kafka.TopicPartition) bool) map[string][]kmsg.DescribeLogDirsResponseDirTopic {
	byDir := make(map[string][]kmsg.DescribeLogDirsResponseDirTopic)
	add := func(tp kafka.TopicPartition, dir string, size, lag int64, future bool) {
		topics := byDir[filepath.Dir(dir)]
		if n := len(topics); n == 0 || topics[n-1].Topic != tp.Topic {
			topics = append(topics, kmsg.DescribeLogDirsResponseDirTopic{Topic: tp.Topic})
		}
		row := kmsg.NewDescribeLogDirsResponseDirTopicPartition()
		row.Partition, row.Size, row.OffsetLag, row.IsFuture = tp.Partition, size, lag, future
		last := &topics[len(topics)-1]
		last.Partitions = append(last.Partitions, row)
		byDir[filepath.Dir(dir)] = topics
	}
	for _, p := range h.Replicas.All() { // sorted, so that the partitions of a topic follow each other
		if !wanted(p.TP()) {
			continue
		}
		l := p.Log()
		add(p.TP(), l.Dir(), l.Size(), max(l.HighWatermark()-l.EndOffset(), 0), false)
		if f := h.Replicas.Future(p); f != nil {
			add(p.TP(), f.Dir(), f.Size(), l.EndOffset()-f.EndOffset(), true)
		}
	}
	return byDir
}
