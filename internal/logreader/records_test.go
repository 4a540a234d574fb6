// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/target"
)

func TestTheEventsOfEachStartOfAContainerAreRecords(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	named, err := target.Parse("p", target.All())
	require.NoError(t, err)
	records := func() (told []string) {
		t.Helper()
		var warnings strings.Builder
		all, err := c.client.Records(t.Context(), named, &warnings)
		require.NoError(t, err)
		require.Empty(t, warnings.String())
		for _, r := range all {
			told = append(told, r.Container+" "+r.Began().Format("05.000")+" "+string(bytes.Join(r.Lines, []byte("|"))))
		}
		return told
	}
	require.Empty(t, records())
	c.stream("p", "second", "2026-11-26T12:00:02.5Z", "events", "{\"a\":1}\n{\"b\"", ":2}\n")
	c.stream("p", "first", "2026-11-26T12:00:01Z", "events", "{\"c\":1}\n")
	c.stream("p", "first", "2026-11-26T12:00:01Z", "stdout", "no event\n")
	require.Equal(t, []string{"first 01.000 {\"c\":1}\n", "second 02.500 {\"a\":1}\n|{\"b\":2}\n"}, records())

	// A line may be as long as its container wants, and there may be any number.
	endless := strings.Repeat("{\"event\":\"sendingFailed\"}\n", 10000)
	c.stream("p", "third", "2026-11-26T12:00:03Z", "events", endless)
	got := records()
	require.Len(t, got, 3)
	require.Less(t, len(got[2]), 70<<10)
	require.Greater(t, len(got[2]), 60<<10)
}

func TestWithoutALogServiceThereAreNoRecords(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.client.Namespace = "other"
	named, err := target.Parse("p", target.All())
	require.NoError(t, err)
	_, err = c.client.Records(t.Context(), named, &strings.Builder{})
	require.ErrorContains(t, err, "you need the right to get pods/log of this pod")
	require.Zero(t, Record{}.Began())
}
