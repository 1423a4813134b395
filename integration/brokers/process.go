package brokers

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

// process is one run of a program. Only this very child is ever signalled.
type process struct {
	command *exec.Cmd
	log     string
	ended   chan struct{}
}

// startProcess runs the program with its output appended to the file log.
func startProcess(log, program string, arguments []string) (*process, error) {
	output, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	p := &process{command: exec.Command(program, arguments...), log: log, ended: make(chan struct{})}
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
func (p *process) run(output *os.File, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer output.Close()
	err := p.command.Start()
	started <- err
	if err != nil {
		return
	}
	_ = p.command.Wait() // how a killed broker exits says nothing
	close(p.ended)
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

func (p *process) signal(s syscall.Signal) error {
	if !p.running() {
		return fmt.Errorf("%w: %s", os.ErrProcessDone, p.lastOutput())
	}
	return p.command.Process.Signal(s)
}

// end signals the child, lets it go on if it was paused, and waits until it has exited; a child that does not is killed.
func (p *process) end(s syscall.Signal) error {
	if err := p.signal(s); err != nil {
		return err
	}
	if s != syscall.SIGKILL {
		_ = p.command.Process.Signal(resumeSignal)
	}
	select {
	case <-p.ended:
		return nil
	case <-time.After(stopTimeout):
		p.kill()
		return fmt.Errorf("had to be killed after %s, its last output:\n%s", stopTimeout, p.lastOutput())
	}
}

// kill ends the child if it still runs.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

func (p *process) lastOutput() string {
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	if len(text) > lastOutputSize {
		text = text[len(text)-lastOutputSize:]
	}
	return string(bytes.TrimSpace(text))
}
