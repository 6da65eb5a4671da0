package protocol

import (
	"encoding/hex"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestApiVersionsListsTheTable(t *testing.T) {
	for version := int16(0); version <= 4; version++ {
		resp := ApiVersionsResponse(version, 7, []Feature{MetadataVersion(DefaultMetadataVersion)})
		var got kmsg.ApiVersionsResponse
		got.Version = version
		if err := got.ReadFrom(resp.AppendTo(nil)); err != nil {
			t.Fatalf("v%d: %v", version, err)
		}
		rows := 0
		for a := range APIs(ClientListener) {
			if k := got.ApiKeys[rows]; k.ApiKey != a.Key || k.MinVersion != a.AdvertisedMin || k.MaxVersion != a.Max {
				t.Errorf("v%d lists %+v for %s", version, k, a.Name)
			}
			rows++
		}
		if rows != len(got.ApiKeys) || got.ErrorCode != 0 {
			t.Errorf("v%d: error %d, %d keys, the table has %d", version, got.ErrorCode, len(got.ApiKeys), rows)
		}
		if k := got.ApiKeys[0]; k.ApiKey != 0 || k.MinVersion != 0 {
			t.Errorf("v%d: Produce is listed from %d on: old librdkafka switches compression off", version, k.MinVersion)
		}
	}
}

func TestFeaturesBelongToTheirVersions(t *testing.T) {
	features := []Feature{
		MetadataVersion(30),
		{Name: "group.version", Min: 0, Max: 1, Finalized: 1},
		{Name: "share.version", Min: 0, Max: 2, Finalized: 0},
	}
	count := func(version int16) (supported, finalized int) {
		resp := ApiVersionsResponse(version, 99, features)
		for _, f := range resp.FinalizedFeatures {
			if f.MinVersionLevel != f.MaxVersionLevel || f.MaxVersionLevel == 0 {
				t.Errorf("v%d: %s is finalized at %d-%d", version, f.Name, f.MinVersionLevel, f.MaxVersionLevel)
			}
		}
		return len(resp.SupportedFeatures), len(resp.FinalizedFeatures)
	}
	for version, want := range map[int16][2]int{0: {0, 0}, 2: {0, 0}, 3: {1, 2}, 4: {3, 2}} {
		if supported, finalized := count(version); supported != want[0] || finalized != want[1] {
			t.Errorf("v%d: %d supported and %d finalized, want %v", version, supported, finalized, want)
		}
	}
	if epoch := ApiVersionsResponse(3, 99, features).FinalizedFeaturesEpoch; epoch != 99 {
		t.Errorf("epoch %d, want 99", epoch)
	}
}

func TestUnsupportedApiVersionsIsVersion0(t *testing.T) {
	resp := UnsupportedApiVersions()
	// Error 35, one key: 18, 0 to 4. The response header has no tagged fields.
	const want = "00000010" + "00000001" + "0023" + "00000001" + "0012" + "0000" + "0004"
	if got := hex.EncodeToString(AppendResponse(nil, 1, resp)); got != want {
		t.Errorf("answered %s, want %s", got, want)
	}
}

func TestApiVersionsKeepsTheOldResponseHeader(t *testing.T) {
	b := AppendResponse(nil, 1, ApiVersionsResponse(3, 0, nil))
	if errorCode := b[8:10]; errorCode[0] != 0 || errorCode[1] != 0 || b[10] < 2 {
		t.Errorf("% x follows the correlation id, want error code 0 and a compact length", b[8:11])
	}
	metadata := kmsg.NewPtrMetadataResponse()
	metadata.Version = 9
	if b := AppendResponse(nil, 1, metadata); b[8] != 0 || len(b) != 4+4+1+len(metadata.AppendTo(nil)) {
		t.Errorf("a flexible response has no tagged fields in its header: % x", b)
	}
}

func TestSoftwareNames(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "apache-kafka-java": true, "4.4.0": true, "a..b": true, "0": true,
		"": false, "-a": false, "a-": false, ".": false, "a_b": false, "a b": false, "a\nb": false, "ä": false,
	} {
		if got := IsSoftwareName(name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
