// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strings"
)

// AddAddress makes the node's address one of the loopback interface's.
func AddAddress(ctx context.Context, nodeIP string) error {
	if has, err := hasAddress(nodeIP); err != nil || has {
		return err
	}
	return ip(ctx, "address", "add", nodeIP+"/32", "dev", "lo")
}

// RemoveAddress takes it away again.
func RemoveAddress(ctx context.Context, nodeIP string) error {
	if has, err := hasAddress(nodeIP); err != nil || !has {
		return err
	}
	return ip(ctx, "address", "del", nodeIP+"/32", "dev", "lo")
}

// AddRoute lets this machine reach the services' addresses where it has no
// default route: a packet to one needs some route before kube-proxy's rules
// give it another destination. The route goes with the node's address.
func AddRoute(ctx context.Context, serviceCIDR, nodeIP string) error {
	return ip(ctx, "route", "replace", serviceCIDR, "dev", "lo", "src", nodeIP)
}

func hasAddress(wanted string) (bool, error) {
	loopback, err := net.InterfaceByName("lo")
	if err != nil {
		return false, fmt.Errorf("looking for the address %q: %w", wanted, err)
	}
	addresses, err := loopback.Addrs()
	if err != nil {
		return false, fmt.Errorf("looking for the address %q: %w", wanted, err)
	}
	for _, address := range addresses {
		if n, ok := address.(*net.IPNet); ok && n.IP.String() == wanted {
			return true, nil
		}
	}
	return false, nil
}

// RemoveRules removes the chains that kube-proxy, the kubelet and the CNI
// plugins made, and what jumps there, and no other rule.
func RemoveRules(ctx context.Context) error {
	for _, family := range []string{"iptables", "ip6tables"} {
		if _, err := exec.LookPath(family + "-save"); err != nil {
			continue // Nothing made rules without it.
		}
		saved, err := exec.CommandContext(ctx, family+"-save").Output()
		if err != nil {
			if family == "ip6tables" {
				continue // The kernel may have no IPv6.
			}
			return fmt.Errorf("running %q: %w", family+"-save", err)
		}
		script := removal(string(saved))
		if script == "" {
			continue
		}
		restore := exec.CommandContext(ctx, family+"-restore", "--noflush")
		restore.Stdin = strings.NewReader(script)
		if out, err := restore.CombinedOutput(); err != nil {
			return fmt.Errorf("removing Kubernetes' rules with %s-restore: %w: %s", family, err, out)
		}
	}
	return nil
}

// removal turns what iptables-save says into a script for iptables-restore
// --noflush that removes our chains: for each table, it empties them (naming a
// chain does), deletes the rules of others that jump there, and deletes them.
func removal(saved string) string {
	var script strings.Builder
	var table string
	var chains, empty, jumps []string
	for line := range strings.Lines(saved) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table, chains, empty, jumps = line, nil, nil, nil
		case strings.HasPrefix(line, ":"):
			if chain := strings.Fields(line[1:])[0]; isOurs(chain) {
				chains, empty = append(chains, "-X "+chain), append(empty, ":"+chain+" - [0:0]")
			}
		case strings.HasPrefix(line, "-A "):
			if chain := strings.Fields(line)[1]; !isOurs(chain) && isOurs(target(line)) {
				jumps = append(jumps, "-D "+strings.TrimPrefix(line, "-A "))
			}
		case line == "COMMIT" && len(chains) > 0:
			for _, part := range [][]string{{table}, empty, jumps, chains, {"COMMIT"}} {
				if len(part) > 0 {
					script.WriteString(strings.Join(part, "\n") + "\n")
				}
			}
		}
	}
	return script.String()
}

// quoted matches an argument with blanks, a comment mostly.
var quoted = regexp.MustCompile(`"(\\.|[^"\\])*"`)

// target is where an iptables rule jumps to.
func target(rule string) string {
	fields := strings.Fields(quoted.ReplaceAllString(rule, "quoted"))
	for i, field := range fields[:len(fields)-1] {
		if field == "-j" || field == "-g" {
			return fields[i+1]
		}
	}
	return ""
}

func isOurs(chain string) bool {
	return strings.HasPrefix(chain, "KUBE-") || strings.HasPrefix(chain, "CNI-")
}

// RemoveLinks removes the network interfaces of pods, or the bridge to kind's nodes: they
// have an address in that range on this end. A cluster that was here before may have left some.
func RemoveLinks(ctx context.Context, podCIDR string) error {
	_, pods, err := net.ParseCIDR(podCIDR)
	if err != nil {
		return err
	}
	links, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("looking for pods' network interfaces: %w", err)
	}
	for _, link := range links {
		addresses, _ := link.Addrs() // It may just have gone.
		for _, address := range addresses {
			n, ok := address.(*net.IPNet)
			if !ok || !pods.Contains(n.IP) {
				continue
			}
			if !strings.HasPrefix(link.Name, "veth") && !strings.HasPrefix(link.Name, "cni") && !strings.HasPrefix(link.Name, "kind") {
				return fmt.Errorf("making room for pods: the interface %q has the address %s, in the pods' range %s; take it away, then try again", link.Name, n, podCIDR)
			}
			// With its pod's last process the kernel may remove it before we do.
			if err := ip(ctx, "link", "delete", link.Name); err != nil && linkExists(link.Name) {
				return err
			}
			break
		}
	}
	return nil
}

func linkExists(name string) bool {
	_, err := net.InterfaceByName(name)
	return err == nil
}

// ip changes addresses, routes and links.
func ip(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("running %q: %w: %s", "ip "+strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
