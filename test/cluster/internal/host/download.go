// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// preferences keep what the host has besides its distribution (Node.js of its
// makers, say) out of images.
const preferences = "Package: *\nPin: release o=Debian\nPin-Priority: 990\n\n" +
	"Package: *\nPin: release o=Ubuntu\nPin-Priority: 990\n"

// HasPackages tells whether packages can be downloaded here.
func HasPackages() bool {
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return false
		}
	}
	return true
}

// DownloadPackages downloads packages and all that they depend on, from where
// the host gets its own, and returns the files. The directory should be empty.
func DownloadPackages(ctx context.Context, dir, log string, names ...string) ([]string, error) {
	if err := os.MkdirAll(filepath.Join(dir, "partial"), 0o755); err != nil {
		return nil, err
	}
	preferred := filepath.Join(dir, "preferences")
	if err := os.WriteFile(preferred, []byte(preferences), 0o644); err != nil {
		return nil, err
	}
	download := append([]string{
		"apt-get", "install", "--download-only", "-y", "--no-install-recommends",
		"-o", "Acquire::Retries=3",
		"-o", "Dir::State::status=/dev/null", // as if nothing were installed
		"-o", "Dir::Etc::preferences=" + preferred,
		"-o", "Dir::Cache::archives=" + dir,
		"-o", "APT::Sandbox::User=root", // who else may write here?
	}, names...)
	// The lists of packages may be missing or outdated; they are fetched only then.
	if err := apt(ctx, log, "", download); err != nil {
		if err := apt(ctx, log, "", []string{"apt-get", "update"}, download); err != nil {
			return nil, err
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return nil, err
	}
	if len(files) < len(names) {
		return nil, fmt.Errorf("downloading %s: only %d files came", strings.Join(names, ", "), len(files))
	}
	return files, nil
}
