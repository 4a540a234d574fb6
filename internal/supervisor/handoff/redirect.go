// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package handoff

import (
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/supervisor/console"
	"github.com/entrypointer/entrypointer/internal/supervisor/report"
)

// A command that waits for its turn itself looks for a file that others create
// (-wait_file of Tekton's entrypoint). If the supervisor knows of the turn from other files
// (-wait-instead), the command waits for a file of the supervisor's in place of that one
// (-turn-file), and still decides itself when to go on.

// redirected returns argv with the supervisor's file, which it creates empty. It returns
// argv itself if there is no such file, or the command doesn't wait as expected.
func (t *Turn) redirected(argv []string) []string {
	if t.opts.File == "" {
		return argv
	}
	end := slices.Index(argv, "--")
	if end < 0 {
		end = len(argv)
	}
	at := slices.Index(argv[:end], "-wait_file") + 1
	if at == 0 || at >= end || argv[at] != t.opts.Wait.All[0].Path {
		return argv
	}
	if err := leave(t.opts.File, ""); err != nil {
		console.Say("creating " + strconv.Quote(t.opts.File) + ": " + err.Error() + ": the command waits for " + argv[at] + " only")
		t.opts.Wait.Instead = nil
		return argv
	}
	changed := slices.Clone(argv)
	changed[at] = t.opts.File
	t.original = argv
	return changed
}

// passTurn shows the command the result of the wait in the supervisor's file. It reports
// whether the command must wait for its own file after all.
func (t *Turn) passTurn(turn await.State) (failed bool) {
	if t.original == nil {
		return false
	}
	switch own := t.opts.Wait.All[0].Path; {
	case turn == await.Met:
		return leave(t.opts.File, "1\n") != nil
	case turn == await.Aborted && exists(own+".err"):
		return leave(t.opts.File+".err", "") != nil
	case turn == await.Aborted, turn == await.Waiting: // the command looks for the cause itself, or has ended
		return false
	}
	return true
}

// leave leaves a file with this content.
func leave(path, content string) error {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o644)
	if err != nil {
		return err
	}
	err = report.WriteAll(fd, []byte(content))
	_ = unix.Close(fd)
	return err
}

func exists(path string) bool { return unix.Access(path, unix.F_OK) == nil }
