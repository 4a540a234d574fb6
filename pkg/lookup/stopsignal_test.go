// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package lookup_test

import (
	"fmt"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/pkg/lookup"
)

func TestAStopSignalHasOneName(t *testing.T) {
	for text, want := range map[string]string{
		"SIGTERM": "SIGTERM", "TERM": "SIGTERM", "term": "SIGTERM", "15": "SIGTERM", "SIGQUIT": "SIGQUIT", "3": "SIGQUIT", "31": "SIGSYS", "sigWinch": "SIGWINCH",
		"SIGIOT": "SIGABRT", "CLD": "SIGCHLD", "SIGPOLL": "SIGIO",
		"RTMIN": "SIGRTMIN", "SIGRTMIN+0": "SIGRTMIN", "SIGRTMIN+3": "SIGRTMIN+3", "37": "SIGRTMIN+3", "SIGRTMAX": "SIGRTMIN+30", "RTMAX-14": "SIGRTMIN+16", "64": "SIGRTMIN+30",
	} {
		got, ok := lookup.ParseStopSignal(text)
		require.True(t, ok, text)
		require.Equal(t, want, got, text)
		again, ok := lookup.ParseStopSignal(got)
		require.True(t, ok, got)
		require.Equal(t, want, again)
	}
	for _, text := range []string{"", " ", "0", "-1", "32", "33", "65", "1e1", "SIG", "SIGSIGTERM", "SIGNONE", "RTMIN-1", "RTMIN+", "RTMIN+31", "RTMIN++1", "RTMIN+256", "RTMAX-31", "RTMAX+1", "99999999999999999999"} {
		got, ok := lookup.ParseStopSignal(text)
		require.False(t, ok, text)
		require.Empty(t, got, text)
	}
}

// Whatever stands there, the command line is as good.
func TestAConfigMayHaveAStopSignal(t *testing.T) {
	for said, want := range map[string]string{
		`"SIGQUIT"`: "SIGQUIT", `"3"`: "SIGQUIT", `"rtmin+3"`: "SIGRTMIN+3", `""`: "", `"NONE"`: "", `3`: "", `null`: "", `["SIGQUIT"]`: "", `{"a":{}}`: "",
		`"SIGQUIT","StopSignal":"SIGINT"`: "SIGINT", `"SIGQUIT","StopSignal":[]`: "",
	} {
		config := fmt.Appendf(nil, `{"os":"linux","architecture":"amd64","config":{"Entrypoint":["/entry"],"StopSignal":%s}}`, said)
		manifest := fmt.Appendf(nil, `{"config":{"mediaType":%q,"digest":%q,"size":%d}}`, types.OCIConfigJSON, digestOf(config), len(config))
		asked := lookup.NewRegistry(anonymous, serving(types.OCIManifestSchema1, manifest, config), lookup.Options{})
		for range 2 { // the second comes from the cache
			got, err := asked.Lookup(t.Context(), lookup.Query{Image: "registry.example/app", Namespace: "a"})
			require.NoError(t, err, said)
			require.Equal(t, []lookup.Config{{Platform: "linux/amd64", Entrypoint: []string{"/entry"}, StopSignal: want}}, got.Configs, said)
		}
	}
}
