package kafka

import "strconv"

// Code is an error code of the Kafka protocol. The zero value is NONE.
type Code int16

// The numbers are the protocol's: never renumber, never reuse.
const (
	None                                   Code = 0
	UnknownServerError                     Code = -1
	OffsetOutOfRange                       Code = 1
	CorruptMessage                         Code = 2
	UnknownTopicOrPartition                Code = 3
	InvalidFetchSize                       Code = 4
	LeaderNotAvailable                     Code = 5
	NotLeaderOrFollower                    Code = 6
	RequestTimedOut                        Code = 7
	BrokerNotAvailable                     Code = 8
	ReplicaNotAvailable                    Code = 9
	MessageTooLarge                        Code = 10
	StaleControllerEpoch                   Code = 11
	OffsetMetadataTooLarge                 Code = 12
	NetworkException                       Code = 13
	CoordinatorLoadInProgress              Code = 14
	CoordinatorNotAvailable                Code = 15
	NotCoordinator                         Code = 16
	InvalidTopic                           Code = 17
	RecordListTooLarge                     Code = 18
	NotEnoughReplicas                      Code = 19
	NotEnoughReplicasAfterAppend           Code = 20
	InvalidRequiredAcks                    Code = 21
	IllegalGeneration                      Code = 22
	InconsistentGroupProtocol              Code = 23
	InvalidGroupID                         Code = 24
	UnknownMemberID                        Code = 25
	InvalidSessionTimeout                  Code = 26
	RebalanceInProgress                    Code = 27
	InvalidCommitOffsetSize                Code = 28
	TopicAuthorizationFailed               Code = 29
	GroupAuthorizationFailed               Code = 30
	ClusterAuthorizationFailed             Code = 31
	InvalidTimestamp                       Code = 32
	UnsupportedSASLMechanism               Code = 33
	IllegalSASLState                       Code = 34
	UnsupportedVersion                     Code = 35
	TopicAlreadyExists                     Code = 36
	InvalidPartitions                      Code = 37
	InvalidReplicationFactor               Code = 38
	InvalidReplicaAssignment               Code = 39
	InvalidConfig                          Code = 40
	NotController                          Code = 41
	InvalidRequest                         Code = 42
	UnsupportedForMessageFormat            Code = 43
	PolicyViolation                        Code = 44
	OutOfOrderSequenceNumber               Code = 45
	DuplicateSequenceNumber                Code = 46
	InvalidProducerEpoch                   Code = 47
	InvalidTxnState                        Code = 48
	InvalidProducerIDMapping               Code = 49
	InvalidTransactionTimeout              Code = 50
	ConcurrentTransactions                 Code = 51
	TransactionCoordinatorFenced           Code = 52
	TransactionalIDAuthorizationFailed     Code = 53
	SecurityDisabled                       Code = 54
	OperationNotAttempted                  Code = 55
	KafkaStorageError                      Code = 56
	LogDirNotFound                         Code = 57
	SASLAuthenticationFailed               Code = 58
	UnknownProducerID                      Code = 59
	ReassignmentInProgress                 Code = 60
	DelegationTokenAuthDisabled            Code = 61
	DelegationTokenNotFound                Code = 62
	DelegationTokenOwnerMismatch           Code = 63
	DelegationTokenRequestNotAllowed       Code = 64
	DelegationTokenAuthorizationFailed     Code = 65
	DelegationTokenExpired                 Code = 66
	InvalidPrincipalType                   Code = 67
	NonEmptyGroup                          Code = 68
	GroupIDNotFound                        Code = 69
	FetchSessionIDNotFound                 Code = 70
	InvalidFetchSessionEpoch               Code = 71
	ListenerNotFound                       Code = 72
	TopicDeletionDisabled                  Code = 73
	FencedLeaderEpoch                      Code = 74
	UnknownLeaderEpoch                     Code = 75
	UnsupportedCompressionType             Code = 76
	StaleBrokerEpoch                       Code = 77
	OffsetNotAvailable                     Code = 78
	MemberIDRequired                       Code = 79
	PreferredLeaderNotAvailable            Code = 80
	GroupMaxSizeReached                    Code = 81
	FencedInstanceID                       Code = 82
	EligibleLeadersNotAvailable            Code = 83
	ElectionNotNeeded                      Code = 84
	NoReassignmentInProgress               Code = 85
	GroupSubscribedToTopic                 Code = 86
	InvalidRecord                          Code = 87
	UnstableOffsetCommit                   Code = 88
	ThrottlingQuotaExceeded                Code = 89
	ProducerFenced                         Code = 90
	ResourceNotFound                       Code = 91
	DuplicateResource                      Code = 92
	UnacceptableCredential                 Code = 93
	InconsistentVoterSet                   Code = 94
	InvalidUpdateVersion                   Code = 95
	FeatureUpdateFailed                    Code = 96
	PrincipalDeserializationFailure        Code = 97
	SnapshotNotFound                       Code = 98
	PositionOutOfRange                     Code = 99
	UnknownTopicID                         Code = 100
	DuplicateBrokerRegistration            Code = 101
	BrokerIDNotRegistered                  Code = 102
	InconsistentTopicID                    Code = 103
	InconsistentClusterID                  Code = 104
	TransactionalIDNotFound                Code = 105
	FetchSessionTopicIDError               Code = 106
	IneligibleReplica                      Code = 107
	NewLeaderElected                       Code = 108
	OffsetMovedToTieredStorage             Code = 109
	FencedMemberEpoch                      Code = 110
	UnreleasedInstanceID                   Code = 111
	UnsupportedAssignor                    Code = 112
	StaleMemberEpoch                       Code = 113
	MismatchedEndpointType                 Code = 114
	UnsupportedEndpointType                Code = 115
	UnknownControllerID                    Code = 116
	UnknownSubscriptionID                  Code = 117
	TelemetryTooLarge                      Code = 118
	InvalidRegistration                    Code = 119
	TransactionAbortable                   Code = 120
	InvalidRecordState                     Code = 121
	ShareSessionNotFound                   Code = 122
	InvalidShareSessionEpoch               Code = 123
	FencedStateEpoch                       Code = 124
	InvalidVoterKey                        Code = 125
	DuplicateVoter                         Code = 126
	VoterNotFound                          Code = 127
	InvalidRegularExpression               Code = 128
	RebootstrapRequired                    Code = 129
	StreamsInvalidTopology                 Code = 130
	StreamsInvalidTopologyEpoch            Code = 131
	StreamsTopologyFenced                  Code = 132
	ShareSessionLimitReached               Code = 133
	GroupDeletionFailed                    Code = 134
	StreamsTopologyDescriptionUpdateFailed Code = 135
	ControllerIDNotRegistered              Code = 136
)

