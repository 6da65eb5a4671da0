package protocol

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/protocol.md anew")

const anyListener = ClientListener | PeerListener

type versionRange struct {
	name     string
	min, max int16
}

// kafkaAPIs reads what Kafka lists.
func kafkaAPIs(t *testing.T) map[int16]versionRange {
	t.Helper()
	f, err := os.Open("testdata/kafka-4.4-apis.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	apis := make(map[int16]versionRange)
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") {
			continue
		}
		var key int16
		var r versionRange
		if _, err := fmt.Sscan(s.Text(), &key, &r.name, &r.min, &r.max); err != nil {
			t.Fatalf("%q: %v", s.Text(), err)
		}
		apis[key] = r
	}
	return apis
}

func TestTableStaysWithinKafkas(t *testing.T) {
	kafka := kafkaAPIs(t)
	for a := range APIs(anyListener) {
		if a.Key == PeerKey {
			continue
		}
		k, ok := kafka[a.Key]
		switch {
		case !ok:
			t.Errorf("%s (key %d) is no API of Kafka", a.Name, a.Key)
		case a.Name != k.name:
			t.Errorf("key %d is called %s, and %s by Kafka", a.Key, a.Name, k.name)
		case a.AdvertisedMin != k.min:
			t.Errorf("%s is listed from %d on, by Kafka from %d", a.Name, a.AdvertisedMin, k.min)
		case a.Max > k.max:
			t.Errorf("%s is listed up to %d, by Kafka up to %d", a.Name, a.Max, k.max)
		}
	}
}

func TestTableIsWellFormed(t *testing.T) {
	last := int16(-1)
	for a := range APIs(anyListener) {
		if a.Key <= last {
			t.Errorf("%s: key %d stands after %d", a.Name, a.Key, last)
		}
		last = a.Key
		r := a.NewRequest(a.Max)
		if r.Key() != a.Key || r.MaxVersion() < a.Max {
			t.Errorf("%s: decoded as key %d, of which versions to %d are known; want key %d to %d", a.Name, r.Key(), r.MaxVersion(), a.Key, a.Max)
		}
		if a.Min < a.AdvertisedMin || a.Min > a.Max || a.AdvertisedMin < 0 {
			t.Errorf("%s: versions %d-%d listed from %d", a.Name, a.Min, a.Max, a.AdvertisedMin)
		}
		for v := a.Min; v <= a.Max; v++ {
			if r := a.NewRequest(v); r.GetVersion() != v || r.IsFlexible() != a.Flexible(v) {
				t.Errorf("%s v%d: flexible %v, and kmsg says %v", a.Name, v, a.Flexible(v), r.IsFlexible())
			}
		}
		if on := a.Listeners & anyListener; Lookup(a.Key, on) != a {
			t.Errorf("%s is not found by its key", a.Name)
		}
	}
}

func TestOnlyProduceIsHugeAndOnlyItAndOffsetCommitArePipelined(t *testing.T) {
	for a := range APIs(anyListener) {
		if a.Key == PeerKey {
			continue
		}
		isProduce, isCommit := a.Name == "Produce", a.Name == "OffsetCommit"
		if a.Pipelined != (isProduce || isCommit) || (a.MaxBytes > maxLargeBytes) != isProduce {
			t.Errorf("%s: pipelined %v, up to %d bytes", a.Name, a.Pipelined, a.MaxBytes)
		}
	}
}

func TestWhatIsNotInTheTableIsNotFound(t *testing.T) {
	for _, key := range []int16{-32768, -1, 4, 5, 6, 7, 56, 999, 32099, 32101, 32767} {
		if a := Lookup(key, anyListener); a != nil {
			t.Errorf("key %d is served as %s", key, a.Name)
		}
	}
	produce := Lookup(0, ClientListener)
	for version, want := range map[int16]bool{-1: false, 0: false, 2: false, 3: true, 13: true, 14: false, 300: false} {
		if got := produce.Accepts(version); got != want {
			t.Errorf("Produce v%d accepted: %v", version, got)
		}
	}
	if !Lookup(18, ClientListener).Flexible(99) {
		t.Error("the header of an ApiVersions of the future is not read as flexible")
	}
}

//go:generate go test . -run DocumentIsCurrent -update

func TestDocumentIsCurrent(t *testing.T) {
	const path = "../docs/protocol.md"
	want := document(kafkaAPIs(t))
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the table says (%v): go generate ./protocol", path, err)
	}
}

// document renders the table for people.
func document(kafka map[int16]versionRange) []byte {
	var b bytes.Buffer
	b.WriteString(`# The protocol that is served

Made from the table in ` + "`protocol/apis.go`" + ` by ` + "`go generate ./protocol`" + `: do not edit.

A key that is not listed here is not served: the connection closes, with a line in the log that names the API, its
version and the client. Versions marked * are listed in ApiVersions and refused, as in Kafka: old clients switch features
off where they are not listed (KAFKA-18659).

| key | API | versions | Kafka 4.4 | flexible from | largest request | next request starts before the reply |
|--:|--|--|--|--|--|--|
`)
	for a := range APIs(ClientListener) {
		versions := fmt.Sprintf("%d–%d", a.Min, a.Max)
		if a.Min == a.Max {
			versions = fmt.Sprint(a.Min)
		}
		if a.AdvertisedMin < a.Min {
			versions = fmt.Sprintf("%d*–%d* %s", a.AdvertisedMin, a.Min-1, versions)
		}
		theirs := fmt.Sprintf("%d–%d", kafka[a.Key].min, kafka[a.Key].max)
		if kafka[a.Key].min == kafka[a.Key].max {
			theirs = fmt.Sprint(kafka[a.Key].min)
		}
		flexible := "–"
		if a.firstFlexible <= a.Max {
			flexible = fmt.Sprint(max(a.firstFlexible, a.Min))
		}
		pipelined := ""
		if a.Pipelined {
			pipelined = "yes"
		}
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %d MiB | %s |\n", a.Key, a.Name, versions, theirs, flexible, a.MaxBytes>>20, pipelined)
	}
	return b.Bytes()
}
