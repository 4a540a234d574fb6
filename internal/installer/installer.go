// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package installer copies the running executable, or a tool of the image that it
// runs in, to where other containers of the pod can execute it.
//
// The copy appears whole or not at all: it is written under a temporary name,
// made executable and renamed. So an init container that is killed half-way and
// restarted does no harm, and neither does one that runs again above an earlier copy
// that is in use.
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

// durableFlag asks for a copy that outlives a crash of the node, in a directory that
// may have to be made.
const durableFlag = "-durable"

// Main installs the running executable as args, the process's own argv, asks
// for: the absolute path of the copy, after "-durable" if [InstallDurably] shall
// do it. It returns the code to exit with: 0, or 125 after a line on stderr.
func Main(args []string) int {
	install, targets := Install, args[min(1, len(args)):]
	if len(targets) > 0 && targets[0] == durableFlag {
		install, targets = InstallDurably, targets[1:]
	}
	if len(targets) != 1 || !filepath.IsAbs(targets[0]) || strings.HasSuffix(targets[0], "/") {
		return printFailure("copying the entrypoint: arguments " + quoteAll(args[min(1, len(args)):]) +
			": give one, the absolute path of the copy, like /entrypointer/bin/entrypoint")
	}
	if err := install("/proc/self/exe", targets[0]); err != nil {
		return printFailure("copying the entrypoint to " + strconv.Quote(targets[0]) + ": " + err.Error() + ": " + remedy(err))
	}
	return 0
}

// InstallDurably is Install for a volume that outlives its pod, as a claim does: all
// is on disk when it returns. It makes target's directory if it isn't there, in one
// that is. After a crash of the node an emptyDir is filled anew, so Install syncs
// nothing.
func InstallDurably(source, target string) error {
	dir := filepath.Dir(target)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	if err := Install(source, target); err != nil {
		return err
	}
	return errors.Join(syncFile(target), syncFile(dir), syncFile(filepath.Dir(dir)))
}

// syncFile has a file's content, or a directory's entries, written to disk.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	// Some network file systems sync directories by themselves, and say so.
	if errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// Install copies the file source to target, whose directory must exist, and
// gives it Mode. An existing target is replaced at once; temporary files that
// an earlier call left behind are removed. The errors are those of package os.
func Install(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = installFrom(in, target)
	return err
}

// install is Install of what in has, and returns how many bytes that was.
func installFrom(in io.Reader, target string) (int64, error) {
	dir := filepath.Dir(target)
	if err := removeLeftovers(dir); err != nil {
		return 0, err
	}
	tmp, copied, err := writeTemporary(in, dir)
	if err != nil {
		return 0, err
	}
	if err := os.Rename(tmp, target); err != nil {
		return 0, errors.Join(err, os.Remove(tmp))
	}
	return copied, nil
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

// write copies what in has to a new file in dir, complete and executable, and
// returns its name and size. On error there is no such file.
func writeTemporary(in io.Reader, dir string) (name string, copied int64, err error) {
	out, err := os.CreateTemp(dir, tmpPrefix+"*"+tmpSuffix)
	if err != nil {
		return "", 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	copied, err = io.Copy(out, in) // copy_file_range(2), where the file systems can
	if err == nil {
		err = out.Chmod(Mode)
	}
	return out.Name(), copied, errors.Join(err, out.Close())
}

// remedy says what to do about err.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return "raise the emptyDir's sizeLimit, or what the claim requests, or free space on the node"
	case errors.Is(err, syscall.EROFS):
		return "mount the volume writable in the container that copies; a claim's storage has to let one pod write"
	case errors.Is(err, os.ErrPermission):
		return "let the container's user, or its fsGroup, write to the volume"
	case errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EEXIST):
		return "choose a path that is not a directory"
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return "mount the volume at the path's directory"
	}
	return "check the volume, an emptyDir or a claim, and its disk"
}

// report writes text to stderr as one line, and returns the exit code.
func printFailure(text string) int {
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
