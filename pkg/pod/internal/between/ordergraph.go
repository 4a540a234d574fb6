// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"fmt"
	"slices"
	"strings"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// arrow stands between a container and a container that waits for it.
const arrow = " -> "

// cycle returns a path from a container back to itself, nil if there is none: a waits for
// b, b for c, c for a.
func (o *ordering) cycle() []string {
	const unseen, onTheWay, done = 0, 1, 2
	state, way := map[string]int{}, []string{}
	var visit func(name string) []string
	visit = func(name string) []string {
		switch state[name] {
		case done:
			return nil
		case onTheWay:
			for at, before := range way {
				if before == name {
					return append(way[at:], name)
				}
			}
		}
		state[name], way = onTheWay, append(way, name)
		for _, other := range o.needs(name) {
			if found := visit(other); found != nil {
				return found
			}
		}
		state[name], way = done, way[:len(way)-1]
		return nil
	}
	for _, name := range o.names {
		if state[name] == unseen {
			if found := visit(name); found != nil {
				return found
			}
		}
	}
	return nil
}

// reaches calls enough for each container for which this container waits, directly or
// through other containers, until enough returns true. A container that reads another
// container's output waits only for the supervisor of that container, and so for no
// further container.
func (o *ordering) reaches(name string, enough func(string) bool) bool {
	seen, left := map[string]bool{}, []string{name}
	for len(left) > 0 {
		next := left[len(left)-1]
		left = left[:len(left)-1]
		if reader := o.pipes.readers[next]; reader != "" && enough(reader) {
			return true
		}
		for _, other := range o.needs(next) {
			if seen[other] {
				continue
			}
			if enough(other) {
				return true
			}
			seen[other], left = true, append(left, other)
		}
	}
	return false
}

// levels returns the containers in groups. Each container waits for a container of the
// group before its own, and for none in its own or a later group. Containers without
// dependencies in either direction are in no group. The graph must have no cycle.
func (o *ordering) levels() (groups [][]string) {
	linked := map[string]bool{}
	for name, dependencies := range o.waits {
		for _, d := range dependencies {
			linked[name], linked[d.on] = true, true
		}
	}
	level := map[string]int{}
	var levelOf func(name string) int
	levelOf = func(name string) int {
		if known, ok := level[name]; ok {
			return known
		}
		highest := 0
		for _, d := range o.waits[name] {
			highest = max(highest, 1+levelOf(d.on))
		}
		level[name] = highest
		return highest
	}
	for _, name := range o.names {
		if !linked[name] {
			continue
		}
		at := levelOf(name)
		for len(groups) <= at {
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], name)
	}
	return groups
}

// String returns the graph in its short form: the containers that wait for none, those
// that wait for them, the helpers, and the pipes, as in "migrate, cache -> web; proxy
// until web; a | b".
func (o *ordering) String() string {
	if o == nil {
		return ""
	}
	parts := append([]string{o.starts(), text.Listed(o.helpers(), partSeparator)}, o.pipes.rows(o.names)...)
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), partSeparator)
}

// partSeparator separates the parts of the short form.
const partSeparator = "; "

// starts returns the groups in which containers start, of the first text.MaxListed containers.
func (o *ordering) starts() string {
	var b strings.Builder
	count := 0
	for _, group := range o.levels() {
		for at, name := range group {
			switch {
			case count >= text.MaxListed:
			case at > 0:
				b.WriteString(", " + name)
			case count > 0:
				b.WriteString(arrow + name)
			default:
				b.WriteString(name)
			}
			count++
		}
	}
	if count > text.MaxListed {
		fmt.Fprintf(&b, ", and %d more", count-text.MaxListed)
	}
	return b.String()
}
