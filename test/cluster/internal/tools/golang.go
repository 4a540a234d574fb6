// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// golang runs the go command, and writes what it says to a log.
type golang struct {
	source string // where to copy modules to
	log    string
}

// Environ is the environment for whatever compiles Go: static binaries, of
// what go.mod says (some modules are published with half a vendor directory),
// and neither the workspace nor the flags that somebody set for another project.
// A compiler that collects less garbage takes a sixth less processor time.
func Environ() []string {
	return append(os.Environ(),
		"CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=-buildvcs=false -trimpath -mod=readonly",
		"GOGC=400", "GOMEMLIMIT=1500MiB")
}

func (g golang) run(ctx context.Context, dir string, args ...string) error {
	log, err := os.OpenFile(g.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = Environ()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("running %q: %w", "go "+strings.Join(args, " "), err)
	}
	return nil
}

// build builds packages of a module where it was downloaded to. ("go install
// package@version" asks for the list of versions, too, which not every module
// proxy gives.) The variable, if any, is the one to set to the version.
func build(module, variable string, packages ...string) func(context.Context, golang, Tool, string) error {
	return func(ctx context.Context, g golang, t Tool, into string) error {
		dir, err := ModuleDir(ctx, module, t.Version)
		if err != nil {
			return err
		}
		flags := ldflags()
		if variable != "" {
			flags = ldflags(variable + "=" + t.Version)
		}
		return g.run(ctx, dir, append([]string{"build", "-o", into, "-ldflags", flags}, packages...)...)
	}
}

// ldflags drops debug information, and sets variables ("path.name=value").
func ldflags(variables ...string) string {
	flags := "-s -w"
	for _, v := range variables {
		flags += " -X " + v
	}
	return flags
}

// copyModule makes a writable copy of a module at a version, under a name of
// its own, and returns its directory. An older copy is replaced.
func (g golang) copyModule(ctx context.Context, name, module, version string) (string, error) {
	from, err := ModuleDir(ctx, module, version)
	if err != nil {
		return "", err
	}
	to := filepath.Join(g.source, name)
	return to, CopyDir(from, to)
}

// ModuleDir downloads a module, and returns the (read-only) directory of its files.
func ModuleDir(ctx context.Context, module, version string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module+"@"+version)
	cmd.Dir = os.TempDir()
	cmd.Env = Environ()
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if parseErr := json.Unmarshal(out, &answer); parseErr == nil && answer.Error != "" {
		return "", fmt.Errorf("downloading %s@%s: %s", module, version, answer.Error)
	}
	if err != nil {
		return "", fmt.Errorf("downloading %s@%s: %w", module, version, err)
	}
	return answer.Dir, nil
}

// CopyDir copies a directory's regular files, and makes the copies writable.
func CopyDir(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("copying %q: %w", from, err)
	}
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, relative)
		switch {
		case entry.IsDir():
			return os.MkdirAll(target, 0o755)
		case !entry.Type().IsRegular():
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
}

// hash is short, for names of files.
func hash(parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:4])
}
