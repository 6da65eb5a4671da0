package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Options say how a broker is started.
type Options struct {
	Binary  string   // path of weir
	DataDir string   // kept from start to start
	Listen  string   // host:port; "" is any free port of 127.0.0.1
	LogFile string   // appended to
	Args    []string // more arguments to `weir serve`
	Env     []string // more of the environment, "NAME=value"

	Namespace string // network namespace to run in; "" for this process's own
}

// Process is a running broker.
type Process struct {
	Address   string            // host:port of the listener PLAINTEXT
	Listeners map[string]string // host:port of each listener, by its name
	HTTP      []string          // host:port of metrics and health, where the broker serves them
	ReadyTime time.Duration     // from the start of the process to its word that it is ready

	cmd    *exec.Cmd
	exited chan struct{}
	err    error // of Wait; valid when exited is closed
}

// readyWithin is generous: a loaded machine must not fail a suite that does not measure.
const readyWithin = 60 * time.Second

// Launch starts a broker and returns when it is ready to take connections.
func Launch(o Options) (*Process, error) {
	portsFile := filepath.Join(filepath.Dir(o.LogFile), "ports-"+strconv.Itoa(os.Getpid())+".json")
	if err := os.Remove(portsFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	defer os.Remove(portsFile)
	logFile, err := os.OpenFile(o.LogFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer logFile.Close() // the child has its own descriptor
	listen := o.Listen
	if listen == "" {
		listen = "127.0.0.1:0"
	}
	p := &Process{exited: make(chan struct{})}
	command := append([]string{o.Binary, "serve", "--listen", listen, "--data-dir", o.DataDir, "--ports-file", portsFile}, o.Args...)
	if o.Namespace != "" {
		command = append([]string{"ip", "netns", "exec", o.Namespace}, command...) // it becomes the broker, with the same pid
	}
	p.cmd = exec.Command(command[0], command[1:]...)
	p.cmd.Stdout, p.cmd.Stderr = logFile, logFile
	p.cmd.Env = append(plainEnvironment(), o.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := time.Now()
	if err := p.start(); err != nil {
		return nil, err
	}
	if err := p.awaitPorts(portsFile); err != nil {
		p.Kill()
		return nil, err
	}
	p.ReadyTime = time.Since(started)
	return p, nil
}

// plainEnvironment is this process's without what a broker would take for settings.
func plainEnvironment() []string {
	return slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, "WEIR_") || strings.HasPrefix(entry, "KAFKA_")
	})
}

// start runs the command on a thread that lives until the process ends: Pdeathsig is sent when the thread that started
// the child dies, and Go ends threads as it likes unless they are locked.
func (p *Process) start() error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err == nil {
			p.err = p.cmd.Wait()
			close(p.exited)
		}
	}()
	return <-started
}

// awaitPorts reads the file that the broker writes when it is ready.
func (p *Process) awaitPorts(name string) error {
	deadline := time.NewTimer(readyWithin)
	defer deadline.Stop()
	poll := time.NewTicker(time.Millisecond)
	defer poll.Stop()
	for {
		select {
		case <-p.exited:
			return fmt.Errorf("the broker ended before it was ready: %v", p.err)
		case <-deadline.C:
			return fmt.Errorf("the broker was not ready within %v", readyWithin)
		case <-poll.C:
		}
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		var ports struct {
			Listeners map[string]string
			HTTP      []string
		}
		if err := json.Unmarshal(text, &ports); err != nil {
			return fmt.Errorf("the ports file: %w: %q", err, text)
		}
		p.Listeners, p.HTTP = ports.Listeners, ports.HTTP
		if p.Address = p.Listeners["PLAINTEXT"]; p.Address == "" {
			return fmt.Errorf("the ports file names no PLAINTEXT listener: %q", text)
		}
		return nil
	}
}

// PID is the broker's.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Kill ends the broker as a crash does (SIGKILL) and waits until it is gone.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended already
	<-p.exited
}

// Stop asks the broker to end (SIGTERM) and waits. An exit code other than 0, or none within a minute, is an error.
func (p *Process) Stop() error {
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return fmt.Errorf("the broker had ended before it was stopped: %w", err)
	}
	select {
	case <-p.exited:
	case <-time.After(time.Minute):
		p.Kill()
		return errors.New("the broker did not stop within a minute of SIGTERM")
	}
	if p.err != nil {
		return fmt.Errorf("the broker did not stop cleanly: %w", p.err)
	}
	return nil
}

// Resume lets a stopped process (SIGSTOP) go on.
func (p *Process) Resume() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }

// CPU returns the processor time that a process has used, user and system. It counts in ticks of 10 ms: USER_HZ is 100 on every
// architecture of Linux that Go knows.
func CPU(pid int) (time.Duration, error) {
	name := fmt.Sprintf("/proc/%d/stat", pid)
	text, err := os.ReadFile(name)
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:])) // the process's name may have blanks
	if len(fields) < 13 {
		return 0, fmt.Errorf("%s is %q", name, text)
	}
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}

// RSS returns the resident memory in bytes.
func (p *Process) RSS() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmRSS in /proc")
}

// FixedPort finds a port that is free now and that no outgoing connection is given by the system: a broker that is
// restarted on it finds it free again.
func FixedPort() (string, error) {
	const first, last = 20000, 29999 // below the ephemeral range of Linux
	for port := first + os.Getpid()%(last-first); port <= last; port++ {
		address := "127.0.0.1:" + strconv.Itoa(port)
		l, err := net.Listen("tcp", address)
		if err != nil {
			continue
		}
		return address, l.Close()
	}
	return "", fmt.Errorf("no free port up to %d", last)
}
