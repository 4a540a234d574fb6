// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestEachGroupOfSystemsHasATable(t *testing.T) {
	ours, theirs := &system{name: "ours", event: started}, &system{name: "theirs", event: started}
	asking, absent := &system{name: "asking", event: started, asks: true}, &system{name: "absent", event: stopped, why: "no | such flag"}
	const fails, files = "the first container exits with 3", "the state file is a FIFO"
	f := findings{turns: 2, times: map[*system][]time.Duration{
		ours: {2e6, 4e6}, theirs: {500e6, 1000e6}, asking: {4e6, 4e6},
	}, verdicts: map[*system]map[string]verdict{
		ours:   {fails: right("fails with %d", 123), files: right("waits")},
		theirs: {fails: wrong("waits on"), files: wrong("it hangs")},
		asking: {fails: right("fails")},
	}}
	text := f.render([]*system{ours, theirs, asking, absent})
	for _, row := range []string{
		"|  | ours | theirs | asking |",
		"| from the end of the first container to the start of the second one's command, median | 4.0 ms | 1000.0 ms (250.0×) | 4.0 ms from the API server's event (1.0×) |",
		"| the first container exits with 3 | yes: fails with 123 | **no**: waits on | yes: fails |",
		"| the state file is a FIFO | yes: waits | **no**: it hangs | – |",
		"|  | absent |",
		`| from the end of the first container to the second one's SIGTERM, median | not measured: no \| such flag |`,
		"| from the end of the first container to the second one's SIGTERM, p90 | – |",
	} {
		require.Contains(t, text, row+"\n")
	}
	_, second, _ := strings.Cut(text, "\n\n")
	require.NotContains(t, second, fails, "a start is no matter of what is stopped")
}

func TestLastLine(t *testing.T) {
	require.Equal(t, "because", lastLine(fmt.Errorf("running: %s", "exit status 1\nfirst\n  because\n")))
}

func TestTheEmissaryIsShownByItsVersion(t *testing.T) {
	program := func(path, script string) string {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755))
		return path
	}
	dir := t.TempDir()
	t.Setenv("ENTRYPOINTER_CACHE", dir)
	program(filepath.Join(dir, "tools", "argoexec@"+argoVersion, "argoexec"), "exit 1")
	for _, test := range []struct{ name, path, want, why string }{
		{"none is given: the one that is built", "", "Argo's emissary " + argoVersion, ""},
		{"one is given", program(filepath.Join(dir, "given"), `test "$*" = "version --short" && echo argoexec: v4.1.2`), "Argo's emissary v4.1.2", ""},
		{"one is given that has no version", program(filepath.Join(dir, "other"), "echo no such command >&2; exit 1"), "Argo's emissary", "no such command"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := emissary(t.Context(), test.path)
			require.Equal(t, test.want, s.name)
			require.Equal(t, test.why, s.why)
		})
	}
}

// TestAContainerThatEndsIsSeen starts one of the processes that the bench takes for
// containers.
func TestAContainerThatEndsIsSeen(t *testing.T) {
	if !isRoot() {
		t.Skip("not run as root, which is needed for namespaces")
	}
	c, err := begin(t.TempDir(), spec{argv: []string{"sh", "-c", `test $$ = 1 && test "$(id -u)" = 1234 && echo started 1 >&3 && cat <&4; exit 7`}, user: 1234, umask: "077"})
	require.NoError(t, err)
	defer c.kill()
	_, said := c.await("started", patience)
	require.True(t, said, "%s", c.stderr)
	require.True(t, c.running())
	require.NoError(t, c.until.Close())
	_, ended := c.awaitEnd(patience)
	require.True(t, ended)
	require.Equal(t, 7, c.code())
}
