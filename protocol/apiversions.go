package protocol

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/internal/kafka"
)

// Feature is a feature of the cluster (KIP-584): the levels that this broker supports and the one in force.
type Feature struct {
	Name      string
	Min, Max  int16
	Finalized int16 // 0 where the feature is off
}

// MetadataVersion is the one feature of this cluster so far.
func MetadataVersion(finalized int16) Feature {
	return Feature{Name: "metadata.version", Min: 7, Max: DefaultMetadataVersion, Finalized: finalized}
}

// DefaultMetadataVersion is 4.3-IV0, the highest level that the common user interfaces know.
const DefaultMetadataVersion = 30

// ApiVersionsResponse is the answer to ApiVersions v0–4 on a client listener (KIP-35, KIP-584). finalizedEpoch is the
// metadata offset that the finalized levels were read at; clients keep the highest that they have seen of a cluster. For
// versions that are not served the answer is UnsupportedApiVersions.
func ApiVersionsResponse(version int16, finalizedEpoch int64, features []Feature) *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.Version = version
	for a := range APIs(ClientListener) {
		resp.ApiKeys = append(resp.ApiKeys, a.advertised())
	}
	if version < 3 {
		return resp
	}
	resp.FinalizedFeaturesEpoch = finalizedEpoch
	for _, f := range features {
		// KAFKA-17492: older Java clients cannot read a supported feature whose minimum is 0.
		if f.Min > 0 || version >= 4 {
			resp.SupportedFeatures = append(resp.SupportedFeatures, kmsg.ApiVersionsResponseSupportedFeature{
				Name: f.Name, MinVersion: f.Min, MaxVersion: f.Max})
		}
		if f.Finalized > 0 { // level 0 is "off", and left out
			resp.FinalizedFeatures = append(resp.FinalizedFeatures, kmsg.ApiVersionsResponseFinalizedFeature{
				Name: f.Name, MinVersionLevel: f.Finalized, MaxVersionLevel: f.Finalized})
		}
	}
	return resp
}

// UnsupportedApiVersions answers an ApiVersions request of any version that is not served: in the form of v0, with the
// versions that are. Clients ask again at the highest of them.
func UnsupportedApiVersions() *kmsg.ApiVersionsResponse {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.ErrorCode = int16(kafka.UnsupportedVersion)
	resp.ApiKeys = []kmsg.ApiVersionsResponseApiKey{Lookup(apiVersionsKey, ClientListener).advertised()}
	return resp
}

// IsApiVersions reports whether a key is the one that is answered at any version.
func IsApiVersions(key int16) bool { return key == apiVersionsKey }

func (a *API) advertised() kmsg.ApiVersionsResponseApiKey {
	return kmsg.ApiVersionsResponseApiKey{ApiKey: a.Key, MinVersion: a.AdvertisedMin, MaxVersion: a.Max}
}

// IsSoftwareName reports whether a client's software may have that name or version (KIP-511). Others are answered with
// INVALID_REQUEST, in the layout of the request's version and without any key. The pattern,
// [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?, also keeps a client's words harmless in logs and metrics.
func IsSoftwareName(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' {
			continue
		}
		if i == 0 || i == len(s)-1 || c != '-' && c != '.' {
			return false
		}
	}
	return true
}
