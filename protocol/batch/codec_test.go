package batch

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
)

// contents are what codecs treat differently: empty, tiny, one byte over and over, text, noise, and several blocks of
// each format.
func contents() map[string][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 200_000)
	for i := range noise {
		noise[i] = byte(rng.Uint32())
	}
	return map[string][]byte{
		"empty": {}, "one byte": {7}, "zeros": make([]byte, 300_000), "text": bytes.Repeat([]byte("a batch of records, "), 20_000), "noise": noise,
		"one block of snappy": noise[:32<<10], "one block of lz4": noise[:64<<10],
	}
}

func TestCodecRoundTrip(t *testing.T) {
	levels := map[Codec][]int{Gzip: {-1, 0, 1, 9, 100}, Snappy: {0}, LZ4: {0, 1, 8, 9, 10, 17}, Zstd: {-131072, -1, 0, 1, 3, 9, 22}, None: {0}}
	for codec, levels := range levels {
		for _, level := range levels {
			for name, content := range contents() {
				packed, err := compress([]byte("before"), codec, level, content)
				if err != nil || !bytes.HasPrefix(packed, []byte("before")) {
					t.Fatalf("%v level %d, %s: %v", codec, level, name, err)
				}
				if codec == None {
					continue
				}
				var dst buffer
				if err := decompress(&dst, codec, packed[6:], len(content)); err != nil || !bytes.Equal(dst.b, content) {
					t.Errorf("%v level %d, %s: %d bytes come back of %d: %v", codec, level, name, len(dst.b), len(content), err)
				}
			}
		}
	}
}

func TestLevelsDiffer(t *testing.T) {
	content := produced(t, None, 300_000, 150)[HeaderSize:]
	for codec, levels := range map[Codec][2]int{Gzip: {1, 9}, LZ4: {9, 17}, Zstd: {1, 22}} { // 9 is LZ4's fast algorithm
		fast, _ := compress(nil, codec, levels[0], content)
		best, _ := compress(nil, codec, levels[1], content)
		if len(best) >= len(fast) {
			t.Errorf("%v: %d bytes at level %d, %d at level %d", codec, len(fast), levels[0], len(best), levels[1])
		}
	}
}

func TestUnknownCodec(t *testing.T) {
	var dst buffer
	if err := decompress(&dst, 5, []byte("x"), 10); !errors.Is(err, errUnknownCodec) {
		t.Error(err)
	}
	if _, err := NewBuilder(7, 0).Build(); !errors.Is(err, errUnknownCodec) {
		t.Error(err)
	}
}

// What the pool hands out must not matter, nor whether a zstd frame tells its size.
func TestDecompressIntoAnyBuffer(t *testing.T) {
	var streamed bytes.Buffer
	stream, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range contents() {
		packed := map[string][]byte{}
		for _, codec := range everyCodec[1:] {
			packed[codec.String()], _ = compress(nil, codec, 0, content)
		}
		streamed.Reset()
		stream.Reset(&streamed)
		for piece := range slices.Chunk(content, 10_000) {
			_, _ = stream.Write(piece)
		}
		if err := stream.Close(); err != nil {
			t.Fatal(err)
		}
		packed["zstd stream"] = streamed.Bytes()
		for how, b := range packed {
			codec := map[string]Codec{"gzip": Gzip, "snappy": Snappy, "lz4": LZ4, "zstd": Zstd, "zstd stream": Zstd}[how]
			for _, pooled := range []int{0, 1, 1000, len(content) / 2, max(len(content)-1, 0), len(content), len(content) + 1, 2 * len(content)} {
				dst := buffer{b: make([]byte, 0, pooled)}
				if err := decompress(&dst, codec, b, maxDecompressedBytes); err != nil || !bytes.Equal(dst.b, content) {
					t.Errorf("%s, %s, a buffer of %d: %d bytes, %v", name, how, pooled, len(dst.b), err)
				}
			}
		}
	}
}

