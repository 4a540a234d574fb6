// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package page_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/page"
	"github.com/entrypointer/entrypointer/internal/page/pagetest"
)

func TestAWrongAddressOfAPerfettoIsRefusedWithAReason(t *testing.T) {
	t.Parallel()
	for text, why := range map[string]string{
		"ui.perfetto.dev":                "it isn't a URL of http or https",
		"javascript:alert(1)":            "it isn't a URL of http or https",
		"https://":                       "it has no host",
		"https://:443":                   "it has no host",
		"https://user@perfetto.example/": "it has a user",
		"https://perfetto.example/\x00":  "it is no URL",
		"//ui.perfetto.dev":              "it isn't a URL of http or https",
	} {
		_, err := page.ParsePerfetto(text)
		require.ErrorContains(t, err, why, text)
	}
	none, err := page.ParsePerfetto("")
	require.NoError(t, err)
	require.Zero(t, none)
}

// TestOnlyThePageOfARunMayKeepAWindow compares the header that keeps windows of other sites
// apart, with a Perfetto and without.
func TestOnlyThePageOfARunMayKeepAWindow(t *testing.T) {
	t.Parallel()
	perfetto, err := page.ParsePerfetto("https://perfetto.example:8443/ui/")
	require.NoError(t, err)
	with := served(t, pagetest.New(), func(o *page.Options) { o.Perfetto = perfetto })
	const header = "Cross-Origin-Opener-Policy"
	for _, path := range []string{"/", list, release + "timeline.pftrace", "/assets/perfetto.mjs", "/namespaces/team-a/pod/none/", "/nothing"} {
		require.Equal(t, "same-origin", get(with, path).Header().Get(header), path)
	}
	response := get(with, release)
	require.Equal(t, "same-origin-allow-popups", response.Header().Get(header))
	require.Contains(t, response.Body.String(), `data-address="https://perfetto.example:8443/ui/" data-host="perfetto.example:8443" data-title="pipelinerun/release in team-a" data-file="release-timeline.pftrace" hidden>`)
	without := get(served(t, pagetest.New()), release)
	require.Equal(t, "same-origin", without.Header().Get(header))
	require.NotContains(t, without.Body.String(), "perfetto.mjs")
}
