// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"strconv"
	"strings"
)

// maxEnvFile is what a file of variables may hold, in bytes. The kernel takes
// no more than a quarter of the stack's limit, 2 MiB by default, for all.
const maxEnvFile = 1 << 20

// environmentEdits say how the command's environment differs from ours. They
// apply in this order.
type environmentEdits struct {
	unset []string // names
	files []string // paths
	set   []string // NAME=VALUE
}

// apply returns the environment with the edits made. Without any, it is what
// it was, to the byte.
func (e environmentEdits) apply(env []string) ([]string, error) {
	for _, name := range e.unset {
		env = slices.DeleteFunc(env, func(kv string) bool { return isVariable(kv, name) })
	}
	for _, path := range e.files {
		variables, err := readEnvFile(path)
		if err != nil {
			return nil, err
		}
		for _, kv := range variables {
			env = setVariable(env, kv)
		}
	}
	for _, kv := range e.set {
		env = setVariable(env, kv)
	}
	return env, nil
}

func isVariable(kv, name string) bool {
	return strings.HasPrefix(kv, name) && strings.HasPrefix(kv[len(name):], "=")
}

// setVariable puts kv in the place of the first variable of its name, of which
// it leaves no other, or at the end.
func setVariable(env []string, kv string) []string {
	name, _, _ := strings.Cut(kv, "=")
	same := func(other string) bool { return isVariable(other, name) }
	at := slices.IndexFunc(env, same)
	if at < 0 {
		return append(env, kv)
	}
	env[at] = kv
	rest := slices.DeleteFunc(env[at+1:], same)
	return env[:at+1+len(rest)]
}

// readEnvFile reads NAME=VALUE by the line, as docker run --env-file does:
// values are to the letter, without quotes or escapes.
func readEnvFile(path string) ([]string, error) {
	reading := "reading variables from " + strconv.Quote(path)
	data, err := readFile(path, maxEnvFile)
	if err == errTooLong {
		return nil, ownFailure(reading + ": it has more than " + strconv.Itoa(maxEnvFile) + " bytes: the kernel takes no such environment")
	}
	if err != nil {
		return nil, ownFailure(reading + ": " + err.Error() + ": mount the file into the container, and make it readable for its user")
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
			return nil, ownFailure(reading + ": line " + strconv.Itoa(number) + " is no variable: use NAME=VALUE")
		}
		variables = append(variables, line)
	}
	return variables, nil
}
