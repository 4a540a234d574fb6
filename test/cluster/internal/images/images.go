// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package images fills the image registry: with images made of this machine's
// files, for there is no other registry to get base images from, and with
// Tekton's and Knative's.
package images

import (
	"fmt"
	"os/exec"
	"strings"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

// Image is an image of one layer, or of one on top of another image.
type Image struct {
	Repository string
	Tags       []string
	Base       string // the image below, one of this registry; "" is none
	Files      []File
	Entrypoint []string
	Cmd        []string
	Env        []string // besides PATH
	StopSignal string   // "" is SIGTERM
	User       string   // "" is root
	// Architectures are those of an image without programs, which serves several. None is
	// this machine's.
	Architectures []string
}

// File is a file, a directory or a symbolic link in an image. Directories that
// are on the way need no File of their own.
type File struct {
	Path string
	Mode int64 // permissions
	// One of these says what it is; none, that it is a directory.
	From    string // a file of this machine
	Content string
	Link    string // what it points to
}

// The images that others refer to.
const (
	Pause   = layout.Registry + "/pause:latest"
	Static  = layout.Registry + "/static:latest"
	Busybox = layout.Registry + "/library/busybox:latest"
	CoreDNS = layout.Registry + "/coredns:latest"
	Traefik = layout.Registry + "/traefik:latest"
	// Provisioner makes volumes for claims.
	Provisioner = layout.Registry + "/local-path-provisioner:latest"
)

// nonroot is the user that ko's and Tekton's images run as.
const nonroot = "65532"

// Base are the images that need nothing built. To add one, say which files of
// which of Debian's packages it consists of.
func Base() ([]Image, error) {
	busybox, err := busyboxFiles()
	if err != nil {
		return nil, err
	}
	return []Image{
		{
			Repository: "pause",
			Tags:       []string{"latest"},
			Files:      []File{{Path: "pause", Mode: 0o755, From: host.Catatonit}},
			Entrypoint: []string{"/pause", "-P"}, // waits for signals, and reaps
			User:       nonroot,
		},
		{
			Repository:    "static",
			Tags:          []string{"latest"},
			Files:         staticFiles(),
			User:          nonroot,
			Architectures: []string{"amd64", "arm64"}, // those of a release
		},
		{
			Repository: "library/busybox",
			Tags:       []string{"1.37", "latest"}, // 1.37 for those who ask for Docker Hub's current one
			Files:      append(staticFiles(), busybox...),
			Cmd:        []string{"sh"},
		},
		{
			Repository: "library/alpine",
			Tags:       []string{"latest"},
			Files:      append(staticFiles(), busybox...),
			Cmd:        []string{"/bin/sh"},
		},
	}, nil
}

// Programs are the images with a program in them that is linked into the
// directory for a PATH.
func Programs(l layout.Layout) []Image {
	program := func(name string) Image {
		return Image{
			Repository: name,
			Tags:       []string{"latest"},
			Files:      append(staticFiles(), File{Path: name, Mode: 0o755, From: l.Bin(name)}),
			Entrypoint: []string{"/" + name},
			User:       nonroot,
		}
	}
	return []Image{program("coredns"), program("traefik"), program("local-path-provisioner")}
}

// staticFiles are what a statically linked program expects of a system.
func staticFiles() []File {
	return []File{
		{Path: "etc/passwd", Mode: 0o644, Content: "root:x:0:0:root:/root:/sbin/nologin\n" +
			"nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n" +
			"nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin\n"},
		{Path: "etc/group", Mode: 0o644, Content: "root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n"},
		{Path: "etc/nsswitch.conf", Mode: 0o644, Content: "hosts: files dns\n"},
		{Path: "etc/ssl/certs/ca-certificates.crt", Mode: 0o644, From: host.CACerts},
		{Path: "home/nonroot", Mode: 0o777},
		{Path: "root", Mode: 0o700},
		{Path: "tmp", Mode: 0o1777},
	}
}

// busyboxFiles are the binary, and a link for each of its applets.
func busyboxFiles() ([]File, error) {
	list, err := exec.Command(host.Busybox, "--list").Output()
	if err != nil {
		return nil, fmt.Errorf("listing busybox' applets: %w; is %s the one of the package busybox-static?", err, host.Busybox)
	}
	files := []File{{Path: "bin/busybox", Mode: 0o755, From: host.Busybox}}
	for _, applet := range strings.Fields(string(list)) {
		if applet != "busybox" {
			files = append(files, File{Path: "bin/" + applet, Mode: 0o777, Link: "busybox"})
		}
	}
	for _, dir := range []string{"usr/bin", "sbin", "usr/sbin", "var/tmp"} {
		files = append(files, File{Path: dir, Mode: 0o755})
	}
	return append(files, File{Path: "usr/bin/env", Mode: 0o777, Link: "/bin/busybox"}), nil // where scripts look for it
}
