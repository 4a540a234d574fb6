// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package runs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/objects/objectstest"
	"github.com/entrypointer/entrypointer/internal/runs"
	"github.com/entrypointer/entrypointer/internal/target"
)

// read returns an object of a type, of which the API server has this text.
func read(t *testing.T, typed, object string) *runs.Run {
	t.Helper()
	of, err := target.Parse(typed+"/x", target.All())
	require.NoError(t, err)
	reader := &runs.Reader{Client: objectstest.Client(t, "tenant", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		objectstest.Respond(w, json.RawMessage(object))
	}))}
	run, err := reader.Get(t.Context(), of)
	require.NoError(t, err)
	return run
}

// TestAStatusBecomesAState has the statuses of all kinds.
func TestAStatusBecomesAState(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ typed, spec, status, want string }{
		{"pod", ``, ``, "unknown"},
		{"pod", ``, `"phase":"Pending"`, "waiting"},
		{"pod", ``, `"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]`, "waiting Unschedulable"},
		{"pod", ``, `"phase":"Pending","containerStatuses":[{"state":{"waiting":{"reason":"ContainerCreating"}}}]`, "waiting"},
		{"pod", ``, `"phase":"Pending","containerStatuses":[{"state":{"waiting":{"reason":"ErrImagePull"}}}]`, "waiting ErrImagePull"},
		{"pod", ``, `"phase":"Running","containerStatuses":[{"state":{"running":{}}},{"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]`, "running CrashLoopBackOff"},
		{"pod", ``, `"phase":"Running","containerStatuses":[{"state":{"terminated":{"exitCode":2,"finishedAt":"2026-11-28T12:00:00Z"}}}]`, "running exit code 2"},
		{"pod", ``, `"phase":"Succeeded","containerStatuses":[{"state":{"terminated":{"exitCode":0,"finishedAt":"2026-11-28T12:00:00Z"}}}]`, "succeeded until 12:00:00"},
		{"pod", ``, `"phase":"Failed","initContainerStatuses":[{"state":{"terminated":{"exitCode":3,"finishedAt":"2026-11-28T12:00:00Z"}}}],"containerStatuses":[{"state":{"waiting":{"reason":"PodInitializing"}}}]`, "failed exit code 3 until 12:00:00"},
		{"pod", ``, `"phase":"Failed","reason":"Evicted"`, "failed Evicted"},
		{"job", ``, ``, "waiting"},
		{"job", ``, `"active":1`, "running"},
		{"job", ``, `"conditions":[{"type":"Suspended","status":"True"}]`, "waiting Suspended"},
		{"job", ``, `"active":1,"conditions":[{"type":"Failed","status":"False"}]`, "running"},
		{"job", ``, `"completionTime":"2026-11-28T12:00:00Z","conditions":[{"type":"Complete","status":"True"}]`, "succeeded until 12:00:00"},
		{"job", ``, `"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","lastTransitionTime":"2026-11-28T12:00:00Z"}]`, "failed BackoffLimitExceeded until 12:00:00"},
		{"deployment", ``, ``, "not ready 0 of 1"},
		{"deployment", `"replicas":0`, ``, "ready 0 of 0"},
		{"deployment", `"replicas":3`, `"readyReplicas":3`, "ready 3 of 3"},
		{"deployment", `"replicas":3`, `"readyReplicas":2,"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]`, "failed ProgressDeadlineExceeded"},
		{"statefulset", `"replicas":2`, `"readyReplicas":1`, "not ready 1 of 2"},
		{"daemonset", ``, `"desiredNumberScheduled":2,"numberReady":2`, "ready 2 of 2"},
		{"taskrun", ``, ``, "waiting"},
		{"taskrun", ``, `"conditions":[{"type":"Succeeded","status":"Unknown","reason":"Running"}]`, "running"},
		{"taskrun", ``, `"conditions":[{"type":"Succeeded","status":"Unknown","reason":"ExceededNodeResources"}]`, "running ExceededNodeResources"},
		{"taskrun", ``, `"completionTime":"2026-11-28T12:00:00Z","conditions":[{"type":"Succeeded","status":"False","reason":"TaskRunTimeout"}]`, "failed TaskRunTimeout until 12:00:00"},
		{"pipelinerun", ``, `"completionTime":"2026-11-28T12:00:00Z","conditions":[{"type":"Succeeded","status":"True","reason":"Completed"}]`, "succeeded Completed until 12:00:00"},
		{"ksvc", ``, ``, "waiting"},
		{"ksvc", ``, `"conditions":[{"type":"Ready","status":"True"}]`, "ready"},
		{"revision", ``, `"conditions":[{"type":"Ready","status":"Unknown","reason":"Deploying"}]`, "not ready Deploying"},
		{"revision", ``, `"conditions":[{"type":"Ready","status":"False","reason":"ExitCode1"}]`, "failed ExitCode1"},
		{"workflow", ``, ``, "waiting"},
		{"workflow", ``, `"phase":"Error","finishedAt":"2026-11-28T12:00:00Z"`, "failed until 12:00:00"},
	} {
		run := read(t, test.typed, fmt.Sprintf(`{"metadata":{"name":"x"},"spec":{%s},"status":{%s}}`, test.spec, test.status))
		got := strings.TrimSpace(string(run.State) + " " + run.Reason)
		if !run.Ended.IsZero() {
			got += " until " + run.Ended.Format(time.TimeOnly)
		}
		require.Equal(t, test.want, got, "%s %s", test.typed, test.status)
	}
}

// TestMoreThanAreReadIsSaid lists a kind without an end.
func TestMoreThanAreReadIsSaid(t *testing.T) {
	t.Parallel()
	asked := 0
	reader := &runs.Reader{Client: objectstest.Client(t, "tenant", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/jobs") {
			objectstest.Refuse(w, http.StatusNotFound, "not found")
			return
		}
		items := make([]any, 500)
		for at := range items {
			items[at] = map[string]any{"metadata": map[string]any{"name": fmt.Sprintf("job-%d-%d", asked, at)}}
		}
		asked++
		objectstest.Respond(w, map[string]any{"metadata": map[string]any{"continue": "more"}, "items": items})
	}))}
	list, err := reader.List(t.Context(), "job", nil)
	require.NoError(t, err)
	require.Len(t, list.Runs, runs.MostOfKind)
	require.Equal(t, runs.MostOfKind/500, asked)
	require.Contains(t, list.Notes, "There are more than 2000 jobs, and the rest isn't listed: choose by labels.")
}

// TestAnObjectThatIsntThereIsAnError asks for one that nobody knows, and for one that the user
// may not read, of which the log service isn't asked.
func TestAnObjectThatIsntThereIsAnError(t *testing.T) {
	t.Parallel()
	of, err := target.Parse("job/x", target.All())
	require.NoError(t, err)
	for code, want := range map[int]string{http.StatusNotFound: "no such job", http.StatusForbidden: "no such right"} {
		reader := &runs.Reader{Client: objectstest.Client(t, "tenant", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/logs") {
				objectstest.Respond(w, map[string]any{})
				return
			}
			objectstest.Refuse(w, code, want)
		}))}
		_, err = reader.Get(t.Context(), of)
		require.ErrorContains(t, err, want)
	}
}
