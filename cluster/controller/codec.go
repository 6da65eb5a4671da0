package controller

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"

	"weir/internal/kafka"
)

// Commands and answers travel between nodes as JSON: {"command": name, "arguments": {…}}, where name is that of the command's
// type, and {"reply": name, "index": n, "value": {…}}. Fields have their Go names, ids are text. A name that this version does not
// know is refused. A field that it does not know is passed over, for brokers of two versions live together while a cluster is
// upgraded: so a later version adds fields only where it does no harm to miss them, and else a command of another name.

type commandText struct {
	Command   string          `json:"command"`
	Arguments json.RawMessage `json:"arguments"`
}

type answerText struct {
	Reply string          `json:"reply"`
	Index int64           `json:"index"`
	Value json.RawMessage `json:"value"`
}

var commandTypes = byName[Command](
	Initialize{}, RegisterBroker{}, BrokerHeartbeat{}, FenceBrokers{}, AlterPartition{}, ElectLeaders{}, BalanceLeaders{}, RaiseInternalTopics{},
	AssignReplicasToDirs{}, RegisterMember{}, JoinNode{}, UnregisterBroker{}, RemoveMember{}, SetGossipKey{}, DescribeQuorum{}, CreateTopics{},
	DeleteTopics{}, CreatePartitions{}, AlterReassignments{}, AllocateProducerIDs{}, AlterConfigs{}, IncrementalAlterConfigs{},
)

var replyTypes = byName[Reply](
	InitializeReply{}, RegisterBrokerReply{}, BrokerHeartbeatReply{}, FenceBrokersReply{}, AlterPartitionReply{}, ElectLeadersReply{}, BalanceLeadersReply{},
	RaiseInternalTopicsReply{}, AssignReplicasToDirsReply{}, RegisterMemberReply{}, JoinNodeReply{}, UnregisterBrokerReply{}, RemoveMemberReply{},
	SetGossipKeyReply{}, DescribeQuorumReply{}, CreateTopicsReply{}, DeleteTopicsReply{}, CreatePartitionsReply{}, AlterReassignmentsReply{},
	AllocateProducerIDsReply{}, AlterConfigsReply{},
)

func byName[T any](values ...T) map[string]reflect.Type {
	types := make(map[string]reflect.Type, len(values))
	for _, v := range values {
		types[Name(v)] = reflect.TypeOf(v)
	}
	return types
}

// Name is what a command or a reply is called in a text, in logs and metrics: CreateTopics.
func Name(v any) string { return reflect.TypeOf(v).Name() }

// EncodeCommand writes a command for another node.
func EncodeCommand(cmd Command) ([]byte, error) {
	arguments, err := json.Marshal(cmd)
	if err != nil {
		return nil, kafka.Errorf(kafka.InvalidRequest, "The command %s cannot be written: %v", Name(cmd), err)
	}
	return json.Marshal(commandText{Name(cmd), arguments})
}

// DecodeCommand reads what EncodeCommand writes. Errors: INVALID_REQUEST.
func DecodeCommand(text []byte) (Command, error) {
	var t commandText
	if err := object(text, &t); err != nil {
		return nil, kafka.Errorf(kafka.InvalidRequest, "A command cannot be read: %v", err)
	}
	typ, known := commandTypes[t.Command]
	if !known {
		return nil, kafka.Errorf(kafka.InvalidRequest, "The command %q is not known to this version of weir.", t.Command)
	}
	v := reflect.New(typ)
	if err := object(t.Arguments, v.Interface()); err != nil {
		return nil, kafka.Errorf(kafka.InvalidRequest, "The arguments of the command %s cannot be read: %v", t.Command, err)
	}
	return v.Elem().Interface().(Command), nil
}

// EncodeAnswer writes a reply, with the index of the image in which it is true.
func EncodeAnswer(reply Reply, index int64) ([]byte, error) {
	value, err := json.Marshal(reply)
	if err != nil {
		return nil, kafka.Errorf(kafka.UnknownServerError, "The reply %s cannot be written: %v", Name(reply), err)
	}
	return json.Marshal(answerText{Name(reply), index, value})
}

// DecodeAnswer reads what EncodeAnswer writes. Errors: INVALID_REQUEST.
func DecodeAnswer(text []byte) (reply Reply, index int64, err error) {
	var t answerText
	if err := object(text, &t); err != nil {
		return nil, 0, kafka.Errorf(kafka.InvalidRequest, "An answer cannot be read: %v", err)
	}
	typ, known := replyTypes[t.Reply]
	if !known {
		return nil, 0, kafka.Errorf(kafka.InvalidRequest, "The reply %q is not known to this version of weir.", t.Reply)
	}
	v := reflect.New(typ)
	if err := object(t.Value, v.Interface()); err != nil {
		return nil, 0, kafka.Errorf(kafka.InvalidRequest, "The value of the reply %s cannot be read: %v", t.Reply, err)
	}
	return v.Elem().Interface().(Reply), t.Index, nil
}

// EncodeError gives what a failed command is answered with, in the two fields that every answer has for it.
func EncodeError(err error) (code kafka.Code, message string) {
	return kafka.CodeOf(err), kafka.Text(err.Error())
}

// DecodeError makes an error of what EncodeError gave, which has the same code and text; nil for NONE.
func DecodeError(code kafka.Code, message string) error {
	if code == kafka.None {
		return nil
	}
	return kafka.Errorf(code, "%s", message)
}

var (
	errNoObject = errors.New("not a JSON object")
	errTrailing = errors.New("something follows the JSON object")
)

// object reads one JSON object and nothing else.
func object(text []byte, v any) error {
	if !bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) {
		return errNoObject
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(v); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errTrailing
	}
	return nil
}
