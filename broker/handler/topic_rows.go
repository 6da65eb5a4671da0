package handler

// topicRows collects the topics of an answer, each of them once, with their partitions. Only of must be set.
type topicRows[T, P any] struct {
	of     func(*T) (topic string, partitions *[]P)
	topics []T
	at     map[string]int
}

// add adds topics. What is added of a topic that is there already goes behind its partitions.
func (r *topicRows[T, P]) add(topics ...T) {
	if r.at == nil {
		r.at = make(map[string]int)
	}
	for i := range topics {
		name, partitions := r.of(&topics[i])
		if k, ok := r.at[name]; ok {
			_, there := r.of(&r.topics[k])
			*there = append(*there, *partitions...)
			continue
		}
		r.at[name] = len(r.topics)
		r.topics = append(r.topics, topics[i])
	}
}

// before returns what was collected with topics added; where that is nothing, the topics as they are.
func (r *topicRows[T, P]) before(topics []T) []T {
	if len(r.topics) == 0 {
		return topics
	}
	r.add(topics...)
	return r.topics
}
