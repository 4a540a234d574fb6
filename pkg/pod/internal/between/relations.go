// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"path"
	"strings"
)

// A Relation is what a container has to do with another one, or with a URL.
type Relation struct {
	// Option is the option that made it: depends-on, stop-when, stdin or wait-for.
	Option string
	// Container has the option, and On is the other container or the URL.
	Container, On string
	// Condition is that of depends-on and stop-when, "" for the others.
	Condition string
}

// RelationsOf reads the relations of a container in the flags that a plan gave it.
func RelationsOf(container string, flags []string) (all []Relation) {
	for _, flag := range flags {
		name, value, _ := strings.Cut(flag, "=")
		condition, dir, _ := strings.Cut(value, ":")
		switch name + "=" {
		case dependsOnFlag:
			all = append(all, Relation{DependsOn, container, path.Base(dir), condition})
		case stopWhenFlag:
			all = append(all, Relation{StopWhen, container, path.Base(dir), condition})
		case stdinFromFlag:
			all = append(all, Relation{Stdin, container, path.Base(value), ""})
		case waitForFlag:
			all = append(all, Relation{WaitFor, container, value, ""})
		}
	}
	return all
}
