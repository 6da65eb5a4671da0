package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

const (
	httpRequest = "GET / HTTP/1.1\r\nHost: weir\r\n\r\n"
	tlsHello    = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
)

// rawRequest frames a request of a made-up body: header v1, or v2 without tags where flexible.
func rawRequest(key, version int16, flexible bool, body ...byte) []byte {
	b := binary.BigEndian.AppendUint16(make([]byte, 4), uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	b = append(b, "\x00\x00\x00\x01\x00\x05probe"...)
	if flexible {
		b = append(b, 0)
	}
	b = append(b, body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	return b
}

// hugeVarint is the compact length of 2^32-2 elements.
var hugeVarint = []byte{0xff, 0xff, 0xff, 0xff, 0x0f}

// notRequests is what ends a connection at once: nothing in it can be answered.
var notRequests = map[string][]byte{
	"HTTP":                             []byte(httpRequest),
	"TLS":                              append([]byte(tlsHello), make([]byte, 32)...),
	"size -1":                          {0xff, 0xff, 0xff, 0xff},
	"size 2^31-1":                      {0x7f, 0xff, 0xff, 0xff, 0},
	"size -2^31":                       {0x80, 0, 0, 0},
	"size 0":                           {0, 0, 0, 0},
	"size 100 MiB and 1":               {0x06, 0x40, 0, 1, 0, 3, 0, 1},
	"a frame of 4 bytes":               {0, 0, 0, 4, 0, 3, 0, 1},
	"a frame of a header's first 8":    {0, 0, 0, 8, 0, 3, 0, 1, 0, 0, 0, 1},
	"a client id longer than all":      {0, 0, 0, 12, 0, 3, 0, 1, 0, 0, 0, 1, 0x7f, 0xff, 'a', 'b'},
	"2^31-1 topics":                    rawRequest(3, 1, false, 0x7f, 0xff, 0xff, 0xff),
	"2^32-2 topics, compact":           rawRequest(3, 9, true, hugeVarint...),
	"a varint that does not end":       rawRequest(3, 9, true, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff),
	"a topic name longer than all":     rawRequest(3, 1, false, 0, 0, 0, 1, 0x7f, 0xff, 'a'),
	"2^31-1 produced topics":           rawRequest(0, 7, false, 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff),
	"2^31-1 produced partitions":       rawRequest(0, 7, false, 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 'a', 0x7f, 0xff, 0xff, 0xff),
	"2^31-1 bytes of records":          rawRequest(0, 7, false, 0xff, 0xff, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 1, 0, 0, 0, 0, 0x7f, 0xff, 0xff, 0xff),
	"2^32-2 created topics, compact":   rawRequest(19, 7, true, hugeVarint...),
	"2^32-2 tags in the header":        rawRequest(3, 9, false, hugeVarint...),
	"2^32-2 tags in the body":          rawRequest(3, 9, true, append([]byte{1, 0, 0, 0}, hugeVarint...)...),
	"2^32-2 tags in ApiVersions":       rawRequest(18, 3, true, append([]byte{2, 'a', 2, 'b'}, hugeVarint...)...),
	"a tag longer than all":            rawRequest(3, 9, false, append([]byte{1, 0}, hugeVarint...)...),
	"a flexible header in version 1":   rawRequest(3, 1, false, 0, 0xff, 0xff, 0xff, 0xff),
	"half of a body":                   rawRequest(2, 1, false, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 1, 'a', 0, 0, 0, 1, 0, 0),
	"nothing where a body belongs":     rawRequest(2, 1, false),
	"topic names that may not be null": rawRequest(2, 1, false, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0xff, 0xff),
}

// Health checks, browsers and TLS clients meet the port, and so does who wants to break the broker. None of it is
// answered or waited for: a TLS client would hang, and lengths that lie must cost nothing.
func TestWhatIsNoRequestIsCutOff(t *testing.T) {
	address := harness.Shared(t).Bootstrap
	other := dial(t, address)
	for name, b := range notRequests {
		t.Run(name, func(t *testing.T) {
			c := dial(t, address)
			c.send(t, b)
			c.wantClosed(t)
		})
	}
	other.wantAlive(t)
	dial(t, address).wantAlive(t)
}

// Old clients leave padding behind a request, and brokers have always ignored it.
func TestBytesBehindARequestAreIgnored(t *testing.T) {
	c := dial(t, harness.Shared(t).Bootstrap)
	c.send(t, rawRequest(3, 1, false, 0, 0, 0, 0, 'p', 'a', 'd'))
	reply, err := c.reply(replyWithin)
	if err != nil {
		t.Fatal(err)
	}
	resp := kmsg.NewPtrMetadataResponse()
	resp.Version = 1
	if err := resp.ReadFrom(reply[4:]); err != nil || len(resp.Brokers) == 0 || len(resp.Topics) != 0 {
		t.Errorf("%v: %d brokers, %d topics", err, len(resp.Brokers), len(resp.Topics))
	}
	c.wantAlive(t)
}

// A client that does not speak TLS or HTTP to us is told why by the log alone, so the log must say it, in one line that
// names the peer; and hostile client ids must not forge lines, nor mistakes of clients look like errors of the broker.
func TestTheLogTellsWhatClientsDidWrong(t *testing.T) {
	s := start(t)
	for _, c := range []struct {
		bytes []byte
		words []string
	}{
		{[]byte(httpRequest), []string{"HTTP"}},
		{notRequests["TLS"], []string{"TLS"}},
		{rawRequest(3, 99, true), []string{"Metadata", "99", `"probe"`}},
		{rawRequest(999, 0, false), []string{"999", `"probe"`}},
		{rawRequest(3, 1, false, 0x7f, 0xff, 0xff, 0xff), []string{"Metadata", `"probe"`}},
		{slices.Concat([]byte{0, 0, 0, 20, 0, 3, 0, 99, 0, 0, 0, 1, 0, 10}, []byte("a\n\x1b[31mERR")), []string{"Metadata", "99", `a\n\u001b[31mERR`}},
	} {
		conn := dial(t, s.Address)
		conn.send(t, c.bytes)
		conn.wantClosed(t)
		s.awaitLog(t, append(c.words, conn.LocalAddr().String())...)
	}
	for line := range strings.Lines(s.log(t)) {
		if !strings.HasPrefix(line, "{") || strings.Contains(line, `"ERROR"`) || strings.Contains(line, "goroutine ") {
			t.Errorf("a line of the log: %s", line)
		}
	}
}

// Whoever can connect can make the broker log a line. It must not be as many lines as he likes: a full disk ends the broker.
func TestHostileBytesDoNotFillTheLog(t *testing.T) {
	s := start(t)
	const n = 2000
	for range n {
		c := dial(t, s.Address)
		c.send(t, []byte(httpRequest))
		c.wantClosed(t)
		c.Close()
	}
	if lines := strings.Count(s.log(t), "\n"); lines > n/4 {
		t.Errorf("%d lines were logged about %d connections", lines, n)
	}
}

// mibs is how much a broker's memory may grow while a case abuses it. It is far below what each abuse would take if the
// broker believed what it is told.
const mibs = 64

// measure runs f and checks that the broker's memory stays about where it was. Where the broker is the user's, f is run
// for what it checks itself.
func measure(t *testing.T, f func(t *testing.T, address string)) {
	t.Helper()
	if harness.External() != "" {
		f(t, harness.External())
		return
	}
	s := start(t)
	dial(t, s.Address).wantAlive(t)
	before := s.rss(t)
	f(t, s.Address)
	if after := s.rss(t); after > before+mibs {
		t.Errorf("the broker's memory went from %d MiB to %d MiB", before, after)
	}
	dial(t, s.Address).wantAlive(t)
}

// A request of 24 bytes that claims billions of elements must not make the broker reserve memory for them, not once and
// not a thousand times (CVE-2022-34917).
func TestClaimedLengthsTakeNoMemory(t *testing.T) {
	measure(t, func(t *testing.T, address string) {
		for range 100 {
			for name, b := range notRequests {
				c, err := connect(address)
				if err != nil {
					t.Fatal(err)
				}
				c.send(t, b)
				if err := c.closed(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				c.Close()
			}
		}
	})
}

// A frame's announced size is believed as its bytes arrive, not before: 50 connections that announce 100 MB each and
// send nothing would be 5 GB. (Kafka does run out of memory.)
func TestAnnouncedFramesTakeNoMemory(t *testing.T) {
	needOwn(t)
	measure(t, func(t *testing.T, address string) {
		head := rawRequest(0, 9, true)
		binary.BigEndian.PutUint32(head, 100_000_000)
		for range 50 {
			dial(t, address).send(t, head)
		}
		time.Sleep(100 * time.Millisecond) // nothing is to be seen that could be waited for
		dial(t, address).wantAlive(t)
	})
}

// A thousand connections that say nothing, or begin a frame and stop, are what a port scanner or a broken proxy leaves.
func TestSilentConnectionsTakeLittleMemory(t *testing.T) {
	measure(t, func(t *testing.T, address string) {
		for i := range 1000 {
			c := dial(t, address)
			if i%2 == 0 {
				c.send(t, []byte{0, 0, 0, 50, 0, 3, 0})
			}
		}
		dial(t, address).wantAlive(t)
	})
}

// Arrays of empty elements are the dearest thing to decode: each byte becomes a structure of many. The broker may refuse
// them, but not by dying. (Kafka 4.4 runs out of memory creating 100,000 topics without a name.)
func TestManyEmptyElements(t *testing.T) {
	needOwn(t)
	address := harness.Shared(t).Bootstrap
	elements := func(key, version int16, flexible bool, head []byte, element string, n int) []byte {
		body := slices.Clone(head)
		if flexible {
			body = binary.AppendUvarint(body, uint64(n)+1)
		} else {
			body = binary.BigEndian.AppendUint32(body, uint32(n))
		}
		return rawRequest(key, version, flexible, append(body, bytes.Repeat([]byte(element), n)...)...)
	}
	const n = 100_000
	for name, b := range map[string][]byte{
		"Metadata":         elements(3, 1, false, nil, "\x00\x00", n),
		"ListOffsets":      elements(2, 1, false, []byte{0xff, 0xff, 0xff, 0xff}, "\x00\x00\x00\x00\x00\x00", n),
		"Produce":          elements(0, 7, false, []byte{0xff, 0xff, 0, 1, 0, 0, 0, 0}, "\x00\x00\x00\x00\x00\x00", n),
		"Fetch":            elements(1, 12, true, []byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, "\x01\x01\x00", n),
		"CreateTopics":     elements(19, 7, true, nil, "\x01\x00\x00\x00\x01\x00\x01\x01\x01\x00", n),
		"DeleteTopics":     elements(20, 1, false, nil, "\x00\x00", n),
		"CreatePartitions": elements(37, 0, false, nil, "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", n),
	} {
		c := dial(t, address)
		c.send(t, b)
		if _, err := c.reply(30 * time.Second); err != nil {
			var timeout net.Error
			if errors.As(err, &timeout) && timeout.Timeout() {
				t.Errorf("%s: neither answered nor closed", name)
			}
		}
		c.Close()
		dial(t, address).wantAlive(t)
	}
}
