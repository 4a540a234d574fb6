// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// AllowList lists the registries that lookups may ask. The zero value allows all.
type AllowList struct {
	// Everywhere applies to all namespaces, and Namespaces adds to it for single
	// namespaces. An empty list allows all registries; a list with an entry allows only
	// the registries that it names.
	Everywhere []Pattern
	Namespaces map[string][]Pattern
}

// Pattern names a registry ("registry.example:5000"), all registries below a
// domain ("*.example"), a part of a registry ("registry.example/team"), or all
// registries ("*").
type Pattern struct{ host, path string }

// ParsePattern parses a pattern in the form that [Pattern] describes.
func ParsePattern(text string) (Pattern, error) {
	if text == anyRegistry {
		return Pattern{host: anyRegistry}, nil
	}
	concrete := text
	domain, wild := strings.CutPrefix(text, "*.")
	if wild {
		concrete = anyHost + domain
	}
	pattern, err := parsePattern(concrete)
	if err != nil {
		return Pattern{}, fmt.Errorf("%q is no registry, such as \"registry.example:5000\", \"*.example\" or \"registry.example/team\"", text)
	}
	if wild {
		pattern.host = "*." + strings.TrimPrefix(pattern.host, anyHost)
	}
	return pattern, nil
}

// anyRegistry is the pattern of all registries.
const anyRegistry = "*"

// anyHost stands for the wildcard, which can't occur in the name of a host.
const anyHost = "any."

func parsePattern(text string) (Pattern, error) {
	host, path, _ := strings.Cut(text, "/")
	registry, err := name.NewRegistry(host, name.StrictValidation)
	if err != nil {
		return Pattern{}, err
	}
	// A pattern is valid if "/name" makes it the name of an image.
	begun, err := parseReference(text + "/name")
	if err != nil {
		return Pattern{}, err
	}
	if begun.RegistryStr() != registry.Name() {
		return Pattern{}, fmt.Errorf("%q is the beginning of a name, not of a registry", text)
	}
	return Pattern{host: registry.Name(), path: path}, nil
}

// String returns the pattern as it was written, with docker.io by its full name.
func (p Pattern) String() string { return strings.TrimSuffix(p.host+"/"+p.path, "/") }

func (p Pattern) matches(repository name.Repository) bool {
	return p.matchesHost(repository.RegistryStr()) && (p.path == "" || strings.HasPrefix(repository.RepositoryStr()+"/", p.path+"/"))
}

func (p Pattern) matchesHost(host string) bool {
	domain, wild := strings.CutPrefix(p.host, "*")
	return host == p.host || wild && strings.HasSuffix(host, domain)
}

func (l AllowList) allows(namespace string, repository name.Repository) bool {
	if len(l.Everywhere) == 0 && len(l.Namespaces) == 0 {
		return true
	}
	matches := func(p Pattern) bool { return p.matches(repository) }
	return l.has(namespace, matches)
}

// Allows reports whether pods of a namespace may have an image. An invalid reference
// isn't allowed.
func (l AllowList) Allows(namespace, image string) bool {
	ref, err := parseReference(image)
	return err == nil && l.allows(namespace, ref.Repository)
}

// AllowsSomewhere reports whether an image is allowed in at least one namespace, which
// may not exist yet.
func (l AllowList) AllowsSomewhere(image string) bool {
	if l.Allows("", image) {
		return true
	}
	for namespace := range l.Namespaces {
		if l.Allows(namespace, image) {
			return true
		}
	}
	return false
}

// allowsHost reports whether any part of a registry is allowed.
func (l AllowList) allowsHost(namespace, host string) bool {
	return l.has(namespace, func(p Pattern) bool { return p.matchesHost(host) })
}

func (l AllowList) has(namespace string, matches func(Pattern) bool) bool {
	return slices.ContainsFunc(l.Everywhere, matches) || slices.ContainsFunc(l.Namespaces[namespace], matches)
}

// maxAllowedShown is the number of patterns that an error shows.
const maxAllowedShown = 8

// allowedIn describes, for an error, the registries that a namespace may use.
func (l AllowList) allowedIn(namespace string) string {
	var shown []string
	all := slices.Concat(l.Namespaces[namespace], l.Everywhere)
	for _, pattern := range all[:min(len(all), maxAllowedShown)] {
		shown = append(shown, shorten(pattern.String()))
	}
	switch more := len(all) - len(shown); {
	case len(all) == 0:
		return "no registry is allowed in this namespace"
	case more > 0:
		return fmt.Sprintf("allowed in this namespace: %s, and %d more", strings.Join(shown, ", "), more)
	}
	return "allowed in this namespace: " + strings.Join(shown, ", ")
}

// hosts returns the hosts that the list names, with the ports that are named. A wildcard
// names none.
func (l AllowList) hosts() (hosts authorities) {
	for _, patterns := range append(slices.Collect(maps.Values(l.Namespaces)), l.Everywhere) {
		for _, pattern := range patterns {
			if !strings.HasPrefix(pattern.host, "*") {
				hosts = append(hosts, pattern.host)
			}
		}
	}
	return hosts
}

// Restrict passes on the queries that the list allows. It refuses all others without
// network traffic.
func Restrict(next Lookuper, list AllowList) Lookuper { return &restricted{next: next, list: list} }

type restricted struct {
	next Lookuper
	list AllowList
}

// Lookup implements Lookuper.
func (r *restricted) Lookup(ctx context.Context, query Query) (*Image, error) {
	ref, err := parseReference(query.Image)
	if err != nil {
		return nil, &Error{Query: query, Reason: InvalidReference, Err: err}
	}
	if !r.list.allows(query.Namespace, ref.Repository) {
		return nil, newError(query, &notAllowedError{what: fmt.Sprintf("repository %q", ref.Name()), instead: r.list.allowedIn(query.Namespace)})
	}
	return r.next.Lookup(ctx, query)
}