// A limit that is one byte too low, at every size of buffer that the pool may hand out.
func TestDecompressLimit(t *testing.T) {
	for _, codec := range everyCodec[1:] {
		for name, content := range contents() {
			if len(content) == 0 {
				continue
			}
			packed, err := compress(nil, codec, 0, content)
			if err != nil {
				t.Fatal(err)
			}
			for _, pooled := range []int{0, len(content) - 1, len(content), 2 * len(content)} {
				dst := buffer{b: make([]byte, 0, pooled)}
				if err := decompress(&dst, codec, packed, len(content)-1); !errors.Is(err, errDecompressed) {
					t.Errorf("%v, %s, a buffer of %d: %v", codec, name, pooled, err)
				}
				if cap(dst.b) > max(pooled, 2*len(content), 4<<20) {
					t.Errorf("%v, %s, a buffer of %d grew to %d", codec, name, pooled, cap(dst.b))
				}
			}
		}
	}
}

// zstdBomb is a frame of n blocks that stand for 128 KiB of zeros each, in four bytes.
func zstdBomb(n int) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x38} // no content size, a window of 128 KiB
	for i := range n {
		block := uint32(128<<10)<<3 | 1<<1 // RLE
		if i == n-1 {
			block |= 1
		}
		b = append(b, byte(block), byte(block>>8), byte(block>>16), 0)
	}
	return b
}

func TestZstdRLE(t *testing.T) {
	var dst buffer
	if err := decompress(&dst, Zstd, zstdBomb(16), 16*128<<10); err != nil || len(dst.b) != 16*128<<10 {
		t.Fatalf("16 blocks: %d bytes, %v", len(dst.b), err)
	}
	// A limit above that of the shared decoder, as batches of more than 2 MiB have.
	dst = buffer{}
	if err := decompress(&dst, Zstd, zstdBomb(16), 2*maxDecompressedBytes); err != nil || len(dst.b) != 16*128<<10 {
		t.Fatalf("16 blocks: %d bytes, %v", len(dst.b), err)
	}
}

func TestZstdEmptyFrameFirst(t *testing.T) {
	want := bytes.Repeat([]byte("content "), 1000)
	empty, _ := compress(nil, Zstd, 0, nil)
	packed, _ := compress(empty, Zstd, 0, want)
	var dst buffer
	if err := decompress(&dst, Zstd, packed, 1<<20); err != nil || !bytes.Equal(dst.b, want) {
		t.Fatalf("%d bytes, %v", len(dst.b), err)
	}
}

// A frame may promise any content size; memory is taken for what it can hold.
func TestFalseContentSize(t *testing.T) {
	for name, b := range map[string][]byte{
		"zstd":   {0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0x01, 0, 0},
		"snappy": binary.AppendUvarint(nil, 1<<27),
	} {
		codec := map[string]Codec{"zstd": Zstd, "snappy": Snappy}[name]
		var dst buffer
		if err := decompress(&dst, codec, b, maxDecompressedBytes); err == nil || cap(dst.b) > 1<<20 {
			t.Errorf("%s: %v, a buffer of %d bytes", name, err, cap(dst.b))
		}
	}
}

// testdata/linked.lz4 is what `lz4 -BD -B4 -9` makes of 140 times the same thousand bytes: the second and third block of
// 64 KiB are written as matches in the block before.
func TestLZ4LinkedBlocks(t *testing.T) {
	packed, err := os.ReadFile("testdata/linked.lz4")
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	pattern := make([]byte, 1000)
	for i := range pattern {
		pattern[i] = byte(rng.Uint32())
	}
	want := bytes.Repeat(pattern, 140)
	dst := buffer{b: make([]byte, 0, 10)} // grows between the blocks
	if err := decompress(&dst, LZ4, packed, 1<<20); err != nil || !bytes.Equal(dst.b, want) {
		t.Fatalf("%d bytes of %d: %v", len(dst.b), len(want), err)
	}
}

