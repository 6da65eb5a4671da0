package group

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/coordinator"
)

// typeClassic is the type of group on the wire (KIP-848), lower case other than the states.
const typeClassic = "classic"

// list answers ListGroups for the groups of this shard, by name. A name of a state or type that does not exist matches
// nothing.
func (s *Shard) list(_ time.Time, c *coordinator.Call, req List) coordinator.Output {
	groups := []kmsg.ListGroupsResponseGroup{}
	if len(req.Types) > 0 && !slices.ContainsFunc(req.Types, func(t string) bool { return strings.EqualFold(t, typeClassic) }) {
		return answer(c, groups)
	}
	var wanted [len(stateNames)]bool
	for i, name := range stateNames {
		wanted[i] = len(req.States) == 0 || slices.ContainsFunc(req.States, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), name) })
	}
	for id, g := range s.groups {
		if !wanted[g.state] {
			continue
		}
		r := kmsg.NewListGroupsResponseGroup()
		r.Group, r.ProtocolType, r.GroupState, r.GroupType = id, g.protocolType, g.state.String(), typeClassic
		groups = append(groups, r)
	}
	slices.SortFunc(groups, func(a, b kmsg.ListGroupsResponseGroup) int { return cmp.Compare(a.Group, b.Group) })
	return answer(c, groups)
}
