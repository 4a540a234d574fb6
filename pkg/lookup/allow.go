// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// AllowList says which registries may be asked. The zero value allows all.
type AllowList struct {
	// Everywhere holds for all namespaces, Namespaces adds to it for some. Both
	// empty allows all; as soon as one has an entry, only what is named is allowed.
	Everywhere []Pattern
	Namespaces map[string][]Pattern
}

// Pattern names a registry ("registry.example:5000"), all registries below a
// domain ("*.example"), or a part of a registry ("registry.example/team").
type Pattern struct{ host, path string }

// ParsePattern parses a pattern in the form that [Pattern] describes.
func ParsePattern(text string) (Pattern, error) {
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

// anyHost stands for the wildcard, which no name of a host may contain.
const anyHost = "any."

func parsePattern(text string) (Pattern, error) {
	host, path, _ := strings.Cut(text, "/")
	registry, err := name.NewRegistry(host, name.StrictValidation)
	if err != nil {
		return Pattern{}, err
	}
	// Whatever an image's name may begin with, it may do so before "/name".
	begun, err := parseReference(text + "/name")
	if err != nil {
		return Pattern{}, err
	}
	if begun.Context().RegistryStr() != registry.Name() {
		return Pattern{}, fmt.Errorf("%q is the beginning of a name, not of a registry", text)
	}
	return Pattern{host: registry.Name(), path: path}, nil
}

// String returns the pattern as it was written, with docker.io by its full name.
func (p Pattern) String() string { return strings.TrimSuffix(p.host+"/"+p.path, "/") }

func (p Pattern) matches(repository name.Repository) bool {
	host := repository.RegistryStr()
	domain, wild := strings.CutPrefix(p.host, "*")
	if host != p.host && (!wild || !strings.HasSuffix(host, domain)) {
		return false
	}
	return p.path == "" || strings.HasPrefix(repository.RepositoryStr()+"/", p.path+"/")
}

func (l AllowList) allows(namespace string, repository name.Repository) bool {
	if len(l.Everywhere) == 0 && len(l.Namespaces) == 0 {
		return true
	}
	matches := func(p Pattern) bool { return p.matches(repository) }
	return slices.ContainsFunc(l.Everywhere, matches) || slices.ContainsFunc(l.Namespaces[namespace], matches)
}

// Restrict answers queries for what the list allows. For anything else, no
// packet leaves.
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
	if !r.list.allows(query.Namespace, ref.Context()) {
		return nil, newError(query, &notAllowedError{what: fmt.Sprintf("repository %q", ref.Context().Name())})
	}
	return r.next.Lookup(ctx, query)
}
