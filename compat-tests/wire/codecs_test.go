package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"weir/compat-tests/harness"
)

// tenRecords are the records that the files in testdata hold, compressed. The files were made so, where payload is what
// any of them decompresses to:
//
//	zstd --ultra -22 --no-content-size --no-check -o ultra.zst payload; zstd -1 -o check.zst payload
//	lz4 -B4 -BD payload linked.lz4; lz4 -B4 --content-size -BX payload size.lz4
func tenRecords() []record {
	records := make([]record, 10)
	for i := range records {
		records[i] = record{1000 + 10*int64(i), fmt.Appendf(nil, "key %d", i), []byte(strings.Repeat(fmt.Sprintf("record %d of ten, ", i), 1000))}
	}
	return records
}

func testdata(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// snappyBlock compresses by not compressing: a length, and literals.
func snappyBlock(b []byte) []byte {
	out := binary.AppendUvarint(nil, uint64(len(b)))
	for len(b) > 0 {
		n := min(len(b), 1<<16)
		out = append(out, 61<<2, byte(n-1), byte((n-1)>>8)) // a literal whose length takes two bytes
		out, b = append(out, b[:n]...), b[n:]
	}
	return out
}

// xerial frames snappy blocks as Java's producers do.
func xerial(b []byte, blockSize int) []byte {
	out := []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
	for block := range slices.Chunk(b, blockSize) {
		packed := snappyBlock(block)
		out = binary.BigEndian.AppendUint32(out, uint32(len(packed)))
		out = append(out, packed...)
	}
	return out
}

// payload is one way to compress the ten records.
type payload struct {
	name  string
	codec int16
	bytes []byte
}

func payloads(t *testing.T) []payload {
	t.Helper()
	records := newBatch(tenRecords()...).Records
	half := len(newBatch(tenRecords()[:5]...).Records)
	return []payload{
		{"gzip, one member", codecGzip, gzipped(records)},
		{"gzip, two members", codecGzip, slices.Concat(gzipped(records[:half]), gzipped(records[half:]))},
		{"gzip, a member that begins within a record", codecGzip, slices.Concat(gzipped(records[:100]), gzipped(records[100:]))},
		{"snappy, raw", codecSnappy, snappyBlock(records)},
		{"snappy, Java's frames", codecSnappy, xerial(records, 32<<10)},
		{"snappy, one of Java's frames", codecSnappy, xerial(records, len(records))},
		{"lz4, with its size and checksums", codecLZ4, testdata(t, "size.lz4")},
		{"zstd, the highest level, without its size", codecZstd, testdata(t, "ultra.zst")},
		{"zstd, with a checksum", codecZstd, testdata(t, "check.zst")},
	}
}

// Clients' libraries write the same codec in many forms, all of them valid. The broker has to read each, for the times
// within the batch, and leaves the bytes as they are; a topic that asks for another codec has it read all of them.
func TestEveryFormOfCompression(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	kept := newTopic(t, broker.Bootstrap, 1).name
	stamped := newTopic(t, broker.Bootstrap, 1, "message.timestamp.type", "LogAppendTime").name
	unpacked := newTopic(t, broker.Bootstrap, 1, "compression.type", "uncompressed").name
	all := payloads(t)
	if harness.External() == "" { // Kafka's decoder does not take them
		all = append(all, payload{"lz4, linked blocks", codecLZ4, testdata(t, "linked.lz4")})
	}
	for i, p := range all {
		t.Run(p.name, func(t *testing.T) {
			base := int64(10 * i)
			for _, topic := range []string{kept, stamped, unpacked} {
				if offset := mustProduce(t, c, topic, 0, newBatch(tenRecords()...).compressed(p.codec, p.bytes)); offset != base {
					t.Fatalf("it is at offset %d, want %d", offset, base)
				}
				got := readBatches(t, fetch(t, c, topic, 0, base).RecordBatches)[0]
				switch {
				case topic != unpacked && !bytes.Equal(got.Records, p.bytes):
					t.Error("the bytes are changed")
				case topic != unpacked && got.Attributes&7 != p.codec, (got.Attributes&logAppendTime != 0) != (topic == stamped):
					t.Errorf("attributes %#x", got.Attributes)
				case topic == unpacked && !bytes.Equal(got.Records, newBatch(tenRecords()...).Records):
					t.Errorf("%d bytes came out of it", len(got.Records))
				}
			}
		})
	}
	for _, topic := range []string{kept, unpacked} {
		for i := range int64(10) {
			wantFound(t, c, topic, topic, 1000+10*i-5, found{i, 1000 + 10*i})
		}
	}
}

// What does not decompress, or has a codec that nobody knows, is not appended.
func TestBrokenCompressionIsRefused(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1).name
	var broken []payload
	for _, p := range payloads(t) {
		broken = append(broken, payload{p.name + ", half of it", p.codec, p.bytes[:len(p.bytes)/2]}, payload{p.name + ", nothing of it", p.codec, nil},
			payload{p.name + ", garbage", p.codec, garbage(500)})
	}
	for codec := int16(5); codec < 8; codec++ {
		broken = append(broken, payload{fmt.Sprintf("codec %d", codec), codec, newBatch(tenRecords()...).Records})
	}
	for _, p := range broken {
		got := produce(t, c, topic, 0, newBatch(tenRecords()...).compressed(p.codec, p.bytes).bytes())
		if code := got.ErrorCode; code != kerr.UnknownServerError.Code && code != kerr.CorruptMessage.Code && code != kerr.InvalidRecord.Code {
			t.Errorf("%s: %s", p.name, codeName(code))
		}
		if end := endOffset(t, c, topic); end != 0 {
			t.Fatalf("%s: the log ends at %d", p.name, end)
		}
	}
}

