// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// identify reads a process' identity; a zombie has ended.
func identify(proc string, pid int) (identity, error) {
	stat, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return identity{}, fmt.Errorf("reading about process %d: %w", pid, err)
	}
	state, start, err := parseStat(string(stat))
	if err != nil {
		return identity{}, fmt.Errorf("reading about process %d: %w", pid, err)
	}
	if state == "Z" || state == "X" {
		return identity{}, fmt.Errorf("process %d is a zombie", pid)
	}
	boot, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return identity{}, fmt.Errorf("reading this boot's id: %w", err)
	}
	return identity{PID: pid, Start: start, Boot: strings.TrimSpace(string(boot))}, nil
}

// parseStat reads the state and the start time from a line of /proc/pid/stat,
// "pid (comm) state ppid ...": fields 3 and 22 of proc(5). comm may hold
// anything, blanks and parentheses too, so the fields count from its end.
func parseStat(line string) (state string, start uint64, err error) {
	end := strings.LastIndex(line, ")")
	if end < 0 {
		return "", 0, fmt.Errorf("parsing %q: there is no command name in it", line)
	}
	fields := strings.Fields(line[end+1:])
	if len(fields) < 20 {
		return "", 0, fmt.Errorf("parsing %q: only %d fields follow the command name, of 20", line, len(fields))
	}
	start, err = strconv.ParseUint(fields[19], 10, 64)
	if err != nil {
		return "", 0, fmt.Errorf("parsing the start time in %q: %w", line, err)
	}
	return fields[0], start, nil
}
