// Package tracker decides, for a partition that this broker leads, how far the in-sync replicas have come and who is one of
// them: the high watermark, and the in-sync sets that the leader wants of the controller; and where a follower cuts a log that
// left its leader's (TruncationPoint). It is pure: progress in, offsets and proposals out; no clock, no lock, no I/O.
// replica.Partition owns each Leader under its lock and hands the high watermark to the log, which keeps and enforces it; the
// proposals go to the controller (KIP-497).
//
// Invariants, within one leadership:
//
//   - the high watermark never goes back, and it moves only to an offset that every replica of the maximal ISR has, and every
//     replica that may join it any moment;
//   - it stands still while the ISR is smaller than its minimum (KIP-966);
//   - the maximal ISR holds every replica that the controller may count as in sync by now: who is to join counts from the
//     moment at which it is proposed, who is to leave until the controller has said so;
//   - at most one change of the ISR is pending.
//
// No goroutines. Nothing that happens with every fetch or append allocates.
package tracker
