package controller

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"weir/broker/config"
	"weir/cluster/metadata"
	"weir/internal/kafka"
)

func (d *decision) alterConfigs(c AlterConfigs) Reply {
	var reply AlterConfigsReply
	times := make(map[metadata.ConfigResource]int, len(c.Resources))
	for _, r := range c.Resources {
		times[r.Resource]++
	}
	for _, r := range c.Resources {
		err := checkConfigRequest(c.Broker, r.Resource, times, len(r.Configs), func(i int) (string, bool) {
			return r.Configs[i].Name, r.Configs[i].Value == nil
		})
		if err == nil {
			wanted := make(map[string]string, len(r.Configs))
			for _, v := range r.Configs {
				wanted[v.Name] = *v.Value
			}
			err = d.replaceConfigs(r.Resource, wanted)
		}
		reply.Resources = append(reply.Resources, altered(r.Resource, err))
	}
	d.finishConfigs(c.ValidateOnly)
	return reply
}

func (d *decision) incrementalAlterConfigs(c IncrementalAlterConfigs) Reply {
	var reply AlterConfigsReply
	times := make(map[metadata.ConfigResource]int, len(c.Resources))
	for _, r := range c.Resources {
		times[r.Resource]++
	}
	wanted, errs := make([]map[string]string, len(c.Resources)), make([]error, len(c.Resources))
	var malformed error
	for i, r := range c.Resources {
		errs[i] = checkConfigRequest(c.Broker, r.Resource, times, len(r.Ops), func(i int) (string, bool) {
			return r.Ops[i].Name, r.Ops[i].Value == nil && r.Ops[i].Op != OpDelete
		})
		if errs[i] != nil {
			continue
		}
		wanted[i], errs[i] = d.applyOps(r)
		if kafka.CodeOf(errs[i]) == kafka.InvalidRequest && r.Resource.Type != metadata.BrokerResource {
			malformed = errs[i] // and nothing of the request is done, as in Kafka, whose controller even steps down
		}
	}
	for i, r := range c.Resources {
		if errs[i] == nil {
			errs[i] = malformed
		}
		if errs[i] == nil {
			errs[i] = d.replaceConfigs(r.Resource, wanted[i])
		}
		reply.Resources = append(reply.Resources, altered(r.Resource, errs[i]))
	}
	d.finishConfigs(c.ValidateOnly)
	return reply
}

func altered(resource metadata.ConfigResource, err error) AlteredResource {
	if err != nil {
		return AlteredResource{resource, failedWith(err)}
	}
	return AlteredResource{resource, ok}
}

// checkConfigRequest checks what can be said of one resource of a request without knowing its configuration. item returns
// the i-th key and whether its value is missing; broker is who took the request.
func checkConfigRequest(broker kafka.BrokerID, resource metadata.ConfigResource, times map[metadata.ConfigResource]int, n int, item func(i int) (string, bool)) error {
	if times[resource] > 1 {
		return kafka.Errorf(kafka.InvalidRequest, "Each resource must appear at most once.")
	}
	seen := make(map[string]bool, n)
	var nulls []string
	for i := range n {
		key, missing := item(i)
		if seen[key] {
			return kafka.Errorf(kafka.InvalidRequest, "Error due to duplicate config keys")
		}
		seen[key] = true
		if missing {
			nulls = append(nulls, key)
		}
	}
	if nulls != nil {
		return kafka.Errorf(kafka.InvalidRequest, "Null value not supported for : %s", strings.Join(nulls, ", "))
	}
	switch resource.Type {
	case metadata.TopicResource:
		return nil
	case metadata.BrokerResource:
		return checkBrokerName(resource.Name, broker)
	}
	return kafka.Errorf(kafka.InvalidRequest, "Unknown resource type %d", resource.Type)
}

// checkBrokerName checks the name of a broker resource: empty for all brokers, or the id of the broker that took the
// request, since only that one knows what it can do.
func checkBrokerName(name string, broker kafka.BrokerID) error {
	if name == "" {
		return nil
	}
	switch id, err := strconv.ParseInt(name, 10, 32); {
	case err != nil:
		return kafka.Errorf(kafka.InvalidRequest, "Node id must be an integer, but it is: %s", name)
	case kafka.BrokerID(id) != broker:
		return kafka.Errorf(kafka.InvalidRequest, "Unexpected broker id, expected %d, but received %s", broker, name)
	}
	return nil
}

// replaceConfigs makes wanted the whole configuration of a resource.
func (d *decision) replaceConfigs(resource metadata.ConfigResource, wanted map[string]string) error {
	current := d.img.Configs.Get(resource)
	var err error
	if resource.Type == metadata.TopicResource {
		err = d.checkTopicConfigs(resource.Name, wanted)
	} else {
		err = d.checkBrokerConfigs(resource.Name, wanted, current)
	}
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		value, is := wanted[key], current[key]
		if _, set := current[key]; (!set || is != value) && !config.IsRemovedTopicConfig(key) {
			d.add(metadata.ConfigRecord{Resource: resource, Key: key, Value: &value})
		}
	}
	for _, key := range slices.Sorted(maps.Keys(current)) {
		if _, stays := wanted[key]; !stays {
			d.add(metadata.ConfigRecord{Resource: resource, Key: key})
		}
	}
	return nil
}

func (d *decision) checkTopicConfigs(name string, wanted map[string]string) error {
	if name == "" {
		return kafka.Errorf(kafka.InvalidRequest, "Default topic resources are not allowed.")
	}
	if err := kafka.ValidateTopicName(name); err != nil {
		return err
	}
	if err := d.settings.Config.ValidateTopic(wanted); err != nil {
		return err
	}
	if _, exists := d.img.Topics.ByName(name); !exists {
		return kafka.Errorf(kafka.UnknownTopicOrPartition, "The topic '%s' does not exist.", name)
	}
	return nil
}

