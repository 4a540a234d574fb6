// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"fmt"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// Mirrors lists, for each registry, the mirrors to ask before it, in order. A mirror may
// have a path: with "index.docker.io" -> "mirror.example/hub", the image busybox is
// looked up as mirror.example/hub/library/busybox.
//
// Credentials are selected by the mirror's own name. A mirror never gets the registry's
// credentials.
type Mirrors map[string][]string

// Add appends mirrors of a registry.
func (m Mirrors) Add(registry string, mirrors ...string) error {
	parsed, err := name.NewRegistry(registry)
	if err != nil || registry == "" {
		return fmt.Errorf("%q is no registry, such as \"docker.io\" or \"registry.example:5000\"", registry)
	}
	for _, mirror := range mirrors {
		if _, err := parsePattern(mirror); err != nil {
			return fmt.Errorf("%q is no mirror, such as \"mirror.example:5000\" or \"mirror.example/hub\"", mirror)
		}
	}
	m[parsed.Name()] = append(m[parsed.Name()], mirrors...)
	return nil
}

// maxRepositoryBytes is the longest name of a repository
// (https://github.com/distribution/reference).
const maxRepositoryBytes = 255

// of returns the references at the mirrors for ref.
func (m Mirrors) of(ref reference) []reference {
	mirrors := m[ref.RegistryStr()]
	refs := make([]reference, 0, len(mirrors))
	for _, mirror := range mirrors {
		host, path, _ := strings.Cut(mirror, "/")
		registry, err := name.NewRegistry(host)
		repository := registry.Repo(path, ref.RepositoryStr())
		if err != nil || len(repository.RepositoryStr()) > maxRepositoryBytes {
			continue // the mirror has no such image
		}
		refs = append(refs, ref.in(repository))
	}
	return refs
}

// hosts returns the hosts of the mirrors, with the ports that are named.
func (m Mirrors) hosts() authorities {
	var hosts authorities
	for _, mirrors := range m {
		for _, mirror := range mirrors {
			host, _, _ := strings.Cut(mirror, "/")
			hosts = append(hosts, host)
		}
	}
	return hosts
}