// max.decompressed.message.bytes bounds a record within a compressed batch, where max.message.bytes counts what is stored.
func TestTheSizeOfADecompressedRecordIsLimited(t *testing.T) {
	broker := harness.Shared(t)
	c := dial(t, broker.Bootstrap)
	topic := newTopic(t, broker.Bootstrap, 1, "max.decompressed.message.bytes", "1000000").name
	for size, want := range map[int]*kerr.Error{900_000: nil, 2_000_000: kerr.InvalidRecord} {
		b := newBatch(record{1, nil, make([]byte, size)})
		wantCode(t, fmt.Sprint(size), produce(t, c, topic, 0, b.compressed(codecGzip, gzipped(b.Records)).bytes()).ErrorCode, want)
	}
}

// bombHead is the start of a record of so many zeros, which then follow.
func bombHead(zeros int) []byte {
	value := binary.AppendVarint(nil, int64(zeros))
	rest := slices.Concat([]byte{0, 0, 0, 1}, value) // attributes, time, offset, null key
	return append(binary.AppendVarint(nil, int64(len(rest)+zeros+1)), rest...)
}

// zstdBomb is a frame of run-length blocks, four bytes for each 128 KiB.
func zstdBomb(head []byte, zeros int, window byte) []byte {
	out := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, window} // no content size, no checksum
	block := func(last, kind, size int, content ...byte) {
		h := last | kind<<1 | size<<3
		out = append(append(out, byte(h), byte(h>>8), byte(h>>16)), content...)
	}
	block(0, 0, len(head), head...)
	for ; zeros > 128<<10; zeros -= 128 << 10 {
		block(0, 1, 128<<10, 0)
	}
	block(1, 1, zeros, 0)
	return out
}

// gzipBomb is members of a mebibyte of zeros.
func gzipBomb(head []byte, mebibytes int) []byte {
	return append(gzipped(head), bytes.Repeat(gzipped(make([]byte, 1<<20)), mebibytes)...)
}

