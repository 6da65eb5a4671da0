package protocol

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

// recordingMeter notes how a frame grows.
type recordingMeter struct {
	steps  []string
	bytes  int
	refuse error // given once something has come
}

func (m *recordingMeter) Grow(have, want int) error {
	m.steps = append(m.steps, fmt.Sprintf("%d→%d", have, want))
	if have > 0 {
		return m.refuse
	}
	return nil
}

func (m *recordingMeter) Progress(n int) { m.bytes += n }

func frame(size int, key, version int16) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(size))
	b = binary.BigEndian.AppendUint16(b, uint16(key))
	b = binary.BigEndian.AppendUint16(b, uint16(version))
	for i := 4; i < size; i++ {
		b = append(b, byte(i))
	}
	return b
}

func TestFramesAreReadOneAfterTheOther(t *testing.T) {
	sizes := []int{10, 4096, 64 << 10, 300_000, 11}
	var stream []byte
	for i, size := range sizes {
		stream = append(stream, frame(size, int16(i), 7)...)
	}
	for name, r := range map[string]io.Reader{"whole": bytes.NewReader(stream), "by the byte": iotest.OneByteReader(bytes.NewReader(stream))} {
		f := NewFrameReader(r, 1<<20)
		for i, size := range sizes {
			if err := f.Wait(); err != nil {
				t.Fatal(err)
			}
			head, err := f.Head()
			if err != nil || head.Size != int32(size) || head.Key != int16(i) || head.Version != 7 {
				t.Fatalf("%s, frame %d: head %+v, error %v", name, i, head, err)
			}
			m := &recordingMeter{}
			buf, err := f.Body(head, m)
			if err != nil || m.bytes != size || !bytes.Equal(buf.B, frame(size, int16(i), 7)[4:]) {
				t.Fatalf("%s, frame %d: %d bytes, error %v", name, i, m.bytes, err)
			}
			buf.Free()
		}
		if err := f.Wait(); err != io.EOF {
			t.Errorf("%s: after the last frame: %v", name, err)
		}
	}
}

func TestMemoryFollowsWhatArrives(t *testing.T) {
	// The head claims 100 MiB, and 70,000 bytes come.
	stream := append([]byte("\x06\x40\x00\x00\x00\x00\x00\x03"), make([]byte, 70_000)...)
	f := NewFrameReader(bytes.NewReader(stream), 100<<20)
	head, err := f.Head()
	if err != nil {
		t.Fatal(err)
	}
	m := &recordingMeter{}
	if _, err := f.Body(head, m); err != io.ErrUnexpectedEOF {
		t.Errorf("a frame cut short gives %v", err)
	}
	if got, want := strings.Join(m.steps, " "), "0→65536 65536→262144"; got != want {
		t.Errorf("memory grew %s, want %s", got, want)
	}
}

func TestGrowthMayBeRefused(t *testing.T) {
	f := NewFrameReader(bytes.NewReader(frame(200_000, 0, 3)), 1<<20)
	head, _ := f.Head()
	refused := errors.New("no memory")
	if _, err := f.Body(head, &recordingMeter{refuse: refused}); err != refused {
		t.Errorf("got %v", err)
	}
}

func TestImpossibleSizesAreRefusedByTheFirstFourBytes(t *testing.T) {
	for _, c := range []struct {
		first string
		hint  string
	}{
		{"\x00\x00\x00\x00", ""},
		{"\xff\xff\xff\xff", ""},
		{"\x7f\xff\xff\xff", ""},
		{"\x00\x00\x00\x09", ""},
		{"\x06\x40\x00\x01", ""}, // 100 MiB and one
		{"GET ", "HTTP"},
		{"POST", "HTTP"},
		{"PRI ", "HTTP"},
		{"\x16\x03\x01\x02", "TLS"},
		{"SSH-", "SSH"},
	} {
		f := NewFrameReader(strings.NewReader(c.first), 100<<20)
		_, err := f.Head()
		var size *SizeError
		if !errors.As(err, &size) || !strings.Contains(err.Error(), c.hint) || strings.Contains(err.Error(), "seems") != (c.hint != "") {
			t.Errorf("%q: %v", c.first, err)
		}
	}
}

func TestCutOffHeads(t *testing.T) {
	for n := 1; n < 8; n++ {
		f := NewFrameReader(bytes.NewReader(frame(20, 3, 1)[:n]), 1<<20)
		if _, err := f.Head(); err != io.ErrUnexpectedEOF {
			t.Errorf("%d bytes of a head: %v", n, err)
		}
	}
}

func TestClientIDOfAFrameThatIsNotRead(t *testing.T) {
	whole := append([]byte("\x00\x00\x00\x14\x03\xe7\x00\x00\x00\x00\x00\x01\x00\x05probe"), 'x')
	for n, want := range map[int]string{len(whole): "probe", 16: "", 13: "", 8: ""} {
		f := NewFrameReader(bytes.NewReader(whole[:n]), 1<<20)
		if _, err := f.Head(); err != nil {
			t.Fatal(err)
		}
		if got := f.PeekClientID(); got != want {
			t.Errorf("of %d bytes: %q, want %q", n, got, want)
		}
	}
}

func FuzzFrameReader(f *testing.F) {
	f.Add(append(frame(10, 3, 1), frame(5000, 0, 3)...))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := NewFrameReader(bytes.NewReader(stream), 1<<20)
		rest := stream
		for {
			head, err := r.Head()
			if err != nil {
				return
			}
			buf, err := r.Body(head, &recordingMeter{})
			if err != nil {
				return
			}
			if want := rest[4 : 4+len(buf.B)]; len(buf.B) != int(head.Size) || !bytes.Equal(buf.B, want) {
				t.Fatalf("read % x, want % x", buf.B, want)
			}
			rest = rest[4+len(buf.B):]
			buf.Free()
		}
	})
}
