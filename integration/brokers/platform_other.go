//go:build !linux

package brokers

import "syscall"

// Brokers are started on Linux only, where the kernel ends them when the test dies; elsewhere they are given by address.
const (
	pauseSignal  = syscall.SIGTERM
	resumeSignal = syscall.SIGTERM
	canStart     = false
)

func childAttributes() *syscall.SysProcAttr { return nil }
