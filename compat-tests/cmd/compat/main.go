// Command compat runs every client suite of this module and closes with a table, client by client and check by check,
// and one line: how many cases passed, failed and were skipped. A failed case shows what it printed, a skipped one why.
//
//	compat [-soak] [-run REGEXP] [PACKAGE...]
//
// Which broker is tested: that at WEIR_COMPAT_BOOTSTRAP (host:port), else the binary named by WEIR_BIN, else one built
// from the checkout. Exit code 0: nothing failed and something passed.
package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
)

func main() {
	soak := flag.Bool("soak", false, "the suites' long forms")
	run := flag.String("run", "", "only cases whose name matches this expression, as in go test -run")
	flag.Parse()
	passed, err := suites(*soak, *run, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
	}
	if err != nil || !passed {
		os.Exit(1)
	}
}

func suites(soak bool, run string, packages []string) (passed bool, err error) {
	if len(packages) == 0 {
		packages = []string{"./..."}
	}
	timeout := "20m"
	if soak {
		timeout = "4h"
		os.Setenv("WEIR_COMPAT_SOAK", "1")
	}
	// One package at a time: each has a broker and clients of its own, and a loaded machine makes clients time out.
	args := append([]string{"test", "-json", "-count=1", "-p=1", "-timeout=" + timeout, "-run=" + run}, packages...)
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return false, err
	}
	if err := cmd.Start(); err != nil {
		return false, err
	}
	total, err := report(out, os.Stdout)
	exit := cmd.Wait()
	fmt.Printf("%d passed, %d failed, %d skipped\n", total.passed, total.failed, total.skipped)
	if err != nil {
		return false, err
	}
	if exit != nil && total.failed == 0 {
		return false, fmt.Errorf("go test: %w", exit)
	}
	return total.failed == 0 && total.passed > 0, nil
}
