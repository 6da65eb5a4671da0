package batch

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
)

// produced makes a batch as a producer sends it: records of recordBytes that compress about threefold, size bytes in
// all before compression.
func produced(tb testing.TB, codec Codec, size, recordBytes int) []byte {
	tb.Helper()
	words := []string{"alpha ", "bravo ", "charlie ", "delta ", "echo ", "foxtrot ", "golf ", "hotel ", "india ", "juliett "}
	rng := rand.New(rand.NewPCG(1, 2))
	b := NewBuilder(codec, 0)
	for b.Len() == 0 || b.Size()+recordBytes <= size {
		var value []byte
		for len(value) < recordBytes-20 {
			value = fmt.Appendf(value, "%s%x", words[rng.IntN(len(words))], rng.IntN(256))
		}
		b.Append(1_700_000_000_000+int64(b.Len()), fmt.Appendf(nil, "key%05d", b.Len()), value[:recordBytes-20])
	}
	out, err := b.Build()
	if err != nil {
		tb.Fatal(err)
	}
	return bytes.Clone(out)
}

var benchmarkSizes = []struct {
	name              string
	size, recordBytes int
}{
	{"200B", 200, 120},
	{"1KiB", 1 << 10, 120},
	{"16KiB", 16 << 10, 200},
	{"1MiB", 1 << 20, 200},
	{"1MiB-1KiB-records", 1 << 20, 1 << 10},
}

func BenchmarkValidate(b *testing.B) {
	for _, codec := range everyCodec {
		for _, size := range benchmarkSizes {
			b.Run(codec.String()+"/"+size.name, func(b *testing.B) {
				batch := produced(b, codec, size.size, size.recordBytes)
				r := openRules()
				b.SetBytes(int64(len(batch)))
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Validate(batch, r, testNow); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkValidateHeaderOnly(b *testing.B) {
	batch := produced(b, None, 1<<20, 200)
	r := openRules()
	r.HeaderOnly = true
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Validate(batch, r, testNow); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkValidateRewrite(b *testing.B) {
	for _, codec := range everyCodec[1:] {
		b.Run(codec.String(), func(b *testing.B) {
			batch := produced(b, None, 1<<20, 200)
			r := openRules()
			r.Compression = Compression{Codec: codec}
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Validate(batch, r, testNow); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRecords(b *testing.B) {
	for _, codec := range everyCodec {
		b.Run(codec.String(), func(b *testing.B) {
			batch := produced(b, codec, 1<<20, 200)
			b.SetBytes(int64(len(batch)))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range Records(batch) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

func BenchmarkCheckStored(b *testing.B) {
	batch := produced(b, None, 1<<20, 200)
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := CheckStored(batch); err != nil {
			b.Fatal(err)
		}
	}
}
