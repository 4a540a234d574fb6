// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package installer copies the running executable to where other containers of
// the pod can execute it.
//
// The copy appears whole or not at all: it is written under a temporary name,
// made executable and renamed. So an init container that is killed half-way and
// restarted does no harm, and neither does one that runs again above an earlier copy
// that is in use. After a crash of the node it runs again, so nothing is synced to
// disk.
package installer

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Mode is the copy's mode: any user of the pod may execute it, none may write
// to it, whatever the umask.
const Mode = 0o555

// exitFailure is the exit code for every failure. It is the supervisor's code
// for a failure of our own, which the two programs share.
const exitFailure = 125

// temporary names are this prefix, a random part and this suffix.
const tmpPrefix, tmpSuffix = ".entrypoint-", ".tmp"

// Main installs the running executable as args, the process's own argv, asks
// for: args[1] is the absolute path of the copy. It returns the code to exit
// with: 0, or 125 after a line on stderr.
func Main(args []string) int {
	if len(args) != 2 || !filepath.IsAbs(args[1]) || strings.HasSuffix(args[1], "/") {
		return report("copying the entrypoint: arguments " + quoteAll(args[min(1, len(args)):]) +
			": give one, the absolute path of the copy, like /entrypointer/bin/entrypoint")
	}
	if err := Install("/proc/self/exe", args[1]); err != nil {
		return report("copying the entrypoint to " + strconv.Quote(args[1]) + ": " + err.Error() + ": " + remedy(err))
	}
	return 0
}

// Install copies the file source to target, whose directory must exist, and
// gives it Mode. An existing target is replaced at once; temporary files that
// an earlier call left behind are removed. The errors are those of package os.
func Install(source, target string) error {
	dir := filepath.Dir(target)
	if err := removeLeftovers(dir); err != nil {
		return err
	}
	tmp, err := write(source, dir)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, target); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

// removeLeftovers removes what a call that was killed left in dir. A call that
// still runs loses its file too, and fails at its rename; it never installs a
// part of it.
func removeLeftovers(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), tmpPrefix) && strings.HasSuffix(e.Name(), tmpSuffix) {
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// write copies source to a new file in dir, complete, on disk and executable,
// and returns its name. On error there is no such file.
func write(source, dir string) (name string, err error) {
	in, err := os.Open(source)
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := os.CreateTemp(dir, tmpPrefix+"*"+tmpSuffix)
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	_, err = io.Copy(out, in) // copy_file_range(2), where the file systems can
	if err == nil {
		err = out.Chmod(Mode)
	}
	return out.Name(), errors.Join(err, out.Close())
}

// remedy says what to do about err.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "raise the emptyDir's sizeLimit, or free space on the node"
	case errors.Is(err, syscall.EROFS):
		return "mount the volume writable in the init container"
	case errors.Is(err, os.ErrPermission):
		return "let the init container's user write to the volume, an emptyDir"
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EEXIST):
		return "choose a path that is not a directory"
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "mount the volume at the path's directory"
	}
	return "check the volume, an emptyDir, and the node's disk"
}

// report writes text to stderr as one line, and returns the exit code.
func report(text string) int {
	line := "entrypointer: " + strings.ReplaceAll(text, "\n", "; ") + "\n"
	_, _ = syscall.Write(2, []byte(line)) // there is nobody else to tell
	return exitFailure
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(quoted, " ") + "]"
}
