// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package tekton leaves what Tekton's entrypoint would have left if it had lived.
package tekton

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
)

// Options are the files of Tekton's entrypoint, "" for none.
type Options struct {
	StartedFile                string // for other steps, from the start on
	PostFile, StartFailureFile string
	TimeoutResult              string
}

// PostFlags adds the flags that set files for other steps.
func (o *Options) PostFlags(f *cmdline.Flags) {
	f.Add("started-file", "PATH", `Create this file at once, to tell other containers that this one has started.`,
		cmdline.Path(&o.StartedFile))
	f.Add("post-file", "PATH", `Other containers wait for this file, or for the file of this name with .err
appended. If the command fails and leaves neither, create the second.`, cmdline.Path(&o.PostFile))
	f.Add("start-failure-file", "PATH", `As -post-file, but only if the command is not started.`, cmdline.Path(&o.StartFailureFile))
}

// ResultFlags adds the flags that set the file of a step's results.
func (o *Options) ResultFlags(f *cmdline.Flags) {
	f.Add("timeout-result", "PATH", `After a -timeout, add it as the reason to the results of a Tekton step in
this file.`, cmdline.Path(&o.TimeoutResult))
}

// Start tells other steps that this container has started. If that fails, they learn it
// from Tekton.
func (o *Options) Start() {
	if o.StartedFile == "" {
		return
	}
	fd, err := unix.Open(o.StartedFile, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		console.Say("creating " + strconv.Quote(o.StartedFile) + ", which tells other steps of this start: " + err.Error())
		return
	}
	_ = unix.Close(fd)
}

// Leave leaves what is due after a life with this status.
func (o *Options) Leave(s *report.Status) {
	o.leavePostFiles(s)
	if s.Reason == outcome.Timeout {
		leaveTimeoutResult(o.TimeoutResult)
	}
}

// leavePostFiles reports a failure to the steps that wait for a post file.
func (o *Options) leavePostFiles(s *report.Status) {
	if s.ExitCode == 0 && s.Command == 0 { // a code of -success-exit-codes is still a failure to Tekton's entrypoint
		return
	}
	leavePostFile(o.PostFile)
	if !s.Ended {
		leavePostFile(o.StartFailureFile)
	}
}

// leavePostFile creates path.err, by which Tekton's entrypoint reports that its step
// has failed, unless Tekton's entrypoint has created one of the two files itself. If
// the kernel kills it for lack of memory, it creates none, and the steps after it would
// wait until the TaskRun times out (https://github.com/tektoncd/pipeline/issues/10371).
func leavePostFile(path string) {
	if path == "" || unix.Access(path, unix.F_OK) == nil {
		return
	}
	fd, err := unix.Open(path+".err", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o666)
	if err == unix.EEXIST {
		return
	}
	if err != nil {
		console.Say("creating " + path + ".err, which tells other containers of the failure: " + err.Error())
		return
	}
	_ = unix.Close(fd)
}

// timedOutResult is the result that Tekton's entrypoint adds to a step's results after
// its own timeout. From it, the TaskRun's status gets the reason of the failure
// (https://github.com/tektoncd/pipeline/blob/v1.15.0/pkg/pod/status.go).
const timedOutResult = `{"key":"Reason","value":"TimeoutExceeded","type":3}`

// leaveTimeoutResult adds timedOutResult to the results that Tekton's entrypoint has
// left in a file, if there is room for it. It doesn't change compressed results.
func leaveTimeoutResult(path string) {
	if path == "" {
		return
	}
	data, err := proc.ReadFile(path, report.MaxStatus)
	results, isList := strings.CutSuffix(strings.TrimSpace(string(data)), "]")
	switch {
	case err == nil && len(data) == 0, err == unix.ENOENT, results == "[":
		results = "["
	case isList:
		results += ","
	default:
		return
	}
	results += timedOutResult + "]\n"
	if len(results) > report.MaxStatus {
		return
	}
	// The file may be a mount, which can't be replaced by a rename.
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o644)
	if err == nil {
		err = report.WriteAll(fd, []byte(results))
		_ = unix.Close(fd)
	}
	if err != nil {
		console.Say("adding the timeout to the results in " + strconv.Quote(path) + ": " + err.Error())
	}
}
