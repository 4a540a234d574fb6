// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package page_test

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// kubectl runs a command against the cluster.
func kubectl(t *testing.T, args ...string) {
	t.Helper()
	out, err := exec.Command("kubectl", args...).CombinedOutput()
	require.NoError(t, err, "kubectl %s: %s", args, out)
}

// TestTheCommandShowsATaskRunOfTheCluster opens the page by the command itself, creates a
// TaskRun, and watches it come, run and end without a reload.
func TestTheCommandShowsATaskRunOfTheCluster(t *testing.T) {
	plugin := filepath.Join(t.TempDir(), "kubectl-entrypointer")
	build := exec.Command("go", "build", "-o", plugin, "./cmd/kubectl-entrypointer")
	build.Dir = "../.."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	// Of a former namespace of the same name, an administrator would see the logs.
	namespace := fmt.Sprintf("page-%x", time.Now().Unix())
	kubectl(t, "create", "namespace", namespace)
	t.Cleanup(func() { kubectl(t, "delete", "namespace", namespace, "--wait=false") })
	kubectl(t, "annotate", "namespace", namespace, "entrypointer.dev/inject=true")

	command := exec.Command(plugin, "ui", "-n", namespace)
	printed, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		require.NoError(t, command.Process.Signal(syscall.SIGINT))
		require.NoError(t, command.Wait(), "it ends when it is interrupted")
	})
	address, err := bufio.NewReader(printed).ReadString('\n')
	require.NoError(t, err)
	address = strings.TrimSpace(address)

	b := newChromium(t)
	b.do(t, chromedp.Navigate(address), chromedp.WaitVisible(chromedp.CSS("h1")))
	kubectl(t, "-n", namespace, "create", "-f", "testdata/taskrun.yaml")
	b.do(t, until(`document.querySelector("a[href$='/taskrun/steps/']") !== null`), chromedp.Navigate(address+"taskrun/steps/"), chromedp.WaitVisible(chromedp.CSS("h1")),
		chromedp.Evaluate[chromedp.Void](`window.isTheSame = true`), until(`document.querySelector("#state .succeeded") !== null && document.getElementById("live").dataset.seconds === "0"`))
	require.True(t, value[bool](t, b, `window.isTheSame === true`), "the page was loaded again")
	require.Positive(t, value[int](t, b, `document.querySelectorAll("#charts a .bar.running").length`), "steps ran")
	require.Positive(t, value[int](t, b, `document.querySelectorAll("#charts a .bar.waiting").length`), "steps waited for each other")
	b.do(t, until(`[...document.querySelectorAll(".log .r .t")].some((line) => line.textContent === "built")`))
	require.Empty(t, violations(t, b, axe(t)))
	b.takePicture(t, "page", true)
}
