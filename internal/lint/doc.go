// Package lint holds the repository's own rules, as tests: which package may import which, what a pure package may
// use, that every package says what it is for, which modules the binary links and under which licences, and that no
// file speaks of one machine.
//
// A rule is a statement of policy. Where a test here stands in the way of a build, move the code, not the rule. The
// package exports nothing; it parses source files and asks the go command, and starts no goroutines.
package lint