// lz4Bomb is blocks of one long match each; it returns how many zeros they hold.
func lz4Bomb(blocks int) ([]byte, int) {
	const extension = 16_000
	block := slices.Concat([]byte{0x1f, 0, 1, 0}, bytes.Repeat([]byte{255}, extension), []byte{0, 0x50, 0, 0, 0, 0, 0})
	out := []byte{0x04, 0x22, 0x4d, 0x18, 0x60, 0x70, 0x73} // independent blocks of up to 4 MiB
	zeros := blocks * (1 + 4 + 15 + 255*extension + 5)
	head := bombHead(zeros)
	out = binary.LittleEndian.AppendUint32(out, 1<<31|uint32(len(head))) // stored as it is
	out = append(out, head...)
	for range blocks {
		out = append(binary.LittleEndian.AppendUint32(out, uint32(len(block))), block...)
	}
	return append(out, 0, 0, 0, 0), zeros
}

// A megabyte that decompresses to a gigabyte is looked at without taking a gigabyte, and refused; so is a length that
// lies. The broker bounds what all clients together take by that.
func TestDecompressionBombs(t *testing.T) {
	needOwn(t)
	const gib = 1 << 30
	lz4, _ := lz4Bomb(62)
	gzip := payload{"gzip", codecGzip, gzipBomb(bombHead(900<<20), 900)}
	bombs := []payload{
		gzip,
		{"zstd", codecZstd, zstdBomb(bombHead(gib), gib, 0x38)},
		{"zstd with a window of 2 GiB", codecZstd, zstdBomb(bombHead(gib), gib, 0xa8)},
		{"lz4", codecLZ4, lz4},
		{"snappy that claims 4 GiB", codecSnappy, append(binary.AppendUvarint(nil, 1<<32-1), 0, 0)},
		{"a block of snappy that claims 2 GiB", codecSnappy, append(xerial(nil, 1), 0x7f, 0xff, 0xff, 0xff, 0)},
	}
	s := start(t)
	topic := newTopic(t, s.Address, 1).name
	c := dial(t, s.Address)
	request := func(p payload) *kmsg.ProduceRequest {
		return produceRequest(topic, 0, newBatch(record{1, nil, nil}).compressed(p.codec, p.bytes).bytes())
	}
	for _, b := range bombs {
		code := ask(t, c, request(b)).Topics[0].Partitions[0].ErrorCode
		if code != kerr.InvalidRecord.Code && code != kerr.UnknownServerError.Code {
			t.Errorf("%s: %s", b.name, codeName(code))
		}
	}
	stored := payload{"100 MiB, which may be stored", codecGzip, gzipBomb(bombHead(100<<20-1), 100)}
	wantCode(t, stored.name, ask(t, c, request(stored)).Topics[0].Partitions[0].ErrorCode, nil)
	askAtOnce(t, s.Address, 8, request(gzip), func(resp kmsg.Response) {
		wantCode(t, "one of many", resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode, kerr.InvalidRecord)
	})
	askAtOnce(t, s.Address, 16, at(7, listOffsetsRequest(topic, 0, 0)), func(resp kmsg.Response) { // which reads it
		wantCode(t, "a look-up", resp.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode, nil)
	})
	// A batch may take 128 MiB and what that needs to grow, for each processor. Without a bound it would be 2 GiB and more.
	if limit := int64(500 * (1 + runtime.NumCPU())); s.rss(t) > limit {
		t.Errorf("the broker takes %d MiB, more than %d", s.rss(t), limit)
	}
	if end := endOffset(t, c, topic); end != 1 {
		t.Errorf("the log ends at %d", end)
	}
}

// askAtOnce sends one request on each of n connections and then looks at the replies.
func askAtOnce(t *testing.T, address string, n int, req kmsg.Request, look func(kmsg.Response)) {
	t.Helper()
	var conns []*conn
	for range n {
		c := dial(t, address)
		c.send(t, c.frame(req))
		conns = append(conns, c)
	}
	for _, c := range conns {
		resp, err := c.receive(req, c.sent, 6*replyWithin)
		if err != nil {
			t.Fatal(err)
		}
		look(resp)
	}
}
