// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A source is the commit that is released.
type source struct {
	commit string
	time   time.Time // of the commit: all times in a release are this one
}

// readSource returns the commit of the working directory, in which nothing may be changed.
func readSource(ctx context.Context) (s source, err error) {
	changed, err := output(ctx, nil, "git", "status", "--porcelain")
	if err != nil {
		return s, err
	}
	if changed != "" {
		return s, fmt.Errorf("files of the checkout are changed or not committed: commit or remove them first:\n%s", changed)
	}
	line, err := output(ctx, nil, "git", "log", "-1", "--format=%H %ct")
	if err != nil {
		return s, err
	}
	commit, at, _ := strings.Cut(line, " ")
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return s, fmt.Errorf("reading the time of commit %s: %w", commit, err)
	}
	return source{commit, time.Unix(seconds, 0).UTC()}, nil
}

// output runs a program and returns what it prints, without the last newline. What the
// environment has in addition may be nil.
func output(ctx context.Context, environment []string, program string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(os.Environ(), environment...)
	command.Stderr = os.Stderr
	command.WaitDelay = 10 * time.Second // for a child that outlives it
	var printed bytes.Buffer
	command.Stdout = &printed
	if err := command.Run(); err != nil {
		return "", fmt.Errorf("running %s %s: %w", program, strings.Join(args, " "), err)
	}
	return strings.TrimSuffix(printed.String(), "\n"), nil
}
