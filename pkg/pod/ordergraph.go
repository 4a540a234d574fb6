// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
	"slices"
	"strings"
)

// arrow leads from a container to one that waits for it, or that it waits for.
const arrow = " -> "

// cycle is a way from a container back to itself, nil if there is none:
// a waits for b, b for c, c for a.
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

// reaches calls back for each container that this one waits for, if need be by way
// of others, until it says that it is enough. Of the container that reads what another
// one prints, that one waits for the supervisor only, and so for nobody further.
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

// levels are the containers in groups: each waits for some of the group before its
// own, and for none in its own or a later one. Those that neither wait nor are waited
// for are in none. There must be no cycle.
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

// String is the graph in short: those that wait for nobody, then those that wait for
// them, then the helpers, then the pipes, "migrate, cache -> web; proxy until web; a | b".
func (o *ordering) String() string {
	if o == nil {
		return ""
	}
	parts := append([]string{o.starts(), listed(o.helpers(), partSeparator)}, o.pipes.rows(o.names)...)
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), partSeparator)
}

// partSeparator comes between the parts of the graph in short.
const partSeparator = "; "

// starts are the groups in which containers start, of the first maxListed containers.
func (o *ordering) starts() string {
	var b strings.Builder
	count := 0
	for _, group := range o.levels() {
		for at, name := range group {
			switch {
			case count >= maxListed:
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
	if count > maxListed {
		fmt.Fprintf(&b, ", and %d more", count-maxListed)
	}
	return b.String()
}
