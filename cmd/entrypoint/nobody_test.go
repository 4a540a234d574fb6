// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// asNobody are the tests whose result can depend on the rights of the user. Root opens
// every file, signals and traces every process, and raises every limit.
var asNobody = []string{
	// Files of every kind, their modes, and programs that may not be executed.
	"TestStories",
	// What a process inherits, of which the kernel lets root change more.
	"TestChildSeesWhatItWouldSeeWithoutUs",
	// Signals, parents and orphans.
	"TestForwardsEverySignal", "TestStopIsNotAnEnd", "TestTheExitCodeOfAnOrphanIsIgnored", "TestTheCommandDiesWithTheSupervisor",
	// The terminal and its groups of processes.
	"TestTerminalReadsAndWrites", "TestCtrlCOnce", "TestCtrlCEndsAPause", "TestCtrlZUnderAShell", "TestMessagesFromTheBackgroundArePrinted",
	"TestABackgroundJobStaysInTheBackground",
	// A held command's files in /proc, and its stop.
	"TestAHeldCommandPollsAtOnceWhenItsPollIsDue", "TestAHeldCommandWhosePollIsFarOffIsRestarted", "TestAHeldCommandThatHasPrintedIsNotRestarted", "TestAHeldCommandThatItsUserMayNotReadIsRestarted",
	"TestHooksWaitForTheTurnOfACommandThatStartsEarly", "TestAHeldCommandThatWasContinuedAndStoppedAgainIsNotRestarted",
	"TestAHeldCommandGetsTheTerminalOfAForegroundSupervisor", "TestAHeldCommandEndsWithTheContainer",
	// Locks and states of other containers.
	"TestADependencyThatIsKilledIsNoticed", "TestAStateCountsForItsIncarnationOnly", "TestTheCommandInheritsNothingOfTheOrder",
	"TestAHostileDependencyOnlyDelays", "TestAReadOnlyMountAllowsNoLock", "TestFiftyContainersWaitAtOnce",
	"TestADependentThatIsKilledIsNotWaitedFor", "TestAHelperIgnoresAnUnreadableState", "TestTheLastOfSeveralContainersEndsTheSidecar",
	// Pipes between containers.
	"TestContainersInARowAreAPipeline", "TestAWaitForTheOtherEndEnds", "TestOnlyTheCommandHasThePipe", "TestAHostileReaderOnlyDelays",
	"TestAWriterCannotFakeAPipe",
	// Probes of a file and of a program.
	"TestACommandIsReadyOnceItsProbeSucceeds",
}

// TestAsNobody runs these tests again as the user nobody, because most containers should
// run without root. None of them may skip itself, except for a part that needs root.
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

	cmd := exec.CommandContext(t.Context(), program, "-test.v", "-entrypoint.bin="+binDir, "-entrypoint.tags="+*tags, "-test.short="+strconv.FormatBool(testing.Short()),
		"-test.run=^("+strings.Join(asNobody, "|")+")$")
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
	for _, name := range asNobody { // a renamed test would be left out
		require.Contains(t, slices.Concat(results["PASS"], results["SKIP"]), name)
	}
	if *tags == "" { // other builds can do less, whichever user runs them
		require.Equal(t, len(results["SKIP"]), strings.Count(string(out), noRoot), "skipped for another reason: %s", out)
	}
	t.Logf("%d passed; skipped: %v", len(results["PASS"]), results["SKIP"])
}
