// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATimelineIsShownInEachFormat(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/namespaces/tenant/pods/p", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"metadata":{"name":"p","creationTimestamp":"2026-11-26T12:00:00Z"},"spec":{"nodeName":"n","containers":[{"name":"main"}]},
			"status":{"containerStatuses":[{"name":"main","state":{"terminated":{"startedAt":"2026-11-26T12:00:02Z","finishedAt":"2026-11-26T12:00:04Z"}}}]}}`)
	})
	mux.HandleFunc("GET /apis/apps/v1/namespaces/tenant/deployments/none", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"spec":{"selector":{"matchLabels":{"app":"none"}}}}`)
	})
	mux.HandleFunc("GET /api/v1/namespaces/tenant/pods", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) })
	config := kubeconfig(t, mux)
	for args, shows := range map[string]string{
		"":                "  main  |               ###############|\n         ran ~2 s\n",
		"--output=svg":    "<title>main ran ~2 s</title>",
		"-oyaml":          "\n      source: kubelet\n",
		"-ojson":          `"kind": "running"`,
		"-operfetto":      "pod/p",
		"--width=1000000": "\npod/p: 4.00 s from 2026-11-26T12:00:00Z on\n",
	} {
		words := []string{"--kubeconfig", config, "p", "--width=40"}
		if args != "" {
			words = append(words, args)
		}
		out, _, err := runsCommand(timelineCommand(), "", words...)
		require.NoError(t, err)
		require.Contains(t, out, shows)
	}
	for args, shows := range map[string]string{"-ojson": `"pods": []`, "--width=0": "deployment/none in namespace tenant has no pods"} {
		out, _, err := runsCommand(timelineCommand(), "", "--kubeconfig", config, "deployment/none", args)
		require.Equal(t, exitFinding, exitCode(err))
		require.Contains(t, out, shows)
	}
	_, _, err := runsCommand(timelineCommand(), "", "--kubeconfig", config, "q")
	require.Equal(t, exitFailure, exitCode(err))
}
