package group

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
	"weir/internal/kafka"
)

// A member's id is longer than what it is made of, and must fit into a record.
func TestMemberIDsFitIntoRecords(t *testing.T) {
	for _, static := range []bool{false, true} {
		for prefix, want := range map[int]kafka.Code{maxMemberIDPrefix: kafka.None, maxMemberIDPrefix + 1: kafka.UnknownServerError} {
			rt := newRuntime(testSettings(), 1)
			name := strings.Repeat("c", prefix)
			req := kmsg.NewPtrJoinGroupRequest()
			req.Version, req.Group, req.ProtocolType = 3, "g", "consumer"
			req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
			req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
			call := &coordinator.Call{Body: req, ClientID: name}
			if static {
				req.Version, req.InstanceID, call.ClientID = 5, &name, ""
			}
			var resp *kmsg.JoinGroupResponse
			call.Done = func(answer any, err error) {
				must(err)
				resp = answer.(*kmsg.JoinGroupResponse)
			}
			rt.step(call)
			rt.advance(testSettings().InitialRebalanceDelay)
			if kafka.Code(resp.ErrorCode) != want || (resp.MemberID == "") != (want != kafka.None) {
				t.Errorf("static %v, %d bytes: %v, a member id of %d bytes", static, prefix, kafka.Code(resp.ErrorCode), len(resp.MemberID))
			}
			if want != kafka.None {
				continue
			}
			sync := kmsg.NewPtrSyncGroupRequest()
			sync.Version, sync.Group, sync.Generation, sync.MemberID = 3, "g", 1, resp.MemberID
			rt.step(&coordinator.Call{Body: sync, Done: func(any, error) {}})
			rt.reload()
			if rt.shard.groups["g"].members[resp.MemberID] == nil {
				t.Errorf("static %v, %d bytes: the member is gone after a load", static, prefix)
			}
		}
	}
}
