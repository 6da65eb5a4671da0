package controller

import (
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

// deleteTopics deletes topics that are named by name or by id. What is named twice, in whichever way, is not deleted: a
// request that contradicts itself may be meant otherwise.
func (d *decision) deleteTopics(c DeleteTopics) (Reply, error) {
	if !d.settings.DeleteTopicEnable {
		return nil, kafka.Errorf(kafka.TopicDeletionDisabled, "Topic deletion is disabled.")
	}
	var reply DeleteTopicsReply
	given := countRefs(c.Topics)
	for _, t := range c.Topics {
		if row, answer := d.deleteTopic(t, given); answer {
			reply.Topics = append(reply.Topics, row)
		}
	}
	return reply, nil
}

// refs counts how often a request names each thing. A key that was answered for all its occurrences is counted as answered.
type refs struct {
	names map[string]int
	ids   map[kafka.TopicID]int
}

const answered = -1

func countRefs(topics []TopicRef) refs {
	given := refs{make(map[string]int, len(topics)), make(map[kafka.TopicID]int)}
	for _, t := range topics {
		switch {
		case t.Name == nil:
			given.ids[t.ID]++
		case t.ID.IsZero():
			given.names[*t.Name]++
		}
	}
	return given
}

// deleteTopic answers one row; answer is false for a row that another one answers.
func (d *decision) deleteTopic(t TopicRef, given refs) (row DeletedTopic, answer bool) {
	row = DeletedTopic{Name: t.Name, ID: t.ID}
	switch {
	case t.Name != nil && !t.ID.IsZero():
		row.Result = failed(kafka.InvalidRequest, "You may not specify both topic name and topic id.")
		return row, true
	case t.Name == nil && t.ID.IsZero():
		row.Result = failed(kafka.InvalidRequest, "Neither topic name nor id were specified.")
		return row, true
	case t.Name == nil:
		return d.deleteByID(row, given)
	}
	return d.deleteByName(row, given)
}

func (d *decision) deleteByName(row DeletedTopic, given refs) (DeletedTopic, bool) {
	name := *row.Name
	switch n := given.names[name]; {
	case n == answered:
		return row, false
	case n > 1:
		given.names[name] = answered
		row.Result = failed(kafka.InvalidRequest, "Duplicate topic name.")
		return row, true
	}
	topic, exists := d.img.Topics.ByName(name)
	switch {
	case !exists:
		row.Result = failed(kafka.UnknownTopicOrPartition, "This server does not host this topic-partition.")
	case given.ids[topic.ID] != 0:
		row.ID = topic.ID
		row.Result = failed(kafka.InvalidRequest, "The provided topic name maps to an ID that was already supplied.")
	default:
		row.ID = topic.ID
		d.add(metadata.RemoveTopicRecord{ID: topic.ID})
	}
	return row, true
}

func (d *decision) deleteByID(row DeletedTopic, given refs) (DeletedTopic, bool) {
	switch n := given.ids[row.ID]; {
	case n == answered:
		return row, false
	case n > 1:
		given.ids[row.ID] = answered
		row.Result = failed(kafka.InvalidRequest, "Duplicate topic id.")
		return row, true
	}
	topic, exists := d.img.Topics.ByID(row.ID)
	switch {
	case !exists:
		row.Result = failed(kafka.UnknownTopicID, "This server does not host this topic ID.")
	case given.names[topic.Name] == 1:
		return row, false // the row of the name says that it was named twice
	default:
		row.Name = &topic.Name
		d.add(metadata.RemoveTopicRecord{ID: topic.ID})
	}
	return row, true
}
