package batch

import (
	"bytes"
	"errors"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// Bounds of decompression. A batch of the default max.message.bytes may grow to 128 MiB, which is more than any client
// sends; a larger one by a factor that real data does not reach but decompression bombs far exceed.
const (
	maxDecompressedBytes = 128 << 20
	maxDecompressedRatio = 64
)

// Reasons why compressed records cannot be read.
var (
	errUnknownCodec  = errors.New("unknown compression codec")
	errDecompressed  = errors.New("decompressed records are larger than allowed")
	errCompressed    = errors.New("compressed records cannot be decompressed")
	errFrameHeader   = errors.New("lz4 frame header is invalid")
	errFrameChecksum = errors.New("lz4 checksum is wrong")
)

// openRecords returns the records of a batch uncompressed: payload itself, or a pooled buffer that the caller releases.
// The error is a CorruptError.
func openRecords(h *Header, payload []byte) ([]byte, *buffer, error) {
	codec := h.Attributes.Codec()
	if codec == None {
		return payload, nil, nil
	}
	buf := newBuffer()
	limit := max(maxDecompressedBytes, maxDecompressedRatio*len(payload))
	if err := decompress(buf, codec, payload, limit); err != nil {
		buf.release()
		return nil, nil, corruptf(h.BaseOffset, "%v: %w", codec, err)
	}
	return buf.b, buf, nil
}

// decompress fills the empty buffer dst with src decompressed; limit bounds the result and, within a factor of two,
// the memory taken for it.
func decompress(dst *buffer, codec Codec, src []byte, limit int) error {
	switch codec {
	case Gzip:
		return gunzip(dst, src, limit)
	case Snappy:
		return unsnappy(dst, src, limit)
	case LZ4:
		return unlz4(dst, src, limit)
	case Zstd:
		return unzstd(dst, src, limit)
	}
	return errUnknownCodec
}

// compress appends src compressed to dst. Level 0 is the codec's default; the numbers are those of Kafka's
// compression.*.level, in so far as the codec's library has as many.
func compress(dst []byte, codec Codec, level int, src []byte) ([]byte, error) {
	switch codec {
	case None:
		return append(dst, src...), nil
	case Gzip:
		return appendGzip(dst, level, src)
	case Snappy:
		return appendSnappy(dst, src), nil
	case LZ4:
		return appendLZ4(dst, level, src), nil
	case Zstd:
		return appendZstd(dst, level, src), nil
	}
	return dst, errUnknownCodec
}

type gzipDecoder struct {
	in bytes.Reader
	z  gzip.Reader
}

var gzipDecoders = sync.Pool{New: func() any { return new(gzipDecoder) }}

// gunzip takes several members one after the other, as gzip files may have. Bytes after a member that begin no other
// are ignored, as Java does.
func gunzip(dst *buffer, src []byte, limit int) error {
	d := gzipDecoders.Get().(*gzipDecoder)
	defer func() {
		d.in.Reset(nil)
		gzipDecoders.Put(d)
	}()
	d.in.Reset(src)
	if err := d.z.Reset(&d.in); err != nil {
		return err
	}
	dst.room(min(4*len(src), limit+1))
	for {
		d.z.Multistream(false)
		if err := dst.readAll(&d.z, limit); err != nil {
			return err
		}
		if d.z.Reset(&d.in) != nil {
			return nil
		}
	}
}

// gzipEncoders holds encoders by level, which cannot be changed in one: [level - gzip.HuffmanOnly].
var gzipEncoders [gzip.BestCompression - gzip.HuffmanOnly + 1]sync.Pool

func appendGzip(dst []byte, level int, src []byte) ([]byte, error) {
	if level == 0 { // no compression for the library, the default for us
		level = gzip.DefaultCompression
	}
	level = min(max(level, gzip.DefaultCompression), gzip.BestCompression)
	out := bytes.NewBuffer(dst)
	pool := &gzipEncoders[level-gzip.HuffmanOnly]
	w, _ := pool.Get().(*gzip.Writer)
	if w == nil {
		var err error
		if w, err = gzip.NewWriterLevel(out, level); err != nil {
			return dst, err
		}
	} else {
		w.Reset(out)
	}
	defer pool.Put(w)
	if _, err := w.Write(src); err != nil {
		return dst, err
	}
	if err := w.Close(); err != nil {
		return dst, err
	}
	return out.Bytes(), nil
}