// String gives the protocol's name, such as OFFSET_OUT_OF_RANGE, or the number of a code it does not know.
func (c Code) String() string {
	if name, ok := codeNames[c]; ok {
		return name
	}
	return "ERROR_" + strconv.Itoa(int(c))
}

var codeNames = map[Code]string{
	-1:  "UNKNOWN_SERVER_ERROR",
	0:   "NONE",
	1:   "OFFSET_OUT_OF_RANGE",
	2:   "CORRUPT_MESSAGE",
	3:   "UNKNOWN_TOPIC_OR_PARTITION",
	4:   "INVALID_FETCH_SIZE",
	5:   "LEADER_NOT_AVAILABLE",
	6:   "NOT_LEADER_OR_FOLLOWER",
	7:   "REQUEST_TIMED_OUT",
	8:   "BROKER_NOT_AVAILABLE",
	9:   "REPLICA_NOT_AVAILABLE",
	10:  "MESSAGE_TOO_LARGE",
	11:  "STALE_CONTROLLER_EPOCH",
	12:  "OFFSET_METADATA_TOO_LARGE",
	13:  "NETWORK_EXCEPTION",
	14:  "COORDINATOR_LOAD_IN_PROGRESS",
	15:  "COORDINATOR_NOT_AVAILABLE",
	16:  "NOT_COORDINATOR",
	17:  "INVALID_TOPIC_EXCEPTION",
	18:  "RECORD_LIST_TOO_LARGE",
	19:  "NOT_ENOUGH_REPLICAS",
	20:  "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
	21:  "INVALID_REQUIRED_ACKS",
	22:  "ILLEGAL_GENERATION",
	23:  "INCONSISTENT_GROUP_PROTOCOL",
	24:  "INVALID_GROUP_ID",
	25:  "UNKNOWN_MEMBER_ID",
	26:  "INVALID_SESSION_TIMEOUT",
	27:  "REBALANCE_IN_PROGRESS",
	28:  "INVALID_COMMIT_OFFSET_SIZE",
	29:  "TOPIC_AUTHORIZATION_FAILED",
	30:  "GROUP_AUTHORIZATION_FAILED",
	31:  "CLUSTER_AUTHORIZATION_FAILED",
	32:  "INVALID_TIMESTAMP",
	33:  "UNSUPPORTED_SASL_MECHANISM",
	34:  "ILLEGAL_SASL_STATE",
	35:  "UNSUPPORTED_VERSION",
	36:  "TOPIC_ALREADY_EXISTS",
	37:  "INVALID_PARTITIONS",
	38:  "INVALID_REPLICATION_FACTOR",
	39:  "INVALID_REPLICA_ASSIGNMENT",
	40:  "INVALID_CONFIG",
	41:  "NOT_CONTROLLER",
	42:  "INVALID_REQUEST",
	43:  "UNSUPPORTED_FOR_MESSAGE_FORMAT",
	44:  "POLICY_VIOLATION",
	45:  "OUT_OF_ORDER_SEQUENCE_NUMBER",
	46:  "DUPLICATE_SEQUENCE_NUMBER",
	47:  "INVALID_PRODUCER_EPOCH",
	48:  "INVALID_TXN_STATE",
	49:  "INVALID_PRODUCER_ID_MAPPING",
	50:  "INVALID_TRANSACTION_TIMEOUT",
	51:  "CONCURRENT_TRANSACTIONS",
	52:  "TRANSACTION_COORDINATOR_FENCED",
	53:  "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
	54:  "SECURITY_DISABLED",
	55:  "OPERATION_NOT_ATTEMPTED",
	56:  "KAFKA_STORAGE_ERROR",
	57:  "LOG_DIR_NOT_FOUND",
	58:  "SASL_AUTHENTICATION_FAILED",
	59:  "UNKNOWN_PRODUCER_ID",
	60:  "REASSIGNMENT_IN_PROGRESS",
	61:  "DELEGATION_TOKEN_AUTH_DISABLED",
	62:  "DELEGATION_TOKEN_NOT_FOUND",
	63:  "DELEGATION_TOKEN_OWNER_MISMATCH",
	64:  "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED",
	65:  "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
	66:  "DELEGATION_TOKEN_EXPIRED",
	67:  "INVALID_PRINCIPAL_TYPE",
	68:  "NON_EMPTY_GROUP",
	69:  "GROUP_ID_NOT_FOUND",
	70:  "FETCH_SESSION_ID_NOT_FOUND",
	71:  "INVALID_FETCH_SESSION_EPOCH",
	72:  "LISTENER_NOT_FOUND",
	73:  "TOPIC_DELETION_DISABLED",
	74:  "FENCED_LEADER_EPOCH",
	75:  "UNKNOWN_LEADER_EPOCH",
	76:  "UNSUPPORTED_COMPRESSION_TYPE",
	77:  "STALE_BROKER_EPOCH",
	78:  "OFFSET_NOT_AVAILABLE",
	79:  "MEMBER_ID_REQUIRED",
	80:  "PREFERRED_LEADER_NOT_AVAILABLE",
	81:  "GROUP_MAX_SIZE_REACHED",
	82:  "FENCED_INSTANCE_ID",
	83:  "ELIGIBLE_LEADERS_NOT_AVAILABLE",
	84:  "ELECTION_NOT_NEEDED",
	85:  "NO_REASSIGNMENT_IN_PROGRESS",
	86:  "GROUP_SUBSCRIBED_TO_TOPIC",
	87:  "INVALID_RECORD",
	88:  "UNSTABLE_OFFSET_COMMIT",
	89:  "THROTTLING_QUOTA_EXCEEDED",
	90:  "PRODUCER_FENCED",
	91:  "RESOURCE_NOT_FOUND",
	92:  "DUPLICATE_RESOURCE",
	93:  "UNACCEPTABLE_CREDENTIAL",
	94:  "INCONSISTENT_VOTER_SET",
	95:  "INVALID_UPDATE_VERSION",
	96:  "FEATURE_UPDATE_FAILED",
	97:  "PRINCIPAL_DESERIALIZATION_FAILURE",
	98:  "SNAPSHOT_NOT_FOUND",
	99:  "POSITION_OUT_OF_RANGE",
	100: "UNKNOWN_TOPIC_ID",
	101: "DUPLICATE_BROKER_REGISTRATION",
	102: "BROKER_ID_NOT_REGISTERED",
	103: "INCONSISTENT_TOPIC_ID",
	104: "INCONSISTENT_CLUSTER_ID",
	105: "TRANSACTIONAL_ID_NOT_FOUND",
	106: "FETCH_SESSION_TOPIC_ID_ERROR",
	107: "INELIGIBLE_REPLICA",
	108: "NEW_LEADER_ELECTED",
	109: "OFFSET_MOVED_TO_TIERED_STORAGE",
	110: "FENCED_MEMBER_EPOCH",
	111: "UNRELEASED_INSTANCE_ID",
	112: "UNSUPPORTED_ASSIGNOR",
	113: "STALE_MEMBER_EPOCH",
	114: "MISMATCHED_ENDPOINT_TYPE",
	115: "UNSUPPORTED_ENDPOINT_TYPE",
	116: "UNKNOWN_CONTROLLER_ID",
	117: "UNKNOWN_SUBSCRIPTION_ID",
	118: "TELEMETRY_TOO_LARGE",
	119: "INVALID_REGISTRATION",
	120: "TRANSACTION_ABORTABLE",
	121: "INVALID_RECORD_STATE",
	122: "SHARE_SESSION_NOT_FOUND",
	123: "INVALID_SHARE_SESSION_EPOCH",
	124: "FENCED_STATE_EPOCH",
	125: "INVALID_VOTER_KEY",
	126: "DUPLICATE_VOTER",
	127: "VOTER_NOT_FOUND",
	128: "INVALID_REGULAR_EXPRESSION",
	129: "REBOOTSTRAP_REQUIRED",
	130: "STREAMS_INVALID_TOPOLOGY",
	131: "STREAMS_INVALID_TOPOLOGY_EPOCH",
	132: "STREAMS_TOPOLOGY_FENCED",
	133: "SHARE_SESSION_LIMIT_REACHED",
	134: "GROUP_DELETION_FAILED",
	135: "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED",
	136: "CONTROLLER_ID_NOT_REGISTERED",
}
