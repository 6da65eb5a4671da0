package log

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"weir/internal/kafka"
	"weir/internal/vfs"
)

func TestLeaderEpochScript(t *testing.T) {
	fsys := vfs.NewMem()
	e := NewLeaderEpochs(fsys, "/")
	runScript(t, "testdata/epochs.txt", func(word string, args scriptArgs) string {
		at, epoch := args.int("at", -1), kafka.LeaderEpoch(args.int("epoch", -1))
		switch word {
		case "assign":
			return fmt.Sprint(e.Assign(epoch, at), " ", e.Entries())
		case "end-offset":
			found, end := e.EndOffset(epoch, args.int("log-end", 0))
			return fmt.Sprintf("epoch %d ends at %d", found, end)
		case "for-offset":
			return fmt.Sprint("epoch ", e.ForOffset(at))
		case "truncate-from-end":
			return fmt.Sprint(e.TruncateFromEnd(at), " ", e.Entries())
		case "truncate-from-start":
			return fmt.Sprint(e.TruncateFromStart(at), " ", e.Entries())
		case "clear":
			e.Clear()
		case "flush":
			written, err := e.Flush(args.has("durable"))
			must(t, err)
			return fmt.Sprint("written ", written)
		case "reopen":
			if args.has("after-power-cut") {
				fsys = fsys.Crash(vfs.LoseAll())
			}
			var err error
			e, err = OpenLeaderEpochs(fsys, "/")
			must(t, err)
			return fmt.Sprint(e.Entries(), " latest ", e.Latest())
		default:
			t.Fatalf("%s: no such command", args.line)
		}
		return ""
	})
}

func TestBrokenLeaderEpochsAreRefusedAndReplaced(t *testing.T) {
	for content, line := range map[string]int{
		"1\n0\n":            1,
		"0\nx\n":            2,
		"0\n1\n5\n":         3,
		"0\n2\n1 0\n1 5\n":  4,
		"0\n2\n1 10\n2 5\n": 4,
		"0\n1\n-1 0\n":      3,
		"0\n2\n1 0\n":       3,
		"0\n1\n1 0\n2 5\n":  4,
	} {
		fsys := vfs.NewMem()
		must(t, vfs.WriteFileAtomic(fsys, "/"+leaderEpochCheckpoint, []byte(content), 0o644, true))
		e, err := OpenLeaderEpochs(fsys, "/")
		var broken ErrBrokenFile
		if !errors.As(err, &broken) || broken.Line != line || broken.Path != "/"+leaderEpochCheckpoint {
			t.Errorf("%q: %v, want an error in line %d", content, err, line)
			continue
		}
		if e.Latest() != kafka.NoLeaderEpoch {
			t.Errorf("%q: epoch %d came out of a broken file", content, e.Latest())
		}
		if written, err := e.Flush(true); !written || err != nil {
			t.Errorf("%q: the broken file is not replaced: %v, %v", content, written, err)
		}
		if _, err := OpenLeaderEpochs(fsys, "/"); err != nil {
			t.Errorf("%q: replaced, but %v", content, err)
		}
	}
}

func TestReadsLeaderEpochsOfKafka(t *testing.T) {
	e, err := OpenLeaderEpochs(vfs.OS(), "testdata/kafka-4.4")
	must(t, err)
	if got := fmt.Sprint(e.Entries()); got != "[{0 0} {4 21}]" {
		t.Fatalf("entries %s", got)
	}
}

// TestEpochsOfAnyTwoLogs plays elections among two replicas whose logs part and are brought together by what EndOffset
// answers (KIP-101 and KIP-279): whatever was appended before, the logs must be equal then.
func TestEpochsOfAnyTwoLogs(t *testing.T) {
	type replica struct {
		log    []kafka.LeaderEpoch // the epoch of each record
		epochs *LeaderEpochs
	}
	rapid.Check(t, func(rt *rapid.T) {
		replicas := []*replica{{epochs: NewLeaderEpochs(vfs.NewMem(), "/")}, {epochs: NewLeaderEpochs(vfs.NewMem(), "/")}}
		epoch := kafka.LeaderEpoch(0)
		for range rapid.IntRange(1, 8).Draw(rt, "elections") {
			epoch += kafka.LeaderEpoch(rapid.IntRange(1, 2).Draw(rt, "epochs"))
			i := rapid.IntRange(0, 1).Draw(rt, "leader")
			leader, follower := replicas[i], replicas[1-i]
			leader.epochs.Assign(epoch, int64(len(leader.log)))
			for range rapid.IntRange(0, 3).Draw(rt, "records") {
				leader.log = append(leader.log, epoch)
			}
			if rapid.Bool().Draw(rt, "cut off") {
				continue // the follower hears nothing of this leader
			}
			for {
				last := follower.epochs.Latest()
				found, end := leader.epochs.EndOffset(last, int64(len(leader.log)))
				if last == kafka.NoLeaderEpoch {
					end = 0
				} else if found != last {
					_, own := follower.epochs.EndOffset(found, int64(len(follower.log)))
					if own >= 0 {
						end = min(end, own)
					}
				}
				end = min(end, int64(len(follower.log)))
				follower.log = follower.log[:end]
				follower.epochs.TruncateFromEnd(end)
				if found == last || follower.epochs.Latest() == kafka.NoLeaderEpoch {
					break
				}
			}
			for offset := len(follower.log); offset < len(leader.log); offset++ {
				follower.log = append(follower.log, leader.log[offset])
				follower.epochs.Assign(leader.log[offset], int64(offset))
			}
			if got, want := fmt.Sprint(follower.log), fmt.Sprint(leader.log); got != want {
				rt.Fatalf("follower has %s, leader %s", got, want)
			}
			for offset, want := range leader.log {
				if got := follower.epochs.ForOffset(int64(offset)); got != want {
					rt.Fatalf("offset %d is of epoch %d, not %d", offset, got, want)
				}
			}
		}
	})
}

func FuzzLeaderEpochs(f *testing.F) {
	f.Add("0\n2\n0 0\n2 21\n")
	f.Add("0\n1\n5 9223372036854775807\n")
	f.Fuzz(func(t *testing.T, content string) {
		fsys := vfs.NewMem()
		must(t, vfs.WriteFileAtomic(fsys, "/"+leaderEpochCheckpoint, []byte(content), 0o644, false))
		e, err := OpenLeaderEpochs(fsys, "/")
		if err != nil {
			return
		}
		e.changed = true
		if _, err := e.Flush(false); err != nil {
			t.Fatal(err)
		}
		again, err := OpenLeaderEpochs(fsys, "/")
		if err != nil || fmt.Sprint(again.Entries()) != fmt.Sprint(e.Entries()) {
			t.Fatalf("%q read as %v, written and read again as %v, %v", content, e.Entries(), again.Entries(), err)
		}
		if strings.TrimSpace(content) == "" && len(e.Entries()) > 0 {
			t.Fatal("entries out of nothing")
		}
	})
}
