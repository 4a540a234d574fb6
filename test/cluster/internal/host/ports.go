// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// CheckPort tells who listens where one of our processes wants to.
func CheckPort(address string) error {
	listener, err := net.Listen("tcp", address)
	if err == nil {
		return listener.Close()
	}
	_, port, splitErr := net.SplitHostPort(address)
	if splitErr != nil {
		return splitErr
	}
	holder := "a process that is not this cluster's"
	if pid, name := listenerOn(port); pid != 0 {
		holder = fmt.Sprintf("process %d (%s), which is not this cluster's", pid, name)
	}
	return fmt.Errorf("listening on %q: %w; %s holds the port: end it, then try again", address, err, holder)
}

// listenerOn finds the process that listens on a TCP port: its socket's inode
// is in /proc/net/tcp, and among the process' open files.
func listenerOn(port string) (pid int, name string) {
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for _, inode := range listeners(string(text), port) {
			links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
			for _, link := range links {
				if to, err := os.Readlink(link); err == nil && to == "socket:["+inode+"]" {
					dir := filepath.Dir(filepath.Dir(link))
					comm, _ := os.ReadFile(filepath.Join(dir, "comm"))
					pid, _ := strconv.Atoi(filepath.Base(dir))
					return pid, strings.TrimSpace(string(comm))
				}
			}
		}
	}
	return 0, ""
}

// listeners returns the inodes of the sockets that listen on a port, from the
// text of /proc/net/tcp: "sl local_address rem_address st ... inode ...",
// addresses and states in hexadecimal, 0A for listening.
func listeners(table, port string) []string {
	number, err := strconv.Atoi(port)
	if err != nil {
		return nil
	}
	suffix := fmt.Sprintf(":%04X", number)
	var inodes []string
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) > 9 && strings.HasSuffix(fields[1], suffix) && fields[3] == "0A" {
			inodes = append(inodes, fields[9])
		}
	}
	return inodes
}
