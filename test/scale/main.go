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
	"errors"
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

// partLimit is the time that a part may take. The others are measured even if one takes longer.
const partLimit = 20 * time.Minute

// options are what both of the program's processes are told by its arguments.
type options struct {
	short, sample, update, render bool
	only, programs                string
}

func main() {
	log.SetFlags(log.Ltime)
	log.SetPrefix("scale: ")
	var o options
	flag.BoolVar(&o.short, "short", false, "measure small numbers, within five minutes")
	flag.BoolVar(&o.sample, "sample", false, "measure the smallest numbers, and fail if a request fails or memory grows as it shouldn't")
	flag.BoolVar(&o.update, "update", false, "write docs/scale.md, docs/scale.json and docs/scale.svg")
	flag.BoolVar(&o.render, "render", false, "measure nothing, and write the page and the picture from docs/scale.json")
	flag.StringVar(&o.only, "only", "", "measure these `parts`, a list with commas of "+strings.Join(partNames(), ", "))
	flag.StringVar(&o.programs, "programs", "", "the `directory` with etcd and kube-apiserver; without, that of test/cluster, which builds them")
	flag.Parse()
	// The kernel ends the inner process when this thread ends.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, o)
	stop()
	if err != nil {
		log.Fatal(err)
	}
}

// plan returns the extent of the run.
func (o options) plan() plan {
	switch {
	case o.sample:
		return sample
	case o.short:
		return brief
	}
	return whole
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
	if o.sample && (o.short || o.update || o.only != "") {
		return errors.New("choosing the extent: -sample measures all parts, and writes nothing; leave out -short, -update and -only")
	}
	if o.update && o.only != "" {
		if err := checkExtent(o.plan()); err != nil {
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
	// The limit is that of measuring: the first time, compiling takes minutes.
	ctx, cancel := context.WithTimeout(ctx, o.plan().limit)
	defer cancel()
	return isolated(ctx, directory)
}

// The programs that are started, by their names in the directory.
const etcdProgram, apiServerProgram, injectorProgram, logsProgram = "etcd", "kube-apiserver", "injector", "logs"

// preparePrograms compiles the injector and the log service into a directory, and links the
// programs of Kubernetes there.
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
	build := exec.CommandContext(ctx, "go", "build", "-C", top, "-o", directory+string(filepath.Separator), "./cmd/"+injectorProgram, "./cmd/"+logsProgram)
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
	found := figures{Extent: o.plan().name}
	if o.update {
		former, err := formerFigures()
		if err != nil {
			return err
		}
		// What this run hasn't measured yet stays, so that a run that is interrupted, or of
		// some parts, loses nothing.
		if former.Extent == found.Extent {
			found = former
		}
	}
	failed := measureParts(ctx, o, directory, &found)
	fmt.Printf("\n%s\n", render(found))
	if failed == nil && o.sample {
		failed = check(found)
	}
	return failed
}

// measureParts measures the parts that were chosen. A part that fails leaves the programs in
// an unknown state, so the next part gets others.
func measureParts(ctx context.Context, o options, directory string, found *figures) (failed error) {
	w := &world{directory: directory, plan: o.plan()}
	defer func() { w.end() }()
	for _, part := range parts {
		if !part.chosen(o.only) || ctx.Err() != nil {
			continue
		}
		log.Printf("measuring: %s", part.name)
		limited, cancel := context.WithTimeout(ctx, partLimit)
		err := part.measureRecorded(limited, w, found)
		cancel()
		if err != nil {
			log.Printf("measuring %s failed: %v", part.name, err)
			failed = errors.Join(failed, fmt.Errorf("measuring %s: %w", part.name, err))
			w.end()
			w = &world{directory: directory, plan: o.plan()}
		}
		if o.update {
			if err := write(*found); err != nil {
				return errors.Join(failed, err)
			}
		}
	}
	return errors.Join(failed, ctx.Err())
}
