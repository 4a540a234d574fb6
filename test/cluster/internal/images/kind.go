// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package images

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
	"github.com/entrypointer/entrypointer/test/cluster/internal/registries"
)

// kindBase is the system of kind's nodes: Debian with systemd, as in images/base of
// kind's sources.
const kindBase = layout.Registry + "/kindest/base:latest"

// KindNode is the image of kind's nodes, of a version of Kubernetes.
func KindNode(version string) string { return layout.Registry + "/" + kindNode + ":" + version }

const kindNode = "kindest/node"

// kindPackages are those that kind's Dockerfile installs and that these tests need, and
// what it downloads besides: runc and the CNI plugins.
var kindPackages = []string{
	"bash", "ca-certificates", "conntrack", "containernetworking-plugins", "curl", "dbus", "e2fsprogs", "ethtool",
	"hostname", "iproute2", "iptables", "jq", "kmod", "libseccomp2", "mount", "nftables", "procps", "runc", "systemd", "util-linux",
}

// kindHook removes the units that kind's Dockerfile removes: a container has no
// terminals, no disks and no devices to set up.
const kindHook = `cd "$1" && rm -f usr/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service \
	usr/lib/systemd/system/multi-user.target.wants/* etc/systemd/system/*.wants/* \
	usr/lib/systemd/system/local-fs.target.wants/* usr/lib/systemd/system/basic.target.wants/* \
	usr/lib/systemd/system/sockets.target.wants/*udev* usr/lib/systemd/system/sockets.target.wants/*initctl*`

// PushKind pushes the image of kind's nodes and those of the control plane that kubeadm
// starts there, of a version of Kubernetes. The programs are linked into the directory
// for a PATH; sources is the directory of kind's module.
func PushKind(ctx context.Context, l layout.Layout, sources, version string) error {
	args, err := kindBaseArgs()
	if err != nil {
		return err
	}
	base := Image{Repository: "kindest/base", Tags: []string{"latest"}}
	err = base.pushFile(ctx, l, fmt.Sprintf("%q", args), func(ctx context.Context, w io.Writer) error { return writeKindBase(ctx, l, args, w) })
	if err != nil {
		return err
	}
	files, err := kindFiles(l, sources, version)
	if err != nil {
		return err
	}
	all := []Image{
		{
			Repository: kindNode, Tags: []string{version}, Base: kindBase, Files: files,
			Env:        []string{"container=docker"}, // systemd looks at it: systemd.io/CONTAINER_INTERFACE
			StopSignal: "SIGRTMIN+3",                 // systemd's
			Entrypoint: []string{"/usr/local/bin/entrypoint", "/sbin/init"},
		},
		{Repository: "kubernetes", Tags: []string{"latest"}, Base: kindBase, Files: kubernetesFiles(l)},
	}
	if err := Push(ctx, all); err != nil {
		return err
	}
	control, err := controlPlane(ctx, l, version)
	if err != nil {
		return err
	}
	return Push(ctx, control)
}

// kindBaseArgs are mmdebstrap's arguments.
func kindBaseArgs() ([]string, error) {
	args := []string{"--quiet", "--variant=minbase", "--mode=root", "--format=tar", "--include=" + strings.Join(kindPackages, ","), "--customize-hook=" + kindHook}
	for _, dir := range unneeded {
		args = append(args, "--dpkgopt=path-exclude=/"+dir+"/*")
	}
	suite, err := host.Suite()
	return append(args, suite, "-"), err
}

// writeKindBase writes the system as a tar archive.
func writeKindBase(ctx context.Context, l layout.Layout, args []string, w io.Writer) error {
	log := l.BuildLogs("kind-base.log")
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, host.Mmdebstrap, args...)
	cmd.Stdout, cmd.Stderr = w, out
	cmd.Env = append(os.Environ(), "TMPDIR="+l.Temporary())
	// It removes what it has written when it is asked to end.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 30 * time.Second
	if err := cmd.Run(); err != nil {
		return progress.WithLog(fmt.Errorf("running mmdebstrap: %w", err), log)
	}
	return nil
}

