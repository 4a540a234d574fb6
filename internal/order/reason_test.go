// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package order

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/pkg/conditions"
)

// seen is what a container sees of another one that isn't ready.
func seen(t *testing.T, dir string) Unmet {
	t.Helper()
	ds := NewDependencies([]Dependency{{Condition: conditions.Ready, Dir: dir}}, false)
	state, err := ds.Look()
	require.NoError(t, err)
	require.Equal(t, await.Waiting, state)
	return ds.Unmet()[0]
}

func TestAReasonIsThatOfTheIncarnationThatPublishedIt(t *testing.T) {
	dir := t.TempDir()
	first := live(t, dir, Started, 0)
	require.Equal(t, "the command has started", seen(t, dir).Seen)
	first.PublishReason("its check fails")
	require.Equal(t, "the command has started: its check fails", seen(t, dir).Seen)
	die(first)
	second := live(t, dir, Started, 0)
	require.Equal(t, "the command has started", seen(t, dir).Seen)
	second.PublishReason("db exited with 1")
	second.Publish(Ended, 1)
	require.Equal(t, "it exited with 1", seen(t, dir).Seen, "it failed by itself")
	second.Publish(Ended, exitDependency)
	require.Equal(t, "it exited with 123: db exited with 1", seen(t, dir).Seen)
	require.Equal(t, "db exited with 1", seen(t, dir).Culprit())
}

// TestAReasonIsNotTrusted, because another container wrote it.
func TestAReasonIsNotTrusted(t *testing.T) {
	dir := t.TempDir()
	i := live(t, dir, Started, 0)
	begin := i.state.incarnation + "\n"
	for text, want := range map[string]string{
		begin + "a\x1b[2J\nentrypointer: b\u202e\x7f\n": ": a?[2J?entrypointer: b??",
		begin + strings.Repeat("x", 4000):               ": " + strings.Repeat("x", maxReason),
		begin + strings.Repeat("x", 5000):               "",
		begin:                                           "",
		"garbage":                                       "",
		"0123456789abcdef\nof another life\n":           "",
	} {
		require.NoError(t, os.WriteFile(dir+reasonName, []byte(text), 0o600))
		require.Equal(t, "the command has started"+want, seen(t, dir).Seen, text[:min(len(text), 40)])
	}
	require.NoError(t, os.Remove(dir+reasonName))
	require.NoError(t, unix.Mkfifo(dir+reasonName, 0o600))
	require.Equal(t, "the command has started", seen(t, dir).Seen)
}
