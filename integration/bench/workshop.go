package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/mqferry/mqferry/integration/process"
)

// workshop is a folder with the program in it, and what the relays write.
type workshop struct{ dir string }

// newWorkshop builds the program.
func newWorkshop() (*workshop, error) {
	dir, err := os.MkdirTemp("", "mqferry-bench-")
	if err != nil {
		return nil, err
	}
	w := &workshop{dir: dir}
	output, err := exec.Command("go", "build", "-o", w.file("mqferry"), "github.com/mqferry/mqferry").CombinedOutput()
	if err != nil {
		w.remove()
		return nil, fmt.Errorf("build the program: %w\n%s", err, output)
	}
	return w, nil
}

func (w *workshop) file(name string) string { return filepath.Join(w.dir, name) }

func (w *workshop) remove() { _ = os.RemoveAll(w.dir) }

// run starts a program whose config is text in a file named after the run.
func (w *workshop) run(run, text, program string, arguments ...string) (*moving, error) {
	if err := os.WriteFile(w.file(run), []byte(text), 0o600); err != nil {
		return nil, err
	}
	p, err := process.Start(w.file(run+".log"), program, arguments...)
	if err != nil {
		return nil, err
	}
	stop := func() {
		if err := p.End(syscall.SIGTERM, 30*time.Second); err != nil {
			p.Kill()
		}
	}
	ended := func() error {
		if p.Running() {
			return nil
		}
		return fmt.Errorf("it ended: %s", p.LastOutput())
	}
	return &moving{stop, ended}, nil
}
