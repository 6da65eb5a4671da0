// Package harness starts the real weir binary for the suites, keeps its log, kills and restarts it, and finds or
// installs the client programs that the suites run.
//
// With WEIR_COMPAT_BOOTSTRAP (host:port) set, the suites talk to that broker instead, whatever it is; cases that must
// own the broker (to kill it, to read its files) are skipped then. WEIR_BIN names the binary; without it one is built
// from the checkout around this module.
//
// A Process has one goroutine, which owns the operating system's thread that the broker's life is bound to: if the test
// process dies, the kernel kills the broker. A Member has one that reads what it prints, until it ends.
package harness
