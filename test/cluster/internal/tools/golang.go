// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
)

// Flags are the compiler's and the go command's, the same for the cluster and
// for what make builds of this repository (hack/go.mk): with others, packages
// that both use would be compiled twice. Without debug information, which
// nobody asks for here, compiling takes a fifteenth less processor time.
const Flags = "-buildvcs=false -trimpath -gcflags=all=-dwarf=false"

// environ is the environment for whatever compiles Go: static binaries, and
// neither the workspace nor the flags that somebody set for another project.
// Temporary files go to a directory whose disk has been looked at.
func environ(temporary string) []string {
	return append(os.Environ(),
		"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS="+Flags+" -mod=mod", "GOTMPDIR="+temporary,
		"GOGC=off", fmt.Sprintf("GOMEMLIMIT=%d", compilerMemory()))
}

// compilerMemory is what a compiler may use before it collects garbage. Nearly
// all packages take less, and so a sixth less processor time; as many compilers
// as there are processors take half of the memory that is available, at most.
func compilerMemory() int64 {
	const least, most = 512 << 20, 2 << 30
	return min(max(host.AvailableMemory()/2/int64(runtime.NumCPU()), least), most)
}

// command is the go command in the directory of the programs' module.
func (m Module) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = m.dir
	cmd.Env = environ(m.layout.Temporary())
	// The compilers that it started end with it.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	return cmd
}

// writeLog has a log written, and adds its end to an error.
func writeLog(path string, do func(io.Writer) error) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	log, err := os.Create(path)
	if err != nil {
		return err
	}
	defer log.Close()
	return progress.WithLog(do(log), path)
}

// CheckSpace tells whether the disks have room for what downloading and
// compiling everything writes.
func (m Module) CheckSpace(ctx context.Context) error {
	if err := os.MkdirAll(m.layout.Temporary(), 0o755); err != nil {
		return err
	}
	cmd := m.command(ctx, "env", "GOCACHE", "GOMODCACHE")
	out, err := lines(cmd, io.Discard, func(string) {})
	if err != nil {
		return err
	}
	caches := strings.Fields(string(out))
	if len(caches) != 2 {
		return fmt.Errorf("looking for Go's caches: %q", out)
	}
	const gigabyte = 1 << 30
	return host.CheckSpace(map[string]int64{
		caches[0]: 5 * gigabyte, caches[1]: 3 * gigabyte, m.layout.Cache: 2 * gigabyte, m.layout.State: gigabyte,
	})
}

// lines runs the command, gives every line that it prints on standard error to
// a function and to the log, and returns its standard output, also if it fails.
// The error tells what to do where that is known.
func lines(cmd *exec.Cmd, log io.Writer, each func(string)) ([]byte, error) {
	var out strings.Builder
	cmd.Stdout = &out
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	var cause error
	scanner := bufio.NewScanner(stderr)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		fmt.Fprintln(log, scanner.Text())
		cause = cmp.Or(causeOf(scanner.Text()), cause)
		each(scanner.Text())
	}
	_, _ = io.Copy(log, stderr) // after a line that is too long
	if err := cmd.Wait(); err != nil {
		return []byte(out.String()), because(cause, fmt.Errorf("running %q: %w", "go "+cmd.Args[1], err))
	}
	return []byte(out.String()), nil
}

// errNetwork is the cause of what may go through when it is tried again.
var errNetwork = errors.New("the module proxy can't be reached; see to the network, or set GOPROXY or HTTPS_PROXY, and run this again: what was downloaded and compiled is kept")

// errSpace is the cause of what a larger disk would cure.
var errSpace = errors.New("the disk is full; free some space, or set GOCACHE, GOMODCACHE and ENTRYPOINTER_CACHE to directories on another disk, and run this again: what was downloaded and compiled is kept")

var (
	networkTrouble = regexp.MustCompile(`dial tcp|connection (refused|reset)|i/o timeout|TLS handshake|no such host|unexpected EOF$|\b(429|500|502|503|504) [A-Z]|Client\.Timeout`)
	spaceTrouble   = regexp.MustCompile(`no space left on device|disk quota exceeded`)
)

// causeOf is the cause that a line of the go command tells of, if any.
func causeOf(line string) error {
	switch {
	case spaceTrouble.MatchString(line):
		return errSpace
	case networkTrouble.MatchString(line):
		return errNetwork
	default:
		return nil
	}
}

// because adds the cause to an error, if it is known.
func because(cause, err error) error {
	if cause == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// pauses are what lies between tries: a proxy that restarts is back after less.
var pauses = []time.Duration{2 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}

// again tries until it works, or until trying again makes no sense.
func again(ctx context.Context, try func() error) error {
	for _, pause := range pauses {
		err := try()
		if !errors.Is(err, errNetwork) {
			return err
		}
		progress.Printf("the module proxy can't be reached; trying again in %s", pause)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
	return try()
}

// Download downloads the modules that a group's programs are made of.
func (m Module) Download(ctx context.Context, g Group, log string, part *progress.Part) error {
	return writeLog(log, func(log io.Writer) error {
		_, err := m.outdated(ctx, g, log, part)
		return err
	})
}

// outdated counts the packages of a group that are to be compiled, and
// downloads their modules.
func (m Module) outdated(ctx context.Context, g Group, log io.Writer, part *progress.Part) (count int, _ error) {
	err := again(ctx, func() error {
		args := []string{"list", m.modfile(), "-deps", "-f", "{{if .Stale}}{{.ImportPath}}{{end}}"}
		cmd := m.command(ctx, append(args, g.Packages()...)...)
		cmd.Env = append(cmd.Env, "GOMAXPROCS=16") // Downloading waits more than it works.
		out, err := lines(cmd, log, func(line string) {
			if module, ok := strings.CutPrefix(line, "go: downloading "); ok {
				part.Advance("downloading " + module)
			}
		})
		count = len(strings.Fields(string(out)))
		return err
	})
	return count, err
}

// compile builds a group's programs into a directory.
func (m Module) compile(ctx context.Context, g Group, into string, log io.Writer, part *progress.Part) error {
	count, err := m.outdated(ctx, g, log, nil)
	if err != nil {
		return err
	}
	part.Begin(count)
	args := []string{"build", m.modfile(), "-v", "-o", into + "/", "-ldflags", m.ldflags()}
	_, err = lines(m.command(ctx, append(args, g.Packages()...)...), log, func(line string) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, " ") { // else it isn't a package
			part.Advance("compiling " + line)
		}
	})
	if err != nil {
		return err
	}
	part.Done()
	return nil
}

// ModuleDir downloads a module, and returns the (read-only) directory of its files.
func (m Module) ModuleDir(ctx context.Context, path string) (string, error) {
	version, err := m.Version(path)
	if err != nil {
		return "", err
	}
	type answers struct{ Dir, Error string }
	var answer answers
	err = again(ctx, func() error {
		answer = answers{}
		cmd := m.command(ctx, "mod", "download", "-json", path+"@"+version)
		cmd.Dir = m.layout.Temporary() // Within the module, it would load all of what that requires.
		out, err := lines(cmd, io.Discard, func(string) {})
		if parseErr := json.Unmarshal(out, &answer); parseErr == nil && answer.Error != "" {
			return because(causeOf(answer.Error), errors.New(answer.Error))
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("downloading %s@%s: %w", path, version, err)
	}
	return answer.Dir, nil
}
