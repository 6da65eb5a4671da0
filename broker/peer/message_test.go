package peer

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"weir/internal/kafka"
)

func TestListsOfMessages(t *testing.T) {
	want := [][]byte{{}, {1}, bytes.Repeat([]byte{2}, 300)}
	var list []byte
	for _, m := range want {
		list = append(AppendMessageSize(list, len(m)), m...)
	}
	rest := list
	for i := range want {
		var m []byte
		var err error
		if m, rest, err = CutMessage(rest); err != nil || !bytes.Equal(m, want[i]) {
			t.Fatalf("message %d is %x, %v", i, m, err)
		}
	}
	if len(rest) != 0 {
		t.Fatalf("%d bytes are left", len(rest))
	}
	for _, hostile := range []string{"\x01", "\x05abcd", "\x80", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01x", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xffx"} {
		if m, _, err := CutMessage([]byte(hostile)); err == nil {
			t.Errorf("%x is a list with %x", hostile, m)
		}
	}
}

// pieces cuts a message up as a sender does.
func pieces(sender, transfer uint64, whole []byte, size int) []Chunk {
	var out []Chunk
	for at := 0; at < len(whole); at += size {
		out = append(out, Chunk{Sender: sender, Transfer: transfer, Size: uint64(len(whole)), Offset: uint64(at), Data: whole[at:min(at+size, len(whole))]})
	}
	return out
}

// add sends a piece over the wire to a.
func add(t *testing.T, a *Assembler, c Chunk) ([]byte, error) {
	t.Helper()
	var received Chunk
	if err := received.ReadFrom(c.AppendTo(nil)); err != nil {
		t.Fatalf("%v: %v", &c, err)
	}
	return a.Add(&received)
}

func TestPiecesBecomeTheWhole(t *testing.T) {
	random := rand.NewChaCha8([32]byte{1})
	one, other := make([]byte, 10_007), make([]byte, 5_000)
	_, _ = random.Read(one)
	_, _ = random.Read(other)
	var a Assembler
	ones, others := pieces(1, 9, one, 1000), pieces(2, 1, other, 1000)
	for i, c := range ones {
		whole, err := add(t, &a, c)
		if err != nil || (whole != nil) != (i == len(ones)-1) || whole != nil && !bytes.Equal(whole, one) {
			t.Fatalf("%v: %d bytes, %v", &c, len(whole), err)
		}
		if i < len(others) { // another sender's come between
			if whole, err := add(t, &a, others[i]); err != nil || (whole != nil) != (i == len(others)-1) {
				t.Fatalf("%v: %d bytes, %v", &others[i], len(whole), err)
			}
		}
	}
	if len(a.parts) != 0 {
		t.Errorf("%d messages are kept", len(a.parts))
	}
}

func TestPiecesOutOfOrderAreRefused(t *testing.T) {
	c := pieces(1, 1, make([]byte, 30), 10)
	later := pieces(1, 2, make([]byte, 30), 10)
	longer := c[1]
	longer.Size = 31
	for name, sequence := range map[string][]Chunk{
		"the beginning is missing": {c[1]},
		"one is missing":           {c[0], c[2]},
		"one came twice":           {c[0], c[1], c[1]},
		"another message's":        {c[0], later[1]},
		"of another size":          {c[0], longer},
		"after the end":            {c[0], c[1], c[2], c[2]},
	} {
		var a Assembler
		for i, piece := range sequence {
			_, err := add(t, &a, piece)
			if last := i == len(sequence)-1; last != (err != nil) || last && kafka.CodeOf(err) != kafka.InvalidRequest {
				t.Errorf("%s: piece %d: %v", name, i, err)
			}
		}
		// The sender begins again.
		var whole []byte
		for _, piece := range later {
			var err error
			if whole, err = add(t, &a, piece); err != nil {
				t.Errorf("%s: again: %v", name, err)
			}
		}
		if len(whole) != 30 {
			t.Errorf("%s: again: %d bytes", name, len(whole))
		}
	}
}

func TestPiecesAreBounded(t *testing.T) {
	var a Assembler
	if _, err := add(t, &a, Chunk{Sender: 1, Size: maxWholeBytes + 1, Data: []byte{1}}); err == nil {
		t.Error("a message above the limit is begun")
	}
	for sender := range uint64(100) {
		if _, err := add(t, &a, Chunk{Sender: sender, Size: maxWholeBytes, Data: []byte{1}}); err != nil {
			t.Fatal(err)
		}
		if len(a.parts) > maxSenders || len(a.parts[0].bytes) != 1 || cap(a.parts[0].bytes) > 64 {
			t.Fatalf("%d messages are kept, of %d bytes", len(a.parts), cap(a.parts[0].bytes))
		}
	}
	if _, err := add(t, &a, Chunk{Sender: 99, Size: maxWholeBytes, Offset: 1, Data: []byte{1}}); err != nil {
		t.Errorf("the newest message was dropped: %v", err)
	}
	for _, hostile := range []Chunk{
		{Size: 1},
		{Size: 1, Data: []byte{1, 2}},
		{Size: 1, Offset: 1, Data: []byte{1}},
		{Size: 1, Offset: 1<<64 - 1, Data: []byte{1}},
		{Size: 1<<64 - 1, Offset: 1<<64 - 1, Data: []byte{1}},
		{Size: 2 * ChunkBytes, Data: make([]byte, ChunkBytes+1)},
	} {
		if err := new(Chunk).ReadFrom(hostile.AppendTo(nil)); !errors.Is(err, errChunk) {
			t.Errorf("%v: %v", &hostile, err)
		}
	}
	if err := new(Chunk).ReadFrom(make([]byte, chunkHeadBytes-1)); !errors.Is(err, errChunk) {
		t.Error(err)
	}
}

// FuzzAssembler has any pieces put together: what comes out has the size that was said.
func FuzzAssembler(f *testing.F) {
	for _, c := range pieces(1, 1, []byte("abcdefgh"), 3) {
		f.Add(c.AppendTo(nil), c.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var a Assembler
		for _, wire := range [][]byte{first, second} {
			var c Chunk
			if c.ReadFrom(wire) != nil {
				continue
			}
			if back := c.AppendTo(nil); !bytes.Equal(back, wire) {
				t.Fatalf("%x is written as %x", wire, back)
			}
			whole, err := a.Add(&c)
			if err == nil && whole != nil && uint64(len(whole)) != c.Size {
				t.Fatalf("%d bytes of %d", len(whole), c.Size)
			}
		}
	})
}
