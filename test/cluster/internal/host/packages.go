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

	"github.com/entrypointer/entrypointer/test/cluster/internal/progress"
)

// Where Debian's packages put what we use.
const (
	CNIPlugins = "/usr/lib/cni"
	Busybox    = "/bin/busybox"
	Catatonit  = "/usr/bin/catatonit"
	CACerts    = "/etc/ssl/certs/ca-certificates.crt"

	Dockerd          = "dockerd"
	DockerContainerd = "/usr/bin/containerd"
	Mmdebstrap       = "mmdebstrap"
)

// Package is a package of Debian's.
type Package struct {
	name string
	file string // tells that it is installed; the name of a program may be anywhere on the PATH
	// service is that it starts one where systemd runs.
	service bool
}

// Packages are those that every cluster takes.
var Packages = []Package{
	{name: "runc", file: "/usr/sbin/runc"},
	{name: "iptables", file: "/usr/sbin/iptables-restore"},
	{name: "iproute2", file: "/usr/sbin/ip"},
	{name: "containernetworking-plugins", file: CNIPlugins + "/ptp"},
	{name: "busybox-static", file: Busybox},
	{name: "catatonit", file: Catatonit},
	{name: "ca-certificates", file: CACerts},
}

// KindPackages are those that a cluster of kind takes besides.
var KindPackages = []Package{
	{name: "docker.io", file: Dockerd, service: true},
	{name: "containerd", file: DockerContainerd, service: true},
	{name: "mmdebstrap", file: Mmdebstrap},
}

// InstallPackages installs what is missing, on Debian; elsewhere it says how.
func InstallPackages(ctx context.Context, log string, packages []Package) error {
	var missing, services []string
	for _, p := range packages {
		if _, err := exec.LookPath(p.file); err == nil {
			continue
		} else if _, err := os.Stat(p.file); err == nil {
			continue
		}
		missing = append(missing, p.name)
		if p.service {
			services = append(services, p.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	// A package of somebody else's that is in the way stays.
	command := append([]string{"apt-get", "install", "-y", "--no-remove", "--no-install-recommends", "-o", "Acquire::Retries=3"}, missing...)
	if _, err := os.Stat("/run/systemd/system"); err == nil && len(services) > 0 { // sd_booted(3)
		return fmt.Errorf("looking for packages: %s missing, and would start a service on this machine; install what is missing yourself: %q",
			strings.Join(services, ", "), strings.Join(command, " "))
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("looking for packages: %s missing, and there is no apt-get to install them; on Debian it would be %q",
			strings.Join(missing, ", "), strings.Join(command, " "))
	}
	return progress.Step("installing "+strings.Join(missing, ", "), func() error {
		return progress.WithLog(apt(ctx, log, "", []string{"apt-get", "update"}, command), log)
	})
}

// UnpackPackage downloads a package, but none that it depends on, and unpacks
// its files into a directory that appears when they are complete. Nothing is
// installed, and no service started.
func UnpackPackage(ctx context.Context, name, dir, log string) error {
	if _, err := os.Stat(dir); err == nil {
		return nil
	}
	if !HasPackages() {
		return fmt.Errorf("looking for packages: %s is missing, and there is no apt-get to download it", name)
	}
	return progress.Step("downloading "+name, func() error {
		return progress.WithLog(unpackPackage(ctx, name, dir, log), log)
	})
}

func unpackPackage(ctx context.Context, name, dir, log string) error {
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return err
	}
	download := []string{"apt-get", "download", "-o", "Acquire::Retries=3", "-o", "APT::Sandbox::User=root", name}
	// The lists of packages may be missing or outdated; they are fetched only then.
	if err := apt(ctx, log, partial, download); err != nil {
		if err := apt(ctx, log, partial, []string{"apt-get", "update"}, download); err != nil {
			return err
		}
	}
	files, err := filepath.Glob(filepath.Join(partial, name+"_*.deb"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("downloading %s: %d files came (%w)", name, len(files), err)
	}
	if err := apt(ctx, log, partial, []string{"dpkg-deb", "--extract", files[0], "."}, []string{"rm", files[0]}); err != nil {
		return err
	}
	return os.Rename(partial, dir)
}

// Suite is the name of this machine's release of Debian, such as bookworm.
func Suite() (string, error) {
	const file = "/etc/os-release" // os-release(5)
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "VERSION_CODENAME="); ok {
			return strings.Trim(name, `"`), nil
		}
	}
	return "", fmt.Errorf("looking for the name of Debian's release: %s has no VERSION_CODENAME", file)
}

// apt runs commands in a directory, or in the current one if none is named.
func apt(ctx context.Context, log, dir string, commands ...[]string) error {
	if err := os.MkdirAll(filepath.Dir(log), 0o755); err != nil {
		return err
	}
	out, err := os.Create(log)
	if err != nil {
		return err
	}
	defer out.Close()
	for _, command := range commands {
		cmd := exec.CommandContext(ctx, command[0], command[1:]...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("running %q: %w", strings.Join(command, " "), err)
		}
	}
	return nil
}

// registryPackage has the image registry of the distribution project. It would
// start a service if it were installed.
const registryPackage = "docker-registry"

// LinkRegistry links the image registry, which is the one that is installed,
// or else one that is unpacked into a directory.
func LinkRegistry(ctx context.Context, dir, at, log string) error {
	binary, err := exec.LookPath(registryPackage)
	if err != nil {
		if err := UnpackPackage(ctx, registryPackage, dir, log); err != nil {
			return err
		}
		binary = filepath.Join(dir, "usr", "bin", registryPackage)
	}
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		return err
	}
	return Link(binary, at)
}