// checkBrokerConfigs checks the configuration of one broker or of all (name is empty). With ELR, min.insync.replicas is a
// fact of the whole cluster (KIP-966).
func (d *decision) checkBrokerConfigs(name string, wanted, current map[string]string) error {
	if err := config.ValidateBroker(wanted, name != ""); err != nil {
		return err
	}
	was, hadMinISR := current[minInSyncReplicas]
	is, hasMinISR := wanted[minInSyncReplicas]
	if name == "" {
		if hadMinISR && !hasMinISR {
			return kafka.Errorf(kafka.InvalidConfig, "Cluster-level min.insync.replicas cannot be removed while ELR is enabled.")
		}
		return nil
	}
	if hadMinISR != hasMinISR || was != is {
		return kafka.Errorf(kafka.InvalidConfig, "Broker-level min.insync.replicas cannot be altered while ELR is enabled.")
	}
	return nil
}

// finishConfigs ends a command that altered configurations. Where it changed what the minimum of in-sync replicas is,
// partitions whose ISR is not below it any more lose their ELR: from here on records count as committed that an eligible
// replica need not have. Where it allowed unclean elections, partitions without a leader get one (Kafka's do within
// unclean.leader.election.interval.ms).
func (d *decision) finishConfigs(validateOnly bool) {
	if validateOnly {
		d.records = nil
		return
	}
	if !slices.ContainsFunc(d.records, changesLeadership) {
		return
	}
	d.settle()
	d.partitions(func(p *metadata.PartitionRegistration) bool { return len(p.ELR) > 0 || p.Leader == kafka.NoBroker }, func(*transition) {})
}

func changesLeadership(r metadata.Record) bool {
	c, isConfig := r.(metadata.ConfigRecord)
	return isConfig && (c.Key == minInSyncReplicas || c.Key == uncleanLeaderElection)
}

// applyOps returns the configuration of a resource after the operations. The error is INVALID_REQUEST for an operation
// that is not known, else INVALID_CONFIG.
func (d *decision) applyOps(c ConfigChange) (map[string]string, error) {
	wanted := maps.Clone(d.img.Configs.Get(c.Resource))
	if wanted == nil {
		wanted = make(map[string]string, len(c.Ops))
	}
	var unknown error
	if i := slices.IndexFunc(c.Ops, func(op ConfigOp) bool { return op.Op < OpSet || op.Op > OpSubtract }); i >= 0 {
		unknown = kafka.Errorf(kafka.InvalidRequest, "Unknown operations type %d", c.Ops[i].Op)
	}
	if unknown != nil && c.Resource.Type == metadata.BrokerResource { // the first of several faults, for a topic the last
		return nil, unknown
	}
	for _, op := range c.Ops {
		switch op.Op {
		case OpSet:
			wanted[op.Name] = *op.Value
		case OpDelete:
			delete(wanted, op.Name)
		case OpAppend, OpSubtract:
			parts, err := listValue(c.Resource.Type, op, wanted)
			if err != nil {
				return nil, err
			}
			wanted[op.Name] = strings.Join(changeList(parts, op), ",")
		}
	}
	return wanted, unknown
}

// listValue returns the elements that an operation on a list begins with: those that are set, else the config's default.
func listValue(resource metadata.ResourceType, op ConfigOp, set map[string]string) ([]string, error) {
	def, known := config.LookupTopic(op.Name)
	if resource == metadata.BrokerResource {
		def, known = config.LookupBroker(op.Name)
		known = known && def.Name == op.Name // with a listener's prefix Kafka does not know them here
	}
	switch isList := known && def.Type == config.List; {
	case !isList && resource == metadata.TopicResource:
		return nil, kafka.Errorf(kafka.InvalidConfig, "Can't %s to key %s because its type is not LIST.", op.Op, op.Name)
	case !known:
		return nil, kafka.Errorf(kafka.InvalidConfig, "Unknown config name: %s", op.Name)
	case !isList:
		return nil, kafka.Errorf(kafka.InvalidConfig, "Config value %s is not allowed for config key: %s", strings.ToLower(op.Op.String()), op.Name)
	}
	value, isSet := set[op.Name]
	if !isSet {
		value = def.Default
	}
	var parts []string
	for part := range strings.SplitSeq(value, ",") {
		if part = strings.TrimSpace(part); part != "" {
			parts = append(parts, part)
		}
	}
	return parts, nil
}

func changeList(parts []string, op ConfigOp) []string {
	for _, element := range javaSplit(*op.Value) {
		element = strings.TrimSpace(element)
		at := slices.Index(parts, element)
		switch {
		case op.Op == OpAppend && at < 0:
			parts = append(parts, element)
		case op.Op == OpSubtract && at >= 0:
			parts = slices.Delete(parts, at, at+1)
		}
	}
	return parts
}

// javaSplit splits at commas as Java's String.split does: empty elements at the end do not count, but an empty string is one
// empty element. So appending nothing to a list ends it with a comma, in Kafka and here.
func javaSplit(s string) []string {
	if s == "" {
		return []string{""}
	}
	parts := strings.Split(s, ",")
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	return parts
}

// String gives the name that error texts use.
func (o OpType) String() string {
	switch o {
	case OpSet:
		return "SET"
	case OpDelete:
		return "DELETE"
	case OpAppend:
		return "APPEND"
	case OpSubtract:
		return "SUBTRACT"
	}
	return strconv.Itoa(int(o))
}
