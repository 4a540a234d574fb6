// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package host prepares the machine for a cluster, and tidies it afterwards:
// packages, the node's address, mounts, iptables rules, processes in pods.
package host

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
)

const elsewhere = "use kind where Docker can pull images: make demo CLUSTER=kind"

// CheckPlatform tells whether a cluster can run here at all.
func CheckPlatform() error {
	if runtime.GOOS != "linux" {
		return fmt.Errorf("starting a cluster on %q: it takes Linux; %s", runtime.GOOS, elsewhere)
	}
	if os.Geteuid() != 0 {
		return errors.New("starting a cluster: it takes root, for containers and iptables rules; run this as root, or " + elsewhere)
	}
	return nil
}

// HasCapability tells whether this process may use a capability, by its number
// in capabilities(7).
func HasCapability(number uint) bool {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return false
	}
	effective, err := parseCapabilities(string(status))
	return err == nil && effective&(1<<number) != 0
}

// CapSysResource allows to lower oom_score_adj.
const CapSysResource = 24

func parseCapabilities(status string) (effective uint64, err error) {
	for line := range strings.Lines(status) {
		if value, ok := strings.CutPrefix(line, "CapEff:"); ok {
			_, err := fmt.Sscanf(strings.TrimSpace(value), "%x", &effective)
			return effective, err
		}
	}
	return 0, errors.New("there is no line CapEff")
}

// Nameservers are the host's, without those on loopback addresses: in a pod,
// these would be the pod itself.
func Nameservers() []string {
	// Where systemd-resolved runs, /etc/resolv.conf names only its stub.
	for _, path := range []string{"/run/systemd/resolve/resolv.conf", "/etc/resolv.conf"} {
		if text, err := os.ReadFile(path); err == nil {
			return parseNameservers(string(text))
		}
	}
	return nil
}

func parseNameservers(resolvConf string) []string {
	var servers []string
	for line := range strings.Lines(resolvConf) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if server := fields[1]; !strings.HasPrefix(server, "127.") && server != "::1" {
			servers = append(servers, server)
		}
	}
	return servers
}
