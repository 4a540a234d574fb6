// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launch

import (
	"slices"
	"strconv"
	"strings"

	"github.com/entrypointer/entrypointer/internal/files"
	"github.com/entrypointer/entrypointer/internal/proc"
	"github.com/entrypointer/entrypointer/internal/supervisor/cmdline"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

// maxEnvFile limits the size of a file of variables, in bytes. The kernel limits argv
// and the environment together to a quarter of the stack's limit, 2 MiB by default.
const maxEnvFile = 1 << 20

// Edits are the differences between the supervisor's environment and the
// command's. They apply in this order.
type Edits struct {
	Unset []string // names
	Files []string // paths
	Set   []string // NAME=VALUE
	Path  []string // directories, for the end of PATH
	// What the supervisor unsets and sets by itself, also if files set it.
	LastUnset, Last []string
}

// Flags adds the flags that set e.
func (e *Edits) Flags(f *cmdline.Flags) {
	f.Add("unset-env", "NAME", `Remove this variable from the command's environment. May be repeated.`, e.addUnset)
	f.Add("env-file", "PATH", `Set the variables of this file, one NAME=VALUE per line. Empty lines and
lines that begin with # are skipped. May be repeated.`, cmdline.Paths(&e.Files))
	f.Add("env", "NAME=VALUE", `Set a variable, after -unset-env and -env-file. May be repeated.`, e.add)
	f.Add("append-path", "DIRECTORY", `Add a directory to the end of PATH, unless PATH contains it. May be
repeated.`, e.addPath)
}

func (e *Edits) addUnset(name string) string {
	e.Unset = append(e.Unset, name)
	return CheckName(name)
}

// CheckName checks the name of a variable.
func CheckName(name string) (hint string) {
	if name == "" || strings.Contains(name, "=") {
		return "not a variable name: use one without ="
	}
	return ""
}

func (e *Edits) add(variable string) string {
	e.Set = append(e.Set, variable)
	if strings.Index(variable, "=") <= 0 {
		return "not a variable: use NAME=VALUE"
	}
	return ""
}

func (e *Edits) addPath(directory string) string {
	e.Path = append(e.Path, directory)
	if strings.Contains(directory, ":") {
		return "not a directory for PATH: use one without a colon"
	}
	return cmdline.Absolute(directory)
}

// ExceptFiles returns the edits that don't depend on files.
func (e *Edits) ExceptFiles() *Edits {
	others := *e
	others.Files = nil
	return &others
}

// Apply returns the environment with the edits applied. Without edits, it returns the
// same bytes.
func (e *Edits) Apply(env []string) ([]string, error) {
	env = unsetVariables(env, e.Unset)
	var variables []string
	for _, path := range e.Files {
		read, err := readEnvFile(path)
		if err != nil {
			return nil, err
		}
		variables = append(variables, read...)
	}
	env = appendPath(setVariables(env, append(variables, e.Set...)), e.Path)
	return setVariables(unsetVariables(env, e.LastUnset), e.Last), nil
}

// appendPath adds directories to the end of PATH. If PATH is unset, it starts from the
// default, which InPath would search.
func appendPath(env, directories []string) []string {
	list := searchPath(env)
	before := list
	for _, directory := range directories {
		if !slices.Contains(strings.Split(list, ":"), directory) {
			list += ":" + directory
		}
	}
	if list == before {
		return env
	}
	return setVariables(env, []string{"PATH=" + list})
}

func unsetVariables(env, names []string) []string {
	for _, name := range names {
		env = slices.DeleteFunc(env, func(kv string) bool { return isVariable(kv, name) })
	}
	return env
}

func isVariable(kv, name string) bool {
	return strings.HasPrefix(kv, name) && strings.HasPrefix(kv[len(name):], "=")
}

// setVariables sets variables. Each replaces the first variable of its name and removes
// the others of that name, or is appended. If variables has a name twice, the last
// value counts.
func setVariables(env, variables []string) []string {
	if len(variables) == 0 {
		return env
	}
	values := make(map[string]string, len(variables)) // by name; "" once the variable is placed
	for _, kv := range variables {
		values[nameOf(kv)] = kv
	}
	all := make([]string, 0, len(env)+len(values))
	place := func(name string) {
		if kv := values[name]; kv != "" {
			all = append(all, kv)
			values[name] = ""
		}
	}
	for _, kv := range env {
		name := nameOf(kv)
		if _, set := values[name]; set && name != kv {
			place(name)
		} else {
			all = append(all, kv)
		}
	}
	for _, kv := range variables {
		place(nameOf(kv))
	}
	return all
}

// nameOf returns the part before the first =, or all of kv if there is none.
func nameOf(kv string) string {
	name, _, _ := strings.Cut(kv, "=")
	return name
}

// readEnvFile reads one NAME=VALUE per line, like docker run --env-file: it takes
// values literally, without quotes or escapes.
func readEnvFile(path string) ([]string, error) {
	reading := "reading variables from " + strconv.Quote(path)
	data, err := proc.ReadFile(path, maxEnvFile)
	switch {
	case err == proc.ErrIsPipe:
		return nil, outcome.Own(reading + ": it is a pipe, whose end may never come: use a file")
	case err == files.ErrTooLarge:
		return nil, outcome.Own(reading + ": it has more than " + strconv.Itoa(maxEnvFile) + " bytes: the kernel rejects an environment of that size")
	case err != nil:
		return nil, outcome.Own(reading + ": " + err.Error() + ": mount the file into the container, and make it readable for its user")
	}
	var variables []string
	number := 0
	for line := range strings.SplitSeq(string(data), "\n") {
		number++
		line = strings.TrimSuffix(line, "\r")
		if trimmed := strings.TrimLeft(line, " \t"); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		if strings.Index(line, "=") <= 0 || strings.Contains(line, "\x00") {
			return nil, outcome.Own(reading + ": line " + strconv.Itoa(number) + " is not a variable: use NAME=VALUE")
		}
		variables = append(variables, line)
	}
	return variables, nil
}
