// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"strings"
	"time"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/pkg/exitcodes"
)

// Each function here sets a flag's value. For an invalid value, it returns a hint that
// says what is valid.

func setMode(o *options, value string) string {
	if value != modeSupervise && value != modeExec {
		return "unknown mode: use " + modeSupervise + " or " + modeExec
	}
	o.mode = value
	return ""
}

func addPlatform(o *options, value string) string {
	if parts := strings.Split(value, "/"); len(parts) < 2 || len(parts) > 3 || slices.Contains(parts, "") {
		return "not a platform: use os/arch or os/arch/variant"
	}
	o.platforms = append(o.platforms, platformArgv{platform: normalize(value)})
	return ""
}

func addArg(o *options, value string) string {
	if len(o.platforms) == 0 {
		return "no -platform precedes it: put one before it"
	}
	last := &o.platforms[len(o.platforms)-1]
	last.argv = append(last.argv, value)
	return ""
}

// addFile returns the set function of a flag whose value is a path. It appends a
// file like the given one with that path.
func addFile(like await.File, list func(*options) *[]await.File) func(*options, string) string {
	return func(o *options, value string) string {
		like.Path = value
		*list(o) = append(*list(o), like)
		return absolute(value)
	}
}

func setUnlessShared(o *options, value string) string {
	o.waitUnlessShared = value
	return variableName(value)
}

func variableName(value string) string {
	if value == "" || strings.Contains(value, "=") {
		return "not a variable name: use one without ="
	}
	return ""
}

func addUnset(o *options, value string) string {
	o.env.unset = append(o.env.unset, value)
	return variableName(value)
}

func addEnvFile(o *options, value string) string {
	o.env.files = append(o.env.files, value)
	return absolute(value)
}

func addEnv(o *options, value string) string {
	o.env.set = append(o.env.set, value)
	if strings.Index(value, "=") <= 0 {
		return "not a variable: use NAME=VALUE"
	}
	return ""
}

func addPath(o *options, value string) string {
	o.env.path = append(o.env.path, value)
	if strings.Contains(value, ":") {
		return "not a directory for PATH: use one without a colon"
	}
	return absolute(value)
}

func addHook(o *options, value string) string {
	o.hooks = append(o.hooks, []string{value})
	return ""
}

func addHookArg(o *options, value string) string {
	if len(o.hooks) == 0 {
		return "no -before-start precedes it: put one before it"
	}
	last := &o.hooks[len(o.hooks)-1]
	*last = append(*last, value)
	return ""
}

func setSuccesses(o *options, value string) string {
	codes, ok := exitcodes.Parse(value)
	if !ok {
		return "use " + exitcodes.Syntax
	}
	o.successes = codes
	return ""
}

func setPause(o *options, value string) string {
	o.pause = strings.Split(value, ",")
	for _, place := range o.pause {
		if place != pauseBeforeStart && place != pauseAfterFailure {
			return "unknown place: use " + pauseBeforeStart + ", " + pauseAfterFailure + " or both with a comma"
		}
	}
	return ""
}

func setDuration(field func(*options) *time.Duration) func(*options, string) string {
	return func(o *options, value string) string {
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return "not a duration: use a number above zero with a unit, such as 90s or 1h30m"
		}
		*field(o) = d
		return ""
	}
}

func setPath(field func(*options) *string) func(*options, string) string {
	return func(o *options, value string) string {
		*field(o) = value
		return absolute(value)
	}
}

// absolute checks that path doesn't depend on the working directory.
func absolute(path string) (hint string) {
	if !strings.HasPrefix(path, "/") {
		return "not an absolute path: use one that begins with /"
	}
	return ""
}
