package harness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"
)

// disk is a file system of a node's own, in a file.
type disk struct {
	image, mount string
}

const diskBytes = 2 << 30 // the file is sparse

func newDisk(t *testing.T, home string) *disk {
	t.Helper()
	mkfs := Tool(t, "mkfs.ext4", "e2fsprogs")
	d := &disk{image: filepath.Join(home, "disk"), mount: filepath.Join(home, "mount")}
	f, err := os.Create(d.image)
	if err == nil {
		err = f.Truncate(diskBytes)
	}
	if err == nil {
		err = f.Close()
	}
	if err == nil {
		err = os.Mkdir(d.mount, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", "-F", d.image).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.mount).CombinedOutput(); err != nil {
		t.Skipf("not run: this machine mounts no file as a disk: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", d.mount).Run() })
	return d
}

// cut stops the file system as a power cut stops a disk: nothing that is not on it is written any more, and whoever uses
// it gets errors (EXT4_IOC_SHUTDOWN, without flushing the journal).
func (d *disk) cut(t *testing.T) {
	t.Helper()
	const shutdown, noLogFlush = 0x8004587d, 2
	dir, err := os.Open(d.mount)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	how := uint32(noLogFlush)
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, dir.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); errno != 0 {
		t.Fatalf("shutting the file system down: %v", errno)
	}
}

func (d *disk) remount(t *testing.T) {
	t.Helper()
	if out, err := exec.Command("umount", d.mount).CombinedOutput(); err != nil {
		t.Fatalf("umount: %v: %s", err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", d.image, d.mount).CombinedOutput(); err != nil {
		t.Fatalf("mount: %v: %s", err, out)
	}
}

// Fill takes all that is free on a node's disk, and returns what gives it back.
func (c *Cluster) Fill(id int) (free func()) {
	c.t.Helper()
	path := filepath.Join(c.Node(id).disk.mount, "filler")
	out, _ := exec.Command("dd", "if=/dev/zero", "of="+path, "bs=1M").CombinedOutput() // it ends when there is no space left
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		c.t.Fatal(fmt.Errorf("filling the disk: %v: %s", err, out))
	}
	return func() {
		if err := os.Remove(path); err != nil {
			c.t.Fatal(err)
		}
	}
}
