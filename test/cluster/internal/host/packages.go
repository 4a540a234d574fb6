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
)

// packages are Debian's, each with a file that tells that it is installed.
var packages = []struct{ name, file string }{
	{"runc", "/usr/sbin/runc"},
	{"iptables", "/usr/sbin/iptables-restore"},
	{"iproute2", "/usr/sbin/ip"},
	{"containernetworking-plugins", CNIPlugins + "/ptp"},
	{"busybox-static", Busybox},
	{"catatonit", Catatonit},
	{"ca-certificates", CACerts},
}

// InstallPackages installs what is missing, on Debian; elsewhere it says how.
func InstallPackages(ctx context.Context, log string) error {
	var missing []string
	for _, p := range packages {
		if _, err := os.Stat(p.file); err != nil {
			missing = append(missing, p.name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	command := append([]string{"apt-get", "install", "-y", "--no-install-recommends"}, missing...)
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("looking for packages: %s missing, and there is no apt-get to install them; on Debian it would be %q",
			strings.Join(missing, ", "), strings.Join(command, " "))
	}
	return progress.Step("installing "+strings.Join(missing, ", "), func() error {
		return progress.WithLog(apt(ctx, log, []string{"apt-get", "update"}, command), log)
	})
}

func apt(ctx context.Context, log string, commands ...[]string) error {
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
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("running %q: %w", strings.Join(command, " "), err)
		}
	}
	return nil
}
