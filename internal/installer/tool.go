// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package installer

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// MaxTool is the maximum size of a tool, in bytes.
const MaxTool = 256 << 20

// operatorHint ends the errors that only the operator can fix.
const operatorHint = `: have the operator correct it in the key "tools" of ConfigMap config-entrypointer`

// ToolMain copies a tool out of the image that it runs in, for containers of other
// images. args are the absolute path of the tool, the absolute path of the copy, and
// the image's name for errors. The base name of the copy is the name of the tool.
// ToolMain returns the exit code: 0, or 125 after a line on stderr, which the kubelet
// shows.
func ToolMain(args []string) int {
	if len(args) != 3 || !filepath.IsAbs(args[0]) || !filepath.IsAbs(args[1]) {
		return printFailure("copying a tool: arguments " + quoteAll(args) +
			": give its absolute path, that of the copy, and the name of its image")
	}
	path, target, image := args[0], args[1], args[2]
	if err := installTool(path, target, "image "+strconv.Quote(image)); err != nil {
		return printFailure("tool " + filepath.Base(target) + ": " + err.Error())
	}
	return 0
}

// installTool copies the tool at path to target. Its errors say what to do.
func installTool(path, target, image string) error {
	in, err := openTool(path, image)
	if err != nil {
		return err
	}
	defer in.Close()
	copied, err := installFrom(io.LimitReader(in, MaxTool+1), target)
	if err != nil {
		return errors.New("copying it to " + strconv.Quote(target) + ": " + err.Error() + ": " + remedy(err))
	}
	if copied > MaxTool {
		return errors.Join(tooLarge(path, image), os.Remove(target))
	}
	return nil
}

// openTool opens the tool; path may be a symbolic link. Anything but an executable
// regular file is rejected before it is opened: a read from a pipe may never end, and
// opening a device may have side effects.
func openTool(path, image string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, whyNotFound(path, image, err)
	}
	where := "path " + strconv.Quote(path) + " in " + image
	switch {
	case info.IsDir():
		return nil, errors.New(where + " is a directory, not a program" + operatorHint)
	case !info.Mode().IsRegular():
		return nil, errors.New(where + " is a pipe, a socket or a device, not a program" + operatorHint)
	case info.Mode()&0o111 == 0:
		return nil, errors.New(where + " is not executable (mode " + strconv.FormatUint(uint64(info.Mode().Perm()), 8) +
			"): make it executable in the image, or name another path" + operatorHint)
	case info.Size() > MaxTool:
		return nil, tooLarge(path, image)
	}
	in, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, whyNotFound(path, image, err)
	}
	return in, nil
}

func tooLarge(path, image string) error {
	return errors.New("path " + strconv.Quote(path) + " in " + image + " has more than " + strconv.Itoa(MaxTool>>20) +
		" MiB, the most that is copied into a pod: make it smaller, for instance by stripping it")
}

// whyNotFound explains an error of os.Stat or os.OpenFile.
func whyNotFound(path, image string, err error) error {
	quoted := "path " + strconv.Quote(path)
	link, linkErr := os.Readlink(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && linkErr == nil:
		return errors.New(quoted + " in " + image + " is a symbolic link to " + strconv.Quote(link) + ", whose target doesn't exist there" + operatorHint)
	case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return errors.New(quoted + " isn't in " + image + operatorHint)
	case errors.Is(err, syscall.ELOOP):
		return errors.New(quoted + " in " + image + " is in a loop of symbolic links" + operatorHint)
	case errors.Is(err, os.ErrPermission):
		return errors.New("user " + strconv.Itoa(os.Getuid()) + " may not read " + quoted + " in " + image +
			": make the file and its directories readable for all users in the image")
	}
	return errors.New("reading " + quoted + " in " + image + ": " + err.Error() + ": check the image, and the node's disk")
}
