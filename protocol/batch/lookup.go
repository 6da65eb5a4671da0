package batch

// OffsetOfTimestamp finds the first record of the stored batch b, exactly one whole batch, whose timestamp is at or
// after ts and whose offset is at least minOffset (the log start offset, which may lie within the batch). It decompresses
// the batch only if the header's max timestamp makes a record likely. A batch that has none gives ok false.
func OffsetOfTimestamp(b []byte, ts int64, minOffset int64) (offset, timestamp int64, ok bool, err error) {
	h, err := ParseHeader(b)
	if err != nil {
		return 0, 0, false, err
	}
	if h.MaxTimestamp < ts || h.LastOffset() < minOffset {
		return 0, 0, false, nil
	}
	for r, err := range Records(b) {
		if err != nil {
			return 0, 0, false, err
		}
		offset, timestamp = h.RecordOffset(r), h.RecordTimestamp(r)
		if timestamp >= ts && offset >= minOffset {
			return offset, timestamp, true, nil
		}
	}
	return 0, 0, false, nil
}

// OffsetOfMaxTimestamp finds the first record of the stored batch b, exactly one whole batch, that has the batch's max
// timestamp: what ListOffsets -3 answers for the batch that holds the log's latest (KIP-734). ok is false if no record
// has a timestamp, or none the one in the header.
func OffsetOfMaxTimestamp(b []byte) (offset, timestamp int64, ok bool, err error) {
	h, err := ParseHeader(b)
	if err != nil || h.MaxTimestamp == NoTimestamp {
		return 0, 0, false, err
	}
	for r, err := range Records(b) {
		if err != nil {
			return 0, 0, false, err
		}
		if h.RecordTimestamp(r) == h.MaxTimestamp {
			return h.RecordOffset(r), h.MaxTimestamp, true, nil
		}
	}
	return 0, 0, false, nil
}
