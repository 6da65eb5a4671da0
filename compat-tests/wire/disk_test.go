package wire

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// smallDisk mounts a file system of so many bytes; only root can.
func smallDisk(t *testing.T, options string) string {
	t.Helper()
	needOwn(t)
	if os.Geteuid() != 0 {
		t.Skip("not run: needs root, to mount a small file system")
	}
	dir := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("not run: needs a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func grow(t *testing.T, dir, options string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, options); err != nil {
		t.Fatal(err)
	}
}

// fill produces batches until one fails, and returns how many were acknowledged and how it ended: a code, or -100 where
// the connection did.
func fill(t *testing.T, address, topic string) (acked int64, code int16) {
	t.Helper()
	c := dial(t, address)
	for deadline := time.Now().Add(3 * replyWithin); time.Now().Before(deadline); acked++ {
		resp, err := produceRequest(topic, 0, bigBatch(int32(acked)).bytes()).RequestWith(t.Context(), c)
		if err != nil {
			return acked, -100
		}
		if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
			return acked, code
		}
	}
	t.Fatal("the disk does not become full")
	return 0, 0
}

// A full disk is the commonest accident. What is not stored is not acknowledged, what was acknowledged is there once there
// is space again and the broker was started, and no file needs repair by hand.
func TestAFullDisk(t *testing.T) {
	disk := smallDisk(t, "size=16m")
	s := startIn(t, filepath.Join(disk, "data"))
	topic := newTopic(t, s.Address, 1).name
	acked, code := fill(t, s.Address, topic)
	if code != kerr.KafkaStorageError.Code && code != -100 || acked < 100 {
		t.Errorf("after %d batches: %s", acked, codeName(code))
	}
	line := s.awaitLog(t, `"ERROR"`, "no space left on device")
	if !strings.Contains(line, disk) {
		t.Errorf("the log does not name the directory: %s", line)
	}
	s.Kill()
	grow(t, disk, "size=64m")
	s.restart(t)
	checkBig(t, s, topic, acked)
}

// Of several disks only the full one is lost: the topics on the others, and the metadata, go on, and tools see which
// directory it is.
func TestAFullDiskOfSeveral(t *testing.T) {
	disk := smallDisk(t, "size=16m")
	good, small := filepath.Join(t.TempDir(), "good"), filepath.Join(disk, "small")
	s := startIn(t, good+","+small)
	c := dial(t, s.Address)
	var onGood, onSmall string
	for range 20 {
		name := newTopic(t, s.Address, 1).name
		if _, err := os.Stat(filepath.Join(small, name+"-0")); err == nil {
			onSmall = name
		} else {
			onGood = name
		}
	}
	if onGood == "" || onSmall == "" {
		t.Fatal("one of the directories has no topic")
	}
	acked, code := fill(t, s.Address, onSmall)
	if code != kerr.KafkaStorageError.Code || acked < 100 {
		t.Errorf("after %d batches: %s", acked, codeName(code))
	}
	mustProduce(t, c, onGood, 0, textBatch("a"))
	resp := ask(t, c, at(4, kmsg.NewPtrDescribeLogDirsRequest()))
	codes := make(map[string]int16)
	for _, d := range resp.Dirs {
		codes[d.Dir] = d.ErrorCode
	}
	if len(codes) != 2 || codes[good] != 0 || codes[small] != kerr.KafkaStorageError.Code {
		t.Errorf("DescribeLogDirs: %v", codes)
	}
	wantCode(t, "reading from it", fetch(t, c, onSmall, 0, 0).ErrorCode, kerr.KafkaStorageError)
	_ = s.Process.Stop() // which tells that not all was well
	grow(t, disk, "size=64m")
	s.restart(t)
	checkBig(t, s, onSmall, acked)
	if end := endOffset(t, dial(t, s.Address), onGood); end != 1 {
		t.Errorf("the other log ends at %d", end)
	}
}

// checkBig checks that the first batches of a topic are those of bigBatch, and that it can be written to.
func checkBig(t *testing.T, s *server, topic string, acked int64) {
	t.Helper()
	c := dial(t, s.Address)
	all := readAll(t, c, topic, 0)
	if int64(len(all)) < acked || int64(len(all)) > acked+1 {
		t.Fatalf("there are %d batches, %d were acknowledged", len(all), acked)
	}
	for n, b := range all {
		want := bigBatch(int32(n))
		if b.FirstOffset != int64(n) || string(b.Records) != string(want.Records) {
			t.Fatalf("batch %d is another", n)
		}
	}
	mustProduce(t, c, topic, 0, textBatch("after"))
}