// kindFiles are kind's own, with the modes of its Dockerfile, and the programs.
func kindFiles(l layout.Layout, sources, version string) ([]File, error) {
	top := filepath.Join(sources, "images", "base", "files")
	var files []File
	err := filepath.WalkDir(top, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name, err := filepath.Rel(top, file)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if dir := path.Base(path.Dir(name)); dir == "bin" {
			mode = 0o755
		}
		files = append(files, File{Path: name, Mode: mode, From: file})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("reading the files of kind's nodes: %w", err)
	}
	for _, program := range []string{"containerd", "containerd-shim-runc-v2"} {
		files = append(files, File{Path: "usr/local/bin/" + program, Mode: 0o755, From: l.Bin(program)})
	}
	for _, program := range []string{"kubelet", "kubectl"} {
		files = append(files, File{Path: "usr/bin/" + program, Mode: 0o777, Link: "kubernetes"})
	}
	for _, unit := range []string{"kubelet", "containerd", "undo-mount-hacks"} {
		files = append(files, File{Path: "etc/systemd/system/multi-user.target.wants/" + unit + ".service", Mode: 0o777, Link: "/etc/systemd/system/" + unit + ".service"})
	}
	for _, plugin := range []string{"host-local", "loopback", "portmap", "ptp"} {
		files = append(files, File{Path: "opt/cni/bin/" + plugin, Mode: 0o777, Link: filepath.Join(host.CNIPlugins, plugin)})
	}
	hosts := registries.Hosts()
	for _, name := range slices.Sorted(maps.Keys(hosts)) {
		files = append(files, File{Path: "etc/containerd/certs.d/" + name, Mode: 0o644, Content: hosts[name]})
	}
	return append(files,
		File{Path: "usr/bin/kubernetes", Mode: 0o755, From: l.Bin("kubernetes")},
		File{Path: "usr/bin/kubeadm", Mode: 0o755, From: l.Bin("kubeadm")},
		// In front of Debian's, which is in /usr/sbin.
		File{Path: "usr/local/sbin/runc", Mode: 0o755, From: l.Bin("boundedrunc")},
		File{Path: "usr/sbin/init", Mode: 0o777, Link: "/usr/lib/systemd/systemd"},
		File{Path: "etc/systemd/system/systemd-binfmt.service", Mode: 0o777, Link: "/dev/null"}, // it would change the kernel's settings
		File{Path: "etc/systemd/journald.conf.d/kind.conf", Mode: 0o644, Content: "[Journal]\nReadKMsg=no\n"},
		File{Path: "etc/kubernetes/manifests", Mode: 0o755},
		File{Path: "kind/version", Mode: 0o644, Content: version},
	), nil
}

// components of a control plane, and kube-proxy, are one program by several names.
var components = []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler"}

func kubernetesFiles(l layout.Layout) []File {
	files := []File{{Path: "usr/local/bin/kubernetes", Mode: 0o755, From: l.Bin("kubernetes")}}
	for _, component := range components {
		files = append(files, File{Path: "usr/local/bin/" + component, Mode: 0o777, Link: "kubernetes"})
	}
	return files
}

// controlPlane are the images of the components, as kubeadm names them.
func controlPlane(ctx context.Context, l layout.Layout, version string) ([]Image, error) {
	list, err := exec.CommandContext(ctx, l.Bin("kubeadm"), "config", "images", "list",
		"--kubernetes-version="+version, "--image-repository="+layout.Registry).Output()
	if err != nil {
		return nil, fmt.Errorf("asking kubeadm for its images: %w", err)
	}
	return parseControlPlane(string(list))
}

func parseControlPlane(list string) ([]Image, error) {
	tags := map[string]string{}
	for _, reference := range strings.Fields(list) {
		repository, tag, _ := strings.Cut(strings.TrimPrefix(reference, layout.Registry+"/"), ":")
		tags[repository] = tag
	}
	var all []Image
	for _, component := range components {
		if tags[component] == "" {
			return nil, fmt.Errorf("asking kubeadm for its images: none of %q is the one of %s", strings.Fields(list), component)
		}
		all = append(all, Image{
			Repository: component, Tags: []string{tags[component]}, Base: layout.Registry + "/kubernetes:latest",
			Entrypoint: []string{"/usr/local/bin/" + component},
		})
	}
	return all, nil
}
