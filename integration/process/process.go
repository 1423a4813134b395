package process

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

const lastOutputSize = 4 << 10

// Process is one run of a program. All methods are safe for concurrent use.
type Process struct {
	command *exec.Cmd
	log     string
	ended   chan struct{}
}

// Start runs the program with its output, stdout and stderr, appended to the file log.
func Start(log, program string, arguments ...string) (*Process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &Process{command: exec.Command(program, arguments...), log: log, ended: make(chan struct{})}
	p.command.Stdout, p.command.Stderr = output, output
	p.command.SysProcAttr = childAttributes()
	started := make(chan error)
	go p.run(output, started)
	if err := <-started; err != nil {
		return nil, err
	}
	return p, nil
}

// run starts the child and waits for it on one thread: the kernel ends the child when the *thread* that started it ends,
// see https://github.com/golang/go/issues/27505.
func (p *Process) run(output *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer output.Close()
	err := p.command.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.command.Wait() // what matters of it is in ExitCode
	close(p.ended)
}

// ID is the number of the process.
func (p *Process) ID() int { return p.command.Process.Pid }

// Running reports whether the child has not ended yet.
func (p *Process) Running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// ExitCode is what an ended child gave back, or -1 when a signal ended it. It waits for the end.
func (p *Process) ExitCode() int {
	<-p.ended
	return p.command.ProcessState.ExitCode()
}

// Signal sends s to the child; that it has ended already is an error with its last output.
func (p *Process) Signal(s syscall.Signal) error {
	if !p.Running() {
		return fmt.Errorf("%w: %s", os.ErrProcessDone, p.LastOutput())
	}
	return p.command.Process.Signal(s)
}

// End signals the child, lets it go on if it was paused, and waits until it has exited. A child that has not after
// timeout is killed, and that is an error with its last output.
func (p *Process) End(s syscall.Signal, timeout time.Duration) error {
	if err := p.Signal(s); err != nil {
		return err
	}
	if s != syscall.SIGKILL {
		_ = p.command.Process.Signal(ResumeSignal)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(timeout):
		p.Kill()
		return fmt.Errorf("had to be killed after %s, its last output:\n%s", timeout, p.LastOutput())
	}
}

// Kill ends the child if it still runs, and waits until it has ended.
func (p *Process) Kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// LastOutput is the end of what the child wrote.
func (p *Process) LastOutput() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	if len(text) > lastOutputSize {
		text = text[len(text)-lastOutputSize:]
	}
	return string(bytes.TrimSpace(text))
}
