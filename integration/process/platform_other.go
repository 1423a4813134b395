//go:build !linux

package process

import "syscall"

// Programs are started on Linux only, where the kernel ends them when the test dies.
const (
	// PauseSignal stops a process in its tracks.
	PauseSignal = syscall.SIGTERM
	// ResumeSignal lets a paused process go on.
	ResumeSignal = syscall.SIGTERM
	// Supported is true where processes can be started.
	Supported = false
)

func childAttributes() *syscall.SysProcAttr { return nil }
