// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package handoff

import (
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/launch"
)

// Options are what the command waits for in the shape of files.
type Options struct {
	Wait         await.Files
	Limit        time.Duration // 0 means no limit
	Hold         time.Duration // 0 means that the command isn't started early
	UnlessShared string        // name of a variable
	File         string        // for which the command waits in place of its own file; "" for none
}

// Flags adds the flags that set o.
func (o *Options) Flags(f *cmdline.Flags) {
	f.Add("wait-file", "PATH", `Start the command only when this file exists. May be repeated to wait for
all of the files.`,
		addFile(await.File{}, &o.Wait.All))
	f.Add("wait-content", "PATH", `Start the command only when this file exists and is not empty. May be
repeated.`,
		addFile(await.File{Content: true}, &o.Wait.All))
	f.Add("wait-either", "PATH", `Start the command only when this file, or the file of this name with .err
appended, exists. May be repeated.`,
		addFile(await.File{OrErr: true}, &o.Wait.All))
	f.Add("wait-abort", "PATH", `End the wait once this file exists, and start the command without hooks
and pauses, so that it can report why. May be repeated.`,
		addFile(await.File{}, &o.Wait.Abort))
	f.Add("wait-abort-content", "PATH", `As -wait-abort, once this file exists and is not empty. May be repeated.`,
		addFile(await.File{Content: true}, &o.Wait.Abort))
	f.Add("wait-instead", "PATH", `Start the command as well when this file exists, whether or not those of
-wait-file and the like do. May be repeated: all of the files must exist.`,
		addFile(await.File{}, &o.Wait.Instead))
	f.Add("turn-file", "PATH", `Create this file when the wait is over. It replaces the value of the
command's argument -wait_file, so that the command, which waits for its turn
as well, finds it at that time.`, cmdline.Path(&o.File))
	f.Add("wait-timeout", "DURATION", `The longest time to wait for files; unlimited by default.`,
		cmdline.Duration(&o.Limit))
	f.Add("hold", "DURATION", `Start the command before the wait, and stop it (SIGSTOP) until the wait is
over. The command must poll for the same files itself, at this interval, and
print nothing before, unless -wait-unless-shared is set.`,
		cmdline.Duration(&o.Hold))
	f.Add("wait-unless-shared", "NAME", `Don't wait if other containers may see the directory that this variable
names, because the command prepares that directory before its own wait.
With -hold, wait, but don't start the command a second time.`, o.setUnlessShared)
}

// addFile returns the set function of a flag whose value is a path. It appends a
// file like the given one with that path.
//
//go:noinline
func addFile(like await.File, list *[]await.File) func(path string) string {
	return func(path string) string {
		like.Path = path
		*list = append(*list, like)
		return cmdline.Absolute(path)
	}
}

func (o *Options) setUnlessShared(name string) string {
	o.UnlessShared = name
	return launch.CheckName(name)
}

// Check rejects flags that can't work together.
func (o *Options) Check() error {
	if o.Hold != 0 && o.Limit != 0 {
		return cmdline.Failure("-hold="+o.Hold.String(), "not together with -wait-timeout: an early command decides itself how long to wait")
	}
	switch {
	case len(o.Wait.Instead) > 0 && len(o.Wait.All) == 0:
		return cmdline.Failure("-wait-instead="+o.Wait.Instead[0].Path, "it stands for no file: use -wait-file or the like as well")
	case o.File != "" && len(o.Wait.All) == 0:
		return cmdline.Failure("-turn-file="+o.File, "there is no turn to wait for: use -wait-file or the like as well")
	}
	return nil
}