func TestLZ4Frames(t *testing.T) {
	good, _ := compress(nil, LZ4, 0, []byte("a frame"))
	header := func(flags, descriptor byte, rest ...byte) []byte {
		b := append([]byte{4, 0x22, 0x4d, 0x18, flags, descriptor}, rest...)
		return append(b, byte(xxh32(b[4:])>>8))
	}
	blocks := good[7:]
	for name, c := range map[string]struct {
		b    []byte
		want error
	}{
		"good":            {good, nil},
		"content size":    {append(header(0x68, 0x40, 1, 2, 3, 4, 5, 6, 7, 8), blocks...), nil},
		"blocks of 4 MiB": {append(header(0x60, 0x70), blocks...), nil},
		"magic":           {append([]byte{5}, good[1:]...), errFrameHeader},
		"header checksum": {append(append(bytes.Clone(good[:6]), good[6]^1), blocks...), errFrameChecksum},
		"version 2":       {append(header(0xa0, 0x40), blocks...), errFrameHeader},
		"reserved flag":   {append(header(0x62, 0x40), blocks...), errFrameHeader},
		"dictionary":      {append(header(0x61, 0x40, 1, 2, 3, 4), blocks...), errFrameHeader},
		"blocks of 16 B":  {append(header(0x60, 0x30), blocks...), errFrameHeader},
		"reserved bits":   {append(header(0x60, 0xc0), blocks...), errFrameHeader},
		"no end mark":     {good[:len(good)-4], errCompressed},
		"cut":             {good[:len(good)-6], errCompressed},
		"cut header":      {good[:6], errFrameHeader},
		"cut size":        {header(0x68, 0x40, 1, 2)[:8], errFrameHeader},
		"huge block":      {append(header(0x60, 0x40), 0xff, 0xff, 0xff, 0x7f), errCompressed},
		"block checksum":  {append(header(0x70, 0x40), append(blocks[:len(blocks)-4:len(blocks)-4], 1, 2, 3, 4, 0, 0, 0, 0)...), errFrameChecksum},
	} {
		var dst buffer
		err := decompress(&dst, LZ4, c.b, 1<<20)
		if !errors.Is(err, c.want) || (err == nil && string(dst.b) != "a frame") {
			t.Errorf("%s: %q, %v, want %v", name, dst.b, err, c.want)
		}
	}
}

func TestXerial(t *testing.T) {
	const header = "\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
	block := func(s string) string {
		b := snappy.Encode(nil, []byte(s))
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(b)))) + string(b)
	}
	for name, c := range map[string]struct {
		b    string
		want string
		ok   bool
	}{
		"one block":            {header + block("alpha"), "alpha", true},
		"two blocks":           {header + block("alpha") + block("bravo"), "alphabravo", true},
		"two streams":          {header + block("alpha") + header + block("bravo"), "alphabravo", true},
		"other versions":       {"\x82SNAPPY\x00\x00\x00\x00\x09\x00\x00\x00\x09" + block("alpha"), "alpha", true},
		"no block":             {header, "", true},
		"three bytes after it": {header + block("alpha") + "abc", "alpha", true},
		"block of no bytes":    {header + block("alpha") + "\x00\x00\x00\x00", "", false},
		"cut block":            {header + block("alpha")[:8], "", false},
		"negative block":       {header + "\xff\xff\xff\xff" + block("alpha"), "", false},
		"cut header":           {header + block("alpha") + header[:10], "", false},
		"raw":                  {string(snappy.Encode(nil, []byte("alpha"))), "alpha", true},
	} {
		var dst buffer
		err := decompress(&dst, Snappy, []byte(c.b), 1<<20)
		if (err == nil) != c.ok || (err == nil && string(dst.b) != c.want) {
			t.Errorf("%s: %q, %v, want %q, %v", name, dst.b, err, c.want, c.ok)
		}
	}
	if packed := appendSnappy(nil, make([]byte, 70_000)); string(packed[:16]) != header {
		t.Errorf("written as %q", packed[:16])
	}
}

func TestXXH32(t *testing.T) {
	for text, want := range map[string]string{ // xxhsum -H32
		"": "02cc5d05", "a": "550d7456", "abc": "32d153ff", "Nobody inspects the spammish repetition": "e2293b2f",
	} {
		if got := fmt.Sprintf("%08x", xxh32([]byte(text))); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if got, _ := hex.DecodeString("82"); byte(xxh32([]byte{0x60, 0x40})>>8) != got[0] {
		t.Error("header checksum of Kafka's frames")
	}
}
