// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The version that is built when none is given.
const (
	argoModule  = "github.com/argoproj/argo-workflows/v3"
	argoVersion = "v3.7.14"
)

// emissary is what Argo puts in front of the containers of a container set. It has one
// volume for all of them, always at /var/run/argo. It looks once a second whether
// its command has ended, and before v4.1 as often whether another container has.
func emissary(ctx context.Context, given string) *system {
	s := &system{
		name: "Argo's emissary", event: started, holds: "run/argo", says: "ctr/first/exitcode",
		waits: "waiting for dependency", looks: time.Second, forged: "0", others: runOf,
	}
	path, version, err := argoexec(ctx, given)
	if err != nil {
		s.why = lastLine(err)
	}
	if version != "" {
		s.name += " " + version
	}
	as := func(name string) func(*pod) spec {
		return func(p *pod) spec {
			return spec{argv: []string{path, "emissary", "--"}, env: []string{"ARGO_CONTAINER_NAME=" + name}, mounts: runOf(p)}
		}
	}
	s.first, s.second = as("first"), as("second")
	s.prepare = func(p *pod) error {
		return writeForAll(filepath.Join(p.volume(), "template"), `{"containerSet": {"containers": [{"name": "first"}, {"name": "second", "dependencies": ["first"]}]}}`)
	}
	return s
}

// argoexec is the program to compare with, and its version.
func argoexec(ctx context.Context, given string) (path, version string, err error) {
	if given == "" {
		path, err = builtArgoexec(ctx)
		return path, argoVersion, err
	}
	said, err := output(exec.CommandContext(ctx, given, "version", "--short"))
	return given, strings.TrimPrefix(said, "argoexec: "), err
}

// builtArgoexec is the path of the program, which is built if the cache doesn't have it.
func builtArgoexec(ctx context.Context) (string, error) {
	cache := os.Getenv("ENTRYPOINTER_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", err
		}
		cache = filepath.Join(user, "entrypointer")
	}
	dir := filepath.Join(cache, "tools", "argoexec@"+argoVersion)
	path := filepath.Join(dir, "argoexec")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	log.Printf("building argoexec %s, which takes minutes", argoVersion)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	source, err := argoSource(ctx)
	if err != nil {
		return "", err
	}
	copied, err := os.MkdirTemp(dir, "source-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(copied) }()
	if err := os.CopyFS(copied, os.DirFS(source)); err != nil {
		return "", fmt.Errorf("copying %q: %w", source, err)
	}
	// The one for Linux is a symbolic link in their repository, and modules have none.
	signals := filepath.Join(copied, "workflow/executor/osspecific/signal_")
	if err := os.Link(signals+"darwin.go", signals+"linux.go"); err != nil {
		return "", err
	}
	partial := path + ".partial"
	if err := goCommand(ctx, copied, nil, "build", "-ldflags=-s -w", "-o", partial, "./cmd/argoexec"); err != nil {
		return "", err
	}
	return path, os.Rename(partial, path)
}

// argoSource is where the module has been downloaded to.
func argoSource(ctx context.Context) (string, error) {
	var downloaded struct{ Dir, Error string }
	err := goCommand(ctx, os.TempDir(), &downloaded, "mod", "download", "-json", argoModule+"@"+argoVersion)
	if downloaded.Error != "" {
		err = fmt.Errorf("downloading %s: %s", argoModule, downloaded.Error)
	}
	return downloaded.Dir, err
}

// goCommand runs the go command for another module, and reads what it says as JSON.
func goCommand(ctx context.Context, dir string, said any, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-buildvcs=false -trimpath", "CGO_ENABLED=0")
	text, err := output(cmd)
	if said != nil {
		err = errors.Join(json.Unmarshal([]byte(text), said), err)
	}
	return err
}
