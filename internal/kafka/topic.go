package kafka

import "strings"

const maxTopicNameLength = 249 // Topic.java: a directory name of 255 bytes less "-", the partition and a suffix

// Internal topics that clients may not write to. Kafka marks exactly these as internal.
const (
	ConsumerOffsetsTopic  = "__consumer_offsets"
	TransactionStateTopic = "__transaction_state"
	ShareGroupStateTopic  = "__share_group_state"
	ClusterMetadataTopic  = "__cluster_metadata"
)

// IsInternalTopic reports whether the broker itself writes this topic.
func IsInternalTopic(name string) bool {
	return name == ConsumerOffsetsTopic || name == TransactionStateTopic || name == ShareGroupStateTopic
}

// ValidateTopicName checks a name as Kafka does before any path is built from it. The error's code is
// INVALID_TOPIC_EXCEPTION and its text Kafka's.
func ValidateTopicName(name string) error {
	switch {
	case name == "":
		return Errorf(InvalidTopic, "Topic name is invalid: the empty string is not allowed")
	case name == ".":
		return Errorf(InvalidTopic, "Topic name is invalid: '.' is not allowed")
	case name == "..":
		return Errorf(InvalidTopic, "Topic name is invalid: '..' is not allowed")
	case len(name) > maxTopicNameLength:
		return Errorf(InvalidTopic, "Topic name is invalid: the length of '%s' is longer than the max allowed length %d", name, maxTopicNameLength)
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '.', c == '_', c == '-':
		default:
			return Errorf(InvalidTopic, "Topic name is invalid: '%s' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name)
		}
	}
	return nil
}

// CollisionKey maps names that would collide as metric names ("a.b" and "a_b") to one key.
func CollisionKey(name string) string { return strings.ReplaceAll(name, ".", "_") }
