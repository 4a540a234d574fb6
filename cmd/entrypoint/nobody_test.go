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

// TestAsNobody runs these tests once more, as the user that most containers
// should have. It leaves out those that say nothing of the entrypoint's rights,
// and sees to it that each that is skipped needs root, and that all others ran.
func TestAsNobody(t *testing.T) {
	needRoot(t, "becoming nobody")
	const nobody = 65534
	// All that is used must be where nobody can get.
	dir := filepath.Join(binDir, "nobody")
	require.NoError(t, os.CopyFS(filepath.Join(dir, "testdata/script"), os.DirFS("testdata/script")))
	require.NoError(t, os.Chown(dir, nobody, nobody))
	self, err := os.Executable()
	require.NoError(t, err)
	data, err := os.ReadFile(self)
	require.NoError(t, err)
	program := sharedFile(t, binDir, "entrypoint.test", string(data))

	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-entrypoint.bin="+binDir, "-entrypoint.tags="+*tags,
		"-test.skip=^(TestAsNobody|TestImports|TestSize|TestComparison|TestTableIsReadAsItWasWritten|TestAGigabyteThroughStdin|TestNothingStartsEarly|TestNoContainerStartsBeforeItsDependencies|TestHeartbeatsWhereLocksAreNotTrusted|TestASidecarThatDoesNotListenIsLeftAlone|TestPipelinesCompleteHoweverOftenTheyAreKilled|TestNoStopSignalIsLostOrSentTwice|TestTheSupervisorReportsWhyACommandIsNotReady)$")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "HOME="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)

	results := make(map[string][]string)
	for _, m := range regexp.MustCompile(`(?m)^ *--- ([A-Z]+): (\S+)`).FindAllStringSubmatch(string(out), -1) {
		if !strings.HasPrefix(m[2], "TestStories/") { // these say for themselves where they run
			results[m[1]] = append(results[m[1]], m[2])
		}
	}
	require.NotEmpty(t, results["PASS"])
	if *tags == "" { // other builds can do less, whoever runs them
		require.Equal(t, len(results["SKIP"]), strings.Count(string(out), noRoot), "skipped for another reason: %s", out)
	}
	t.Logf("%d passed; skipped: %v", len(results["PASS"]), results["SKIP"])
}
