package brokers

import "syscall"

const (
	pauseSignal  = syscall.SIGSTOP
	resumeSignal = syscall.SIGCONT
	canStart     = true
)

// childAttributes keep a Ctrl-C in the terminal from the broker, and end it when this process dies in whatever way.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
