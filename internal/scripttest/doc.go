// Package scripttest runs the scripts that drive state machines in tests.
//
// A script is a text file of blocks with an empty line between them. A block is lines of commands, "----", and the output
// that is expected of them; one that holds comments only, lines that begin with #, is not run. What the commands are is the
// test's affair. With -rewrite the outputs are written anew.
//
// It is for tests alone: it registers a flag. No goroutines, no locks.
package scripttest
