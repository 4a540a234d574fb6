// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/synced"
	"github.com/entrypointer/entrypointer/internal/target"
)

func TestLogsAreFoundByTheNameOfAControllerThatIsGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.gone = true
	c.labelled("web-7d4b9c6d8-a", 0, labels.Set{"entrypointer.dev/deployment": "web", "entrypointer.dev/replicaset": "web-7d4b9c6d8"})
	c.labelled("web-6c5f4-b", 1, labels.Set{"entrypointer.dev/deployment": "web", "entrypointer.dev/replicaset": "web-6c5f4"})
	c.labelled("report-29929875-c", 2, labels.Set{"entrypointer.dev/job": "report-29929875", "entrypointer.dev/cronjob": "report"})
	c.labelled("db-0", 3, labels.Set{"entrypointer.dev/statefulset": "db"})
	c.labelled("agent-d", 4, labels.Set{"entrypointer.dev/daemonset": "agent"})
	for named, want := range map[string]string{
		"deploy/web":          "[pod/web-7d4b9c6d8-a/main] of web-7d4b9c6d8-a\n[pod/web-6c5f4-b/main] of web-6c5f4-b\n",
		"rs/web-6c5f4":        "of web-6c5f4-b\n",
		"job/report-29929875": "of report-29929875-c\n",
		"cronjob/report":      "of report-29929875-c\n",
		"sts/db":              "of db-0\n",
		"ds/agent":            "of agent-d\n",
	} {
		warnings := &synced.Buffer{}
		text, err := c.printed(named, func(o *Options) { o.Warnings = warnings })
		require.NoError(t, err, named)
		require.Equal(t, want, text, named)
		if named == "cronjob/report" {
			require.Equal(t, "The logs of cronjob/report are those of the Jobs named report-MINUTES, as a CronJob names its Jobs.\n", warnings.String())
		} else {
			require.Empty(t, warnings.String(), named)
		}
	}
	_, err := c.printed("deployment/none", nil)
	require.ErrorContains(t, err, `no logs of deployment/none in namespace "tenant"`)
}

const jobReport = "/apis/batch/v1/namespaces/tenant/jobs/report"

// Only the API server knows of a container that has never reached the service.
func TestTheContainersOfAJobThatNeverReachedTheServiceAreNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.workloads = map[string]string{jobReport: `{"kind":"Job","spec":{"selector":{"matchLabels":{"job-name":"report"}}},"status":{"completionTime":"2026-11-18T11:06:45Z"}}`}
	c.labels = map[string]labels.Set{"report-a": {"job-name": "report"}, "other": {}}
	for pod := range c.labels {
		c.specs[pod], c.containers[pod] = sending("main"), containerStatus("main", terminatedAt, "")
	}
	warnings := &synced.Buffer{}
	_, err := c.printed("job/report", func(o *Options) { o.Warnings = warnings })
	requireCutOff(t, err)
	require.Equal(t, lostText("main", "report-a", "main"), warnings.String())
	_, err = c.printed("cronjob/report", nil)
	require.ErrorContains(t, err, "no logs of cronjob/report", "its Jobs have the pods")
	c.workloads[jobReport] = `{"spec":{"selector":{"matchExpressions":[{"key":"a","operator":"Like"}]}}}`
	_, err = c.printed("job/report", nil)
	require.ErrorContains(t, err, "asking for the pods of job/report: reading the selector of job/report")
}

func TestFollowingAJobEndsWithIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.workloads = map[string]string{jobReport: `{"kind":"Job","spec":{"selector":{"matchLabels":{"job-name":"report"}}}}`}
	c.labelled("report-a", 0, labels.Set{"entrypointer.dev/job": "report"})
	requireFollows(t, c, "job/report", "[pod/report-a/main] of report-a\n")
	c.mu.Lock()
	c.workloads[jobReport] = `{"kind":"Job","status":{"conditions":[{"type":"Failed","status":"True"}]}}`
	c.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	job, err := target.Parse("job/report", target.All())
	require.NoError(t, err)
	out := &synced.Buffer{}
	require.NoError(t, c.client.Print(ctx, Options{Target: job, Follow: true, Tail: -1, Printer: NewPrinter(out), Warnings: &synced.Buffer{}}))
	require.Equal(t, "[pod/report-a/main] of report-a\n", out.String())
}
