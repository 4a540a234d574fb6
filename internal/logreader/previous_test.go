// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/synced"
)

// restarted is the status of a container that has ended once, at base, and runs again.
const restarted = `{"name":"main","state":{"running":{"startedAt":"2026-11-18T11:06:50Z"}},"lastState":{` + terminatedAt + `}}`

// whole stores the complete output of a run of a container, which has started some
// milliseconds after base.
func (c *cluster) whole(pod, container string, later int64, text string) {
	c.t.Helper()
	c.end(c.prints(pod, container, start(later), "stdout", said{later, text}), int64(len(text)))
}

func TestOnlyTheRunBeforeTheLastOneIsPrinted(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		prepare func(c *cluster)
		want    string
	}{
		"of a container that runs again": {func(c *cluster) {
			c.specs["p"], c.containers["p"] = sending("main"), restarted
			c.whole("p", "main", -60_000, "first\n")
			c.whole("p", "main", 100, "second\n")
			c.prints("p", "main", start(10_000), "stdout", said{10_001, "third\n"})
		}, "second\n"},
		"of a container that runs again, and has printed nothing yet": {func(c *cluster) {
			c.specs["p"], c.containers["p"] = sending("main"), restarted
			c.whole("p", "main", -60_000, "first\n")
			c.whole("p", "main", 100, "second\n")
		}, "second\n"},
		"of a container that is restarted again and again, within seconds": {func(c *cluster) {
			c.specs["p"], c.containers["p"] = sending("main"), `{"name":"main","state":{"waiting":{"reason":"CrashLoopBackOff"}},"lastState":{"terminated":{"startedAt":"2026-11-18T11:06:40Z","finishedAt":"2026-11-18T11:06:40Z"}}}`
			c.whole("p", "main", -1100, "first\n")
			c.whole("p", "main", 300, "second\n")
			c.prints("p", "main", start(1100), "stdout", said{1101, "not seen by the kubelet yet\n"})
		}, "second\n"},
		"of a pod that is gone": {func(c *cluster) {
			c.gone = true
			c.whole("p", "main", 0, "first\n")
			c.whole("p", "main", 5000, "second\n")
			c.whole("p", "main", 9000, "third\n")
		}, "second\n"},
		"of a pod that the user may not get": {func(c *cluster) {
			c.forbidden = true
			c.whole("p", "main", 0, "first\n")
			c.whole("p", "main", 5000, "second\n")
		}, "first\n"},
		"of a former pod of the same name": {func(c *cluster) {
			id, err := c.store.Create(c.t.Context(), streams.Source{Namespace: "tenant", Pod: "p", PodUID: "uid-former", Container: "main", Start: start(-1000), Name: "stdout"})
			require.NoError(c.t, err)
			require.NoError(c.t, c.store.Write(c.t.Context(), id, 0, []byte("former\n")))
			c.end(id, 7)
			c.specs["p"], c.containers["p"] = sending("main"), containerStatus("main", isRunning, "")
			c.whole("p", "main", 0, "first\n")
		}, "former\n"},
		"of each container": {func(c *cluster) {
			c.gone = true
			c.whole("p", "a", 0, "a1\n")
			c.whole("p", "b", 1000, "b1\n")
			c.whole("p", "c", 1500, "c1\n")
			c.whole("p", "b", 2000, "b2\n")
			c.whole("p", "a", 3000, "a2\n")
		}, "[pod/p/a] a1\n[pod/p/b] b1\n"},
	} {
		c := newCluster(t)
		test.prepare(c)
		warnings := &synced.Buffer{}
		text, err := c.printed("p", func(o *Options) { o.Previous, o.Warnings = true, warnings })
		require.NoError(t, err, name)
		require.Equal(t, test.want, text, name)
		require.Equal(t, c.forbidden, strings.Contains(warnings.String(), "it is unknown which run is the last one"), name)
	}
}

// The streams of a run that aren't asked for tell that there was one.
func TestTheLastLinesOfOneStreamAreThoseOfTheRunBeforeTheLastOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.gone = true
	c.whole("p", "main", 0, "zero\n")
	c.whole("p", "main", 5000, "one\ntwo\nthree\n")
	c.end(c.prints("p", "main", start(9000), "stderr", said{9001, "oh\n"}), 3)
	text, err := c.printed("p", func(o *Options) { o.Previous, o.Stream, o.Tail = true, "stdout", 2 })
	require.NoError(t, err)
	require.Equal(t, "two\nthree\n", text)
	_, err = c.printed("p", func(o *Options) { o.Previous, o.Stream = true, "stderr" })
	require.ErrorContains(t, err, `no logs of pod/p in namespace "tenant" of before a restart`)
}

func TestAPreviousRunThatNeverReachedTheServiceIsNamedAndNoOtherIsPrinted(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.specs["p"] = sending("main") + "," + sending("ended")
	c.containers["p"] = restarted + "," + containerStatus("ended", terminatedAt, "")
	c.whole("p", "main", -60_000, "older\n")
	c.prints("p", "main", start(10_000), "stdout", said{10_001, "newer\n"})
	warnings := &synced.Buffer{}
	text, err := c.printed("p", func(o *Options) { o.Previous, o.Warnings = true, warnings })
	requireCutOff(t, err)
	require.Empty(t, text)
	require.Equal(t, lostText("main", "p", "main --previous"), warnings.String())
}

func TestAContainerThatWasNeverRestartedHasNoPreviousRun(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.specs["p"], c.containers["p"] = sending("main"), containerStatus("main", isRunning, "")
	c.whole("p", "main", 0, "first\n")
	_, err := c.printed("p", func(o *Options) { o.Previous, o.Container = true, "main" })
	require.ErrorContains(t, err, `no logs of container "main" of pod/p in namespace "tenant" of before a restart: leave --previous out`)
	c.ill = true
	_, err = c.printed("p", func(o *Options) { o.Previous = true })
	require.ErrorContains(t, err, "asking for the pods of pod/p")
}
