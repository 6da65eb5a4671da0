package log

import "time"

// StepTasks does in the caller's goroutine what Run's goroutine for the tasks does: it takes note of what was asked for and
// does what is due at now. It returns when it wants to be called next at the latest. It is for who drives a store without
// Run, such as a simulation.
func (s *Store) StepTasks(now time.Time) (next time.Time) {
	for {
		select {
		case e := <-s.events:
			s.tasks.Step(now, e)
		default:
			return s.tasks.Step(now, Event{})
		}
	}
}

// StepCommits serves the commits that wait now, as Run's goroutines for the data directories do, and returns how many
// they were. Those that come while it runs are left to the next call.
func (s *Store) StepCommits() (served int) {
	for _, d := range s.dirs {
		served += d.committer.round()
	}
	return served
}
