package process

import "syscall"

const (
	// PauseSignal stops a process in its tracks.
	PauseSignal = syscall.SIGSTOP
	// ResumeSignal lets a paused process go on.
	ResumeSignal = syscall.SIGCONT
	// Supported is true where processes can be started.
	Supported = true
)

// childAttributes keep a Ctrl-C in the terminal from the child, and end it when this process dies in whatever way.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
