// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// finishingJob is an API server with a Job whose pod ends, and whose own status follows.
func finishingJob() http.Handler {
	var reads atomic.Int32
	mux := http.NewServeMux()
	mux.HandleFunc("GET /apis/batch/v1/namespaces/tenant/jobs/report", func(w http.ResponseWriter, _ *http.Request) {
		status := ""
		if reads.Add(1) > 2 {
			status = `"completionTime":"2026-11-26T12:00:00Z"`
		}
		_, _ = io.WriteString(w, `{"spec":{"selector":{"matchLabels":{"job":"report"}}},"status":{`+status+`}}`)
	})
	mux.HandleFunc("GET /api/v1/namespaces/tenant/pods", func(w http.ResponseWriter, _ *http.Request) {
		phase := "Running"
		if reads.Load() > 1 {
			phase = "Succeeded"
		}
		_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"report-x"},"spec":{"containers":[{"name":"main"}]},"status":{"phase":"`+phase+`"}}]}`)
	})
	return mux
}

func TestAWatchEndsWhenTheJobEndsAfterItsLastPod(t *testing.T) {
	t.Parallel()
	command := statusCommand()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	command.SetContext(ctx)
	out, _, err := runsCommand(command, "", "--kubeconfig", kubeconfig(t, finishingJob()), "job/report", "-w")
	require.NoError(t, err)
	require.NoError(t, ctx.Err(), "the watch goes on")
	require.Equal(t, "pod/report-x in namespace tenant: Running\n  main  isn't created yet\n\npod/report-x in namespace tenant: Succeeded\n  main  isn't created yet\n", out)
}
