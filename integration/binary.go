package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/mqferry/mqferry/integration/brokers"
)

// shared is the one variable of the package: all tests of a binary run the same program.
var shared program

// program is the product, built once.
type program struct {
	once sync.Once
	dir  string
	err  error
}

// Main runs the tests, then ends the shared brokers and deletes the program that was built. It returns the exit code for os.Exit.
func Main(m brokers.Runner) int {
	code := brokers.Main(m)
	if shared.dir != "" {
		_ = os.RemoveAll(shared.dir)
	}
	return code
}

// Suite returns a Runner that does what Main does, for goleak.VerifyTestMain.
func Suite(m brokers.Runner) brokers.Runner { return suite{m} }

type suite struct{ brokers.Runner }

func (s suite) Run() int { return Main(s.Runner) }

// path builds the program at the first call.
func (p *program) path() (string, error) {
	p.once.Do(p.build)
	return filepath.Join(p.dir, "mqferry"), p.err
}

func (p *program) build() {
	if p.dir, p.err = os.MkdirTemp("", "mqferry-program-"); p.err != nil {
		return
	}
	arguments := append([]string{"build", "-o", filepath.Join(p.dir, "mqferry")}, raceFlags()...)
	output, err := exec.Command("go", append(arguments, "github.com/mqferry/mqferry")...).CombinedOutput()
	if err != nil {
		p.err = fmt.Errorf("build the program: %w\n%s", err, output)
	}
}
