package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicConfig returns one setting of a topic.
func topicConfig(t *testing.T, c *conn, topic, name string) kmsg.DescribeConfigsResponseResourceConfig {
	t.Helper()
	row := describeConfigs(t, c, kmsg.ConfigResourceTypeTopic, topic, name)
	if row.ErrorCode != 0 || len(row.Configs) != 1 {
		t.Fatalf("%s of topic %s: %s, %d settings", name, topic, codeName(row.ErrorCode), len(row.Configs))
	}
	return row.Configs[0]
}

// describeConfigs asks for settings of a resource; for all where none is named.
func describeConfigs(t *testing.T, c *conn, kind kmsg.ConfigResourceType, resource string, names ...string) kmsg.DescribeConfigsResponseResource {
	t.Helper()
	req := at(4, kmsg.NewPtrDescribeConfigsRequest())
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kind, ResourceName: resource, ConfigNames: names}}
	rows := ask(t, c, req).Resources
	if len(rows) != 1 || rows[0].ResourceType != kind || rows[0].ResourceName != resource {
		t.Fatalf("DescribeConfigs of %q: %+v", resource, rows)
	}
	return rows[0]
}
