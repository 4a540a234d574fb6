// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"strings"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
)

// Debian has a shell, the usual tools, and the languages that scripts are
// written in. It is unpacked from packages, none of which is configured: what
// their scripts would have done, and is missed, debianFiles does.
const Debian = layout.Registry + "/library/debian:latest"

// debianPackages are what Debian consists of, with what they depend on.
var debianPackages = []string{
	"base-files", "bash", "coreutils", "dash", "debianutils", "diffutils", "findutils", "grep", "gzip",
	"hostname", "mawk", "nodejs", "perl-base", "procps", "python3", "sed", "tar", "util-linux",
}

// unneeded are directories that nobody looks into in a container.
var unneeded = []string{"usr/share/doc", "usr/share/info", "usr/share/lintian", "usr/share/locale", "usr/share/man"}

// merged are the directories that are links to those of /usr.
var merged = []string{"bin", "lib", "lib64", "sbin"}

func debianFiles() []File {
	files := staticFiles()
	for _, dir := range merged {
		files = append(files, File{Path: dir, Mode: 0o777, Link: "usr/" + dir})
	}
	return append(files,
		File{Path: "usr/bin/awk", Mode: 0o777, Link: "mawk"},
		File{Path: "usr/bin/python", Mode: 0o777, Link: "python3"},
	)
}

// PushDebian pushes Debian and the images that are built on it, as Docker Hub
// has them: with their ways to start. Where there are no packages to make it
// of, it says so, and does without.
func PushDebian(ctx context.Context, l layout.Layout) error {
	if !host.HasPackages() {
		progress.Printf("no images of Debian's packages: there is no apt-get to download them; tests that need one will say so")
		return nil
	}
	debian := Image{Repository: "library/debian", Tags: []string{"latest"}, Cmd: []string{"bash"}}
	recipe := fmt.Sprintf("%q %q %+v", debianPackages, unneeded, debianFiles())
	err := debian.pushFile(ctx, l, recipe, func(ctx context.Context, w io.Writer) error { return writeDebian(ctx, l, w) })
	if err != nil {
		return err
	}
	return Push(ctx, []Image{
		{Repository: "library/ubuntu", Tags: []string{"latest"}, Base: Debian, Cmd: []string{"/bin/bash"}},
		{Repository: "library/perl", Tags: []string{"latest"}, Base: Debian, Cmd: []string{"perl", "-de0"}},
		{Repository: "library/python", Tags: []string{"latest"}, Base: Debian, Cmd: []string{"python3"}},
		{
			Repository: "library/node", Tags: []string{"latest"}, Base: Debian, Cmd: []string{"node"},
			Entrypoint: []string{"docker-entrypoint.sh"}, Files: []File{entrypointFor("node")},
		},
		{
			Repository: "library/bash", Tags: []string{"latest"}, Base: Debian, Cmd: []string{"bash"},
			Entrypoint: []string{"docker-entrypoint.sh"}, Files: []File{
				entrypointFor("bash"),
				{Path: "usr/bin/sh", Mode: 0o777, Link: "bash"}, // its sh knows [[; dash doesn't
			},
		},
	})
}

// entrypointFor takes flags for those of a program, and anything else for a
// command, as the entrypoints of these images do.
func entrypointFor(program string) File {
	return File{Path: "usr/local/bin/docker-entrypoint.sh", Mode: 0o755, Content: fmt.Sprintf(`#!/bin/sh
case ${1--} in -*) set -- %s "$@" ;; esac
exec "$@"
`, program)}
}

// writeDebian writes the files of the packages as a tar archive.
func writeDebian(ctx context.Context, l layout.Layout, w io.Writer) error {
	downloads, log := l.Packages("debian"), l.BuildLogs("debian.log")
	packages, err := host.DownloadPackages(ctx, downloads, log, debianPackages...)
	if err != nil {
		return progress.WithLog(err, log)
	}
	archive := newArchive(w)
	for _, file := range debianFiles() {
		if err := archive.addFile(file); err != nil {
			return err
		}
	}
	for _, file := range packages {
		if err := archive.addPackage(ctx, file); err != nil {
			return fmt.Errorf("unpacking %q: %w", file, err)
		}
	}
	return errors.Join(archive.Close(), os.RemoveAll(downloads))
}

// addPackage adds the files of a Debian package.
func (a archive) addPackage(ctx context.Context, file string) error {
	unpack := exec.CommandContext(ctx, "dpkg-deb", "--fsys-tarfile", file)
	var stderr bytes.Buffer
	unpack.Stderr = &stderr
	stdout, err := unpack.StdoutPipe()
	if err != nil {
		return err
	}
	if err := unpack.Start(); err != nil {
		return err
	}
	if err := a.addAll(tar.NewReader(stdout)); err != nil {
		return errors.Join(err, unpack.Process.Kill(), unpack.Wait())
	}
	if _, err := io.Copy(io.Discard, stdout); err != nil { // padding
		return err
	}
	if err := unpack.Wait(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(stderr.String()))
	}
	return nil
}

func (a archive) addAll(reader *tar.Reader) error {
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := inUsr(header.Name)
		if a.present[name] || isUnneeded(name) {
			continue
		}
		if err := a.addParents(name); err != nil {
			return err
		}
		a.present[name] = true
		header.Name = name
		switch header.Typeflag {
		case tar.TypeDir:
			header.Name += "/"
		case tar.TypeLink:
			header.Linkname = inUsr(header.Linkname)
		}
		if err := a.WriteHeader(header); err != nil {
			return err
		}
		if _, err := io.Copy(a, reader); err != nil {
			return err
		}
	}
}

// inUsr is where a package's file is when /bin and the like are links.
func inUsr(name string) string {
	name = strings.TrimPrefix(path.Clean("/"+name), "/")
	for _, dir := range merged {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return "usr/" + name
		}
	}
	if name == "" {
		return "."
	}
	return name
}

func isUnneeded(name string) bool {
	for _, dir := range unneeded {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}
