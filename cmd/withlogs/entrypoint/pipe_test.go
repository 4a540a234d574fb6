// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOutputPipedToAnotherContainerIsNotLogged: of a container whose stdout is a pipe, the
// log has stderr, and what its hooks print.
func TestOutputPipedToAnotherContainerIsNotLogged(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"stream", "tee"} {
		s := serve(t)
		root := t.TempDir()
		a, b := filepath.Join(root, "a"), filepath.Join(root, "b")
		for _, dir := range []string{a, b, b + ".stdin"} {
			require.NoError(t, os.Mkdir(dir, 0o700))
		}
		reader := exec.CommandContext(t.Context(), entrypoint, "-order-dir="+b, "-stdin-from="+a, "--", "wc", "-c")
		read := s.start(reader)
		wrote := s.run(s.command("-logs="+mode, "-order-dir="+a, "-stdout-to="+b, "-before-start=echo", "-before-start-arg=hook",
			"--", "sh", "-c", "head -c 1000000 /dev/zero; echo err >&2"))
		require.Zero(t, wrote.code, wrote.stderr)
		got := read()
		require.Zero(t, got.code, got.stderr)
		require.Equal(t, "1000000\n", got.stdout)
		require.Equal(t, stream{data: []byte("hook\n"), complete: true}, s.stream("stdout"))
		require.Equal(t, stream{data: []byte("err\n"), complete: true}, s.stream("stderr"))
		own := map[string][2]string{"stream": {"", ""}, "tee": {"hook\n", "err\n"}}[mode]
		require.Equal(t, own[0], wrote.stdout)
		require.Equal(t, own[1], wrote.stderr)
	}
}
