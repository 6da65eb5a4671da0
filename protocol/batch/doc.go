// Package batch reads, checks, builds and stamps record batches of format v2, which are the bytes on the wire and the
// bytes on disk at once:
//
//	byte   field                 type    remark
//	0      base offset           int64   outside the CRC: the leader writes it in place
//	8      length                int32   bytes after this field; at least 49
//	12     partition leader epoch int32  outside the CRC: the leader writes it in place
//	16     magic                 int8    2
//	17     CRC                   uint32  CRC-32C of everything from byte 21 to the batch's end
//	21     attributes            int16   bits 0-2 codec, 3 log append time, 4 transactional, 5 control, 6 delete horizon
//	23     last offset delta     int32   last offset - base offset; survives the compaction of the last record
//	27     base timestamp        int64   ms; the delete horizon if attribute bit 6 is set
//	35     max timestamp         int64   ms; the append time if attribute bit 3 is set
//	43     producer id           int64   -1 without
//	51     producer epoch        int16   -1 without
//	53     base sequence         int32   -1 without; record n has base sequence + n, wrapping after 2^31-1 to 0
//	57     count                 int32   records in the batch
//	61     records               as they are, or all together compressed by the codec
//
// A record is a varint length and, in it: attributes int8 (unused), timestamp delta varint, offset delta varint, key
// length varint (-1 null) and key, value length varint (-1 null) and value, header count varint, and for each header key
// length varint and key, value length varint (-1 null) and value. All varints are zigzag.
//
// Magic 0 and 1 are not known here: Kafka dropped them in 4.0 (KIP-724).
//
// # Invariants
//
// No input makes a function of this package panic, and none makes it allocate more than the documented bounds.
// Validate, CheckStored and the iterators allocate nothing for uncompressed batches that are right. Compressed records
// are decompressed into pooled buffers, by pooled decoders, never beyond max(128 MiB, 64 times the compressed size).
//
// The package has no state but these pools, starts no goroutines and takes no locks; everything is safe for concurrent
// use except a Builder. What needs the log's state (sequences, epochs, offsets) is checked by package log.
package batch
