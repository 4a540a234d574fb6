// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAsNobody runs the tests of this package again as the user nobody, because most
// containers should run without root. It skips tests that don't depend on the user. A
// test may only skip itself if it needs root.
func TestAsNobody(t *testing.T) {
	needRoot(t, "becoming nobody")
	const nobody = 65534
	// The user nobody must be able to read all files in use.
	dir := filepath.Join(binDir, "nobody")
	require.NoError(t, os.CopyFS(filepath.Join(dir, "testdata/script"), os.DirFS("testdata/script")))
	require.NoError(t, os.Chown(dir, nobody, nobody))
	self, err := os.Executable()
	require.NoError(t, err)
	data, err := os.ReadFile(self)
	require.NoError(t, err)
	program := sharedFile(t, binDir, "entrypoint.test", string(data))

	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-entrypoint.bin="+binDir, "-entrypoint.tags="+*tags,
		"-test.skip=^(TestAsNobody|TestImports|TestSize|TestComparison|TestTableIsReadAsItWasWritten|TestAGigabyteThroughStdin|TestNothingStartsEarly|TestNoContainerStartsBeforeItsDependencies|TestHeartbeatsWhereLocksAreNotTrusted|TestASidecarThatDoesNotListenIsLeftAlone|TestPipelinesCompleteHoweverOftenTheyAreKilled|TestNoStopSignalIsLostOrSentTwice|TestTheSupervisorReportsWhyACommandIsNotReady|TestASIGTERMAtAnyMomentEndsTheContainer|TestReapsAsSubreaper|TestAWaitForAURLRemindsAndIsEndedByASignal)$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	results := make(map[string][]string)
	for _, m := range regexp.MustCompile(`(?m)^ *--- ([A-Z]+): (\S+)`).FindAllStringSubmatch(string(out), -1) {
		if !strings.HasPrefix(m[2], "TestStories/") { // the scripts declare themselves where they run
			results[m[1]] = append(results[m[1]], m[2])
		}
	}
	require.NotEmpty(t, results["PASS"])
	if *tags == "" { // other builds can do less, whichever user runs them
		require.Equal(t, len(results["SKIP"]), strings.Count(string(out), noRoot), "skipped for another reason: %s", out)
	}
	t.Logf("%d passed; skipped: %v", len(results["PASS"]), results["SKIP"])
}
