// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package installer copies the running executable, or a tool of the image that the
// executable runs in, to a volume where other containers of the pod can execute the
// copy.
//
// The copy is atomic: the installer writes it under a temporary name, makes it
// executable and renames it. So an init container can be killed at any time and
// restarted, and can run again while an earlier copy is in use.
package installer

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/entrypointer/entrypointer/internal/proc"
)

// Mode is the mode of the copy, whatever the umask is: all users of the pod may execute
// the copy, none may write to it.
const Mode = 0o555

// exitFailure is the exit code for every failure. The supervisor, which is the same
// program, uses the same code for its own failures.
const exitFailure = 125

// The names of temporary files are tmpPrefix, a random part and tmpSuffix.
const tmpPrefix, tmpSuffix = ".entrypoint-", ".tmp"

// durableFlag asks for a copy that survives a crash of the node, in a directory that
// may not exist yet.
const durableFlag = "-durable"

// Main copies the running executable. args is the process's argv: the absolute path of
// the copy, after "-durable" to use [InstallDurably]. Main returns the exit code: 0, or
// 125 after a line on stderr.
func Main(args []string) int {
	install, targets := Install, args[min(1, len(args)):]
	if len(targets) > 0 && targets[0] == durableFlag {
		install, targets = InstallDurably, targets[1:]
	}
	if len(targets) != 1 || !filepath.IsAbs(targets[0]) || strings.HasSuffix(targets[0], "/") {
		return printFailure("copying the supervisor: arguments " + quoteAll(args[min(1, len(args)):]) +
			": give one, the absolute path of the copy, like /entrypointer/bin/entrypoint")
	}
	if err := install("/proc/self/exe", targets[0]); err != nil {
		return printFailure("copying the supervisor to " + strconv.Quote(targets[0]) + ": " + err.Error() + ": " + remedy(err))
	}
	return 0
}

// InstallDurably is Install for a volume that outlives the pod, such as a claim's. All
// data is on disk when it returns. It creates target's directory, but not the parent of
// that. Install doesn't sync: after a crash of the node, the kubelet fills an emptyDir
// again.
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

// syncFile writes a file's content, or a directory's entries, to disk.
func syncFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	err = f.Sync()
	// Some network file systems sync directories on their own and return EINVAL here.
	if errors.Is(err, syscall.EINVAL) {
		return nil
	}
	return err
}

// Install copies the file source to target and sets Mode. target's directory must
// exist. An existing target is replaced atomically. Temporary files of earlier calls
// are removed. The errors are those of package os.
func Install(source, target string) error {
	in, err := os.Open(source)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = installFrom(in, target)
	return err
}

// installFrom is Install for a reader. It returns the number of bytes copied.
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

// removeLeftovers removes temporary files that killed calls have left in dir. A
// concurrent call loses its file, too: its rename fails, and it never installs an
// incomplete copy.
func removeLeftovers(dir string) error {
	names, err := proc.ReadDirectory(dir)
	if err != nil {
		return &os.PathError{Op: "reading", Path: dir, Err: err}
	}
	for _, name := range names {
		if strings.HasPrefix(name, tmpPrefix) && strings.HasSuffix(name, tmpSuffix) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// writeTemporary copies in to a new executable file in dir, and returns the file's name
// and size. On error it leaves no file.
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
	copied, err = io.Copy(out, in) // uses copy_file_range(2) where the file systems support it
	if err == nil {
		err = out.Chmod(Mode)
	}
	return out.Name(), copied, errors.Join(err, out.Close())
}

// remedy says how to fix the cause of err.
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

// printFailure writes text to stderr as one line, and returns the exit code.
func printFailure(text string) int {
	line := "entrypointer: " + strings.ReplaceAll(text, "\n", "; ") + "\n"
	_, _ = syscall.Write(2, []byte(line)) // a failed write to stderr can't be reported anywhere
	return exitFailure
}

func quoteAll(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = strconv.Quote(s)
	}
	return "[" + strings.Join(quoted, " ") + "]"
}
