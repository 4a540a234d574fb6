// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Scale measures how the injector grows with a cluster: with its namespaces, its pods, its
// nodes and its images, and with the admissions a second. The API server and etcd are real,
// the injector is a process that API servers call through its Service, and the objects are
// written by this program; there is no kubelet. As root:
//
//	go run ./test/scale -update
//
// All of it runs in network, PID and mount namespaces of its own, whose only network
// interface is loopback: it meets no other program's ports, and all processes end with it.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/test/framework"
)

// The limits of a run as a whole.
const shortLimit, wholeLimit = 15 * time.Minute, 100 * time.Minute

// options are what both of the program's processes are told by its arguments.
type options struct {
	short, update, render bool
	only, programs        string
}

func main() {
	log.SetFlags(log.Ltime)
	log.SetPrefix("scale: ")
	var o options
	flag.BoolVar(&o.short, "short", false, "measure small numbers, within three minutes")
	flag.BoolVar(&o.update, "update", false, "write docs/scale.md, docs/scale.json and docs/scale.svg")
	flag.BoolVar(&o.render, "render", false, "measure nothing, and write the page and the picture from docs/scale.json")
	flag.StringVar(&o.only, "only", "", "measure these `parts`, a list with commas of "+strings.Join(partNames(), ", "))
	flag.StringVar(&o.programs, "programs", "", "the `directory` with etcd and kube-apiserver; without, that of test/cluster, which builds them")
	flag.Parse()
	// The kernel ends the inner process when this thread ends.
	runtime.LockOSThread()
	limit := wholeLimit
	if o.short {
		limit = shortLimit
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, limit)
	err := run(ctx, o)
	cancel()
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, o options) error {
	if directory := os.Getenv(insideVariable); directory != "" {
		return runInside(ctx, o, directory)
	}
	if err := checkParts(o.only); err != nil {
		return err
	}
	if o.render {
		found, err := formerFigures()
		if err != nil {
			return err
		}
		return write(found)
	}
	if o.update && o.only != "" {
		if err := checkExtent(o.short); err != nil {
			return err
		}
	}
	directory, err := os.MkdirTemp("", "entrypointer-scale-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(directory) }()
	if err := preparePrograms(ctx, o.programs, directory); err != nil {
		return err
	}
	return isolated(ctx, directory)
}

// The programs that are started, by their names in the directory.
const etcdProgram, apiServerProgram, injectorProgram = "etcd", "kube-apiserver", "injector"

// preparePrograms compiles the injector into a directory, and links the programs of
// Kubernetes there.
func preparePrograms(ctx context.Context, programs, directory string) error {
	top, err := framework.RepositoryRoot()
	if err != nil {
		return err
	}
	if programs == "" {
		if programs, err = builtPrograms(); err != nil {
			return err
		}
	}
	for _, name := range []string{etcdProgram, apiServerProgram} {
		path, err := filepath.EvalSymlinks(filepath.Join(programs, name))
		if err != nil {
			return fmt.Errorf("looking for %s: %w; build it: go run -C test/cluster . build", name, err)
		}
		if err := os.Symlink(path, filepath.Join(directory, name)); err != nil {
			return err
		}
	}
	build := exec.CommandContext(ctx, "go", "build", "-C", top, "-o", filepath.Join(directory, injectorProgram), "./cmd/injector")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("running %q: %w: %.2000s", build.Args, err, out)
	}
	return nil
}

// builtPrograms returns the directory in which test/cluster has the programs that it built.
func builtPrograms() (string, error) {
	if cache := os.Getenv("ENTRYPOINTER_CACHE"); cache != "" {
		return filepath.Join(cache, "bin"), nil
	}
	user, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the programs of test/cluster: %w; name their directory by -programs", err)
	}
	return filepath.Join(user, "entrypointer", "bin"), nil
}

// runInside measures, in the namespaces of this run.
func runInside(ctx context.Context, o options, directory string) error {
	if err := enter(); err != nil {
		return err
	}
	p := whole
	if o.short {
		p = brief
	}
	w := &world{directory: directory, plan: p}
	defer w.end()
	var found figures
	if o.update && o.only != "" {
		var err error
		if found, err = formerFigures(); err != nil {
			return err
		}
	}
	found.Short, found.Date = o.short, time.Now().Format(time.DateOnly)
	for _, part := range parts {
		if !part.chosen(o.only) {
			continue
		}
		log.Printf("measuring: %s", part.name)
		if err := part.measure(ctx, w, &found); err != nil {
			return fmt.Errorf("measuring %s: %w", part.name, err)
		}
		if o.update {
			if err := write(found); err != nil {
				return err
			}
		}
	}
	fmt.Printf("\n%s\n", render(found))
	return nil
}
