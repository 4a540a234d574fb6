// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package equality

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/markdown"
)

// atOnce is how many examples run at once, each of them in all ways, unless
// -parallel says otherwise. More only make each other wait on two processors.
const atOnce = "4"

var (
	update = flag.Bool("update", false, "write what was found to README.md and docs/equality.md")
	parts  = flag.Int("parts", 1, "run only one of so many parts of the examples")
	part   = flag.Int("part", -1, "which of them, from 0 on; if it isn't said, the commit chooses")
	each   = flag.String("ways", all, "run each example in all ways, or in one of them: then there are as many times more parts as there are ways")
	resume = flag.String("resume", "", "a file that keeps what is found, so that a run that was ended can go on")
)

var cluster *framework.Cluster

func TestMain(m *testing.M) {
	if err := prepare(); err != nil {
		fmt.Fprintf(os.Stderr, "equality: %v\n", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// prepare looks whether everything is there that the tests need.
func prepare() (err error) {
	// The flags aren't parsed yet, so the command line has the last word.
	if err := flag.Set("test.parallel", atOnce); err != nil {
		return err
	}
	if cluster, err = framework.Connect(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := cluster.Preflight(ctx); err != nil {
		return err
	}
	return cluster.WaitForInjector(ctx)
}

func TestWrappedOrNotNobodyCanTell(t *testing.T) {
	version, dir := tekton(t)
	here, err := survey(t.Context())
	require.NoError(t, err)
	examples, err := Load(filepath.Join(dir, "examples", "v1"), here)
	require.NoError(t, err)
	require.NotEmpty(t, examples)

	chosen := choose(t)
	report := Report{Version: version, Images: kinds, Findings: earlier(t)}
	var mu sync.Mutex
	type lateExample struct {
		Example
		ways []Way
	}
	var late []lateExample // by the clock: their timeouts are seconds, in which many others start
	found := func(t *testing.T, finding Finding) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		report.Findings = append(report.Findings, finding)
		if !t.Failed() {
			saveFinding(t, finding)
		}
	}
	t.Run("examples", func(t *testing.T) {
		for i, example := range examples {
			ways := chosen.of(i)
			if len(ways) == 0 || slices.ContainsFunc(report.Findings, func(f Finding) bool { return f.Example == example.Name }) {
				continue
			}
			t.Run(example.Name, func(t *testing.T) {
				t.Parallel()
				finding, isLate := examine(t, example, ways, false)
				if !isLate {
					found(t, finding)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				late = append(late, lateExample{example, ways})
			})
		}
	})
	for _, example := range late {
		t.Run("alone/"+example.Name, func(t *testing.T) {
			finding, _ := examine(t, example.Example, example.ways, true)
			found(t, finding)
		})
	}
	slices.SortFunc(report.Findings, func(a, b Finding) int { return strings.Compare(a.Example, b.Example) })
	if len(report.Findings) < len(examples) || *each != all || len(chosen.ways) < len(Ways) {
		t.Logf("%d of %d examples were looked at", len(report.Findings), len(examples))
		comparePage(t, report)
		return
	}
	t.Logf("\n%s", report.Summary())
	publish(t, report)
}

// choose tells what to run. With each commit it is another share, so that after a
// while all of them have run.
func choose(t *testing.T) share {
	t.Helper()
	require.Positive(t, *parts, "-parts")
	require.Contains(t, []string{all, one}, *each, "-ways")
	s := share{parts: *parts, part: *part, each: *each, ways: ways(t)}
	shares, by := s.shares(), "-part"
	if s.part < 0 {
		commit, err := framework.Run(t.Context(), "git", "rev-parse", "HEAD")
		if err != nil {
			t.Logf("no commit chooses a part: %v", err)
		}
		by = "commit " + strings.TrimSpace(string(commit))
		s.part = shareOf(strings.TrimSpace(string(commit)), shares)
	}
	require.Less(t, s.part, shares, "-part")
	if shares > 1 {
		t.Logf("part %d of 0 to %d, chosen by %s; ARGS='-parts %d -ways %s -part %[1]d' runs it again", s.part, shares-1, by, *parts, *each)
	}
	return s
}

// ways are those that there are on this cluster.
func ways(t *testing.T) []Way {
	t.Helper()
	mounts, err := cluster.HasImageVolumes()
	require.NoError(t, err)
	if mounts {
		return Ways
	}
	return slices.DeleteFunc(slices.Clone(Ways), func(w Way) bool { return w == Mounted })
}

// comparePage sees whether docs/equality.md says of each example what was found.
func comparePage(t *testing.T, report Report) {
	t.Helper()
	if os.Getenv("E2E_IMAGE_REGISTRY") == "" {
		return
	}
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	written, err := os.ReadFile(filepath.Join(top, "docs", "equality.md"))
	require.NoError(t, err)
	for _, finding := range report.Findings {
		require.True(t, finding.agrees(string(written)), "docs/equality.md says otherwise of %s than was found: %+v", finding.Example, finding)
	}
}

// earlier is what a run found that this one goes on with.
func earlier(t *testing.T) (findings []Finding) {
	t.Helper()
	if *resume == "" {
		return nil
	}
	file, err := os.Open(*resume)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	require.NoError(t, err)
	defer file.Close()
	for decoder := json.NewDecoder(file); decoder.More(); {
		var finding Finding
		require.NoError(t, decoder.Decode(&finding))
		findings = append(findings, finding)
	}
	return findings
}

func saveFinding(t *testing.T, finding Finding) {
	t.Helper()
	if *resume == "" {
		return
	}
	file, err := os.OpenFile(*resume, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	require.NoError(t, err)
	require.NoError(t, json.NewEncoder(file).Encode(finding))
	require.NoError(t, file.Close())
}

// section is where the headline is in the README.
const section = "equality"

// publish writes the report, or sees whether what is written says the same. It
// is about the cluster whose registry stands in for Docker Hub: others have
// other features and other images.
func publish(t *testing.T, report Report) {
	t.Helper()
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	readme := filepath.Join(top, "README.md")
	details := filepath.Join(top, "docs", "equality.md")
	if *update {
		require.NoError(t, markdown.ReplaceSection(readme, section, report.Headline()))
		require.NoError(t, os.WriteFile(details, []byte(report.Details()), 0o644))
		return
	}
	if os.Getenv("E2E_IMAGE_REGISTRY") == "" {
		return
	}
	written, err := markdown.Section(readme, section)
	require.NoError(t, err)
	require.Equal(t, report.Headline(), written, "README.md says otherwise; \"make equality ARGS=-update\" writes what was found")
	writtenDetails, err := os.ReadFile(details)
	require.NoError(t, err)
	require.Contains(t, string(writtenDetails), report.Summary(), "docs/equality.md says otherwise; \"make equality ARGS=-update\" writes what was found")
}

// tekton is the version of Tekton's module that this one requires, and where it is.
func tekton(t *testing.T) (version, dir string) {
	t.Helper()
	out, err := framework.Run(t.Context(), "go", "list", "-m", "-f", "{{.Version}} {{.Dir}}", "github.com/tektoncd/pipeline")
	require.NoError(t, err)
	version, dir, found := strings.Cut(strings.TrimSpace(string(out)), " ")
	require.True(t, found && dir != "", "Tekton's module is downloaded: %s", out)
	return version, dir
}
