package command

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// version is the command of that name.
func (p program) version(_ context.Context, args []string) int {
	if code, stop := p.parse(flags("version"), args); stop {
		return code
	}
	fmt.Fprintf(p.out, "mqferry %s\n", version())
	return good
}

// version says what is known of this binary: its version and commit, and what it was built with.
func version() string {
	known := "unknown"
	var commit string
	if info, ok := debug.ReadBuildInfo(); ok {
		known = strings.Trim(info.Main.Version, "()")
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = ", commit " + s.Value[:min(12, len(s.Value))]
			case s.Key == "vcs.modified" && s.Value == "true":
				commit += " with changes"
			}
		}
	}
	if known == "" {
		known = "devel"
	}
	return fmt.Sprintf("%s%s, %s, %s/%s", known, commit, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
