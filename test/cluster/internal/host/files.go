// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// CNINetwork names the pods' network, and so the files that CNI keeps about it.
const CNINetwork = "entrypointer"

// RemoveFiles removes the files that components keep in directories which
// can't be configured, after a crash mostly. The state directory is the
// cluster's; bundles is where containerd keeps those of containers, in it.
func RemoveFiles(state, bundles string) error {
	leftovers := linksInto("/var/log/containers", state)
	results, _ := filepath.Glob("/var/lib/cni/results/" + CNINetwork + "-*")
	leftovers = append(leftovers, results...)
	leftovers = append(leftovers, shimSockets(bundles)...)
	for _, path := range leftovers {
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("removing what a pod left: %w", err)
		}
	}
	return nil
}

// linksInto returns the symbolic links in a directory that lead into another.
func linksInto(dir, target string) []string {
	entries, _ := os.ReadDir(dir)
	var links []string
	for _, entry := range entries {
		link := filepath.Join(dir, entry.Name())
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, target+"/") {
			links = append(links, link)
		}
	}
	return links
}

// shimSockets returns the sockets of the shims that have a bundle: each says
// in bootstrap.json where its shim listens, and before containerd 2 in address.
func shimSockets(bundles string) []string {
	files, _ := filepath.Glob(filepath.Join(bundles, "*", "bootstrap.json"))
	addresses, _ := filepath.Glob(filepath.Join(bundles, "*", "address"))
	var sockets []string
	for _, file := range append(files, addresses...) {
		text, _ := os.ReadFile(file)
		bootstrap := struct{ Address string }{string(text)}
		if filepath.Ext(file) == ".json" && json.Unmarshal(text, &bootstrap) != nil {
			continue
		}
		if socket, ok := strings.CutPrefix(bootstrap.Address, "unix://"); ok {
			sockets = append(sockets, socket)
		}
	}
	return sockets
}

// Link makes a symbolic link to a file, in place of one that is there: at no
// time is there none.
func Link(target, at string) error {
	if is, err := os.Readlink(at); err == nil && is == target {
		return nil
	}
	temporary := at + ".new"
	_ = os.Remove(temporary)
	if err := os.Symlink(target, temporary); err != nil {
		return err
	}
	return os.Rename(temporary, at)
}
