// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"fmt"
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
		for _, d := range o.waits[name] {
			if found := visit(d.on); found != nil {
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
// of others, until it says that it is enough.
func (o *ordering) reaches(name string, enough func(string) bool) bool {
	seen, left := map[string]bool{}, []string{name}
	for len(left) > 0 {
		next := left[len(left)-1]
		left = left[:len(left)-1]
		for _, d := range o.waits[next] {
			if seen[d.on] {
				continue
			}
			if enough(d.on) {
				return true
			}
			seen[d.on], left = true, append(left, d.on)
		}
	}
	return false
}

// levels are the containers in groups: each waits for some of the group before its
// own, and for none in its own or a later one. There must be no cycle.
func (o *ordering) levels() (groups [][]string) {
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
		at := levelOf(name)
		for len(groups) <= at {
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], name)
	}
	return groups
}

// String is the graph in short: those that wait for nobody, then those that wait for
// them, "migrate, cache -> web"; of the first maxListed containers.
func (o *ordering) String() string {
	if o == nil {
		return ""
	}
	var b strings.Builder
	listed := 0
	for _, group := range o.levels() {
		for at, name := range group {
			if listed == maxListed {
				fmt.Fprintf(&b, ", and %d more", len(o.names)-maxListed)
				return b.String()
			}
			switch {
			case at > 0:
				b.WriteString(", ")
			case listed > 0:
				b.WriteString(arrow)
			}
			b.WriteString(name)
			listed++
		}
	}
	return b.String()
}
