// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package runs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
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

// TestWhatCanRecoverHasntEnded has failures of what has no end.
func TestWhatCanRecoverHasntEnded(t *testing.T) {
	t.Parallel()
	const succeeded, ready = `"conditions":[{"type":"Succeeded","status":"False"}]`, `"conditions":[{"type":"Ready","status":"False"}]`
	for _, test := range []struct {
		typed, status string
		hasEnded      bool
	}{
		{"deployment", `"conditions":[{"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded"}]`, false},
		{"ksvc", ready, false},
		{"revision", ready, false},
		{"taskrun", succeeded, true},
		{"pipelinerun", succeeded, true},
		{"workflow", `"phase":"Failed"`, true},
		{"job", `"conditions":[{"type":"Failed","status":"True"}]`, true},
		{"pod", `"phase":"Failed"`, true},
		{"pod", `"phase":"Running"`, false},
	} {
		run := read(t, test.typed, `{"metadata":{"name":"x"},"status":{`+test.status+`}}`)
		require.Equal(t, test.hasEnded, run.HasEnded(), "%s %s", test.typed, test.status)
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

// TestWhatLacksTheLabelsOfItsPodsIsntGone selects by labels that the log service knows, and
// that the objects themselves don't have.
func TestWhatLacksTheLabelsOfItsPodsIsntGone(t *testing.T) {
	t.Parallel()
	var logs []any
	add := func(pod, owner string, labels map[string]string) {
		logs = append(logs, map[string]any{"metadata": map[string]any{"name": pod, "labels": labels}, "status": map[string]any{"owner": owner}})
	}
	add("release-pod", "taskrun/release-build", map[string]string{"tekton.dev/taskRun": "release-build", "tekton.dev/pipelineRun": "release"})
	add("old-pod", "taskrun/old-build", map[string]string{"tekton.dev/taskRun": "old-build", "tekton.dev/pipelineRun": "old"})
	add("web-1", "deployment/web", map[string]string{"entrypointer.dev/deployment": "web"})
	for at := range 60 {
		add(fmt.Sprintf("many-%02d", at), "", nil)
	}
	exist := map[string]string{
		"taskruns/release-build": `{"status":{"conditions":[{"type":"Succeeded","status":"True"}]}}`,
		"pipelineruns/release":   `{"status":{"conditions":[{"type":"Succeeded","status":"Unknown"}]}}`,
		"pods/web-1":             `{"status":{"phase":"Running"}}`,
		"deployments/web":        `{"status":{"readyReplicas":1}}`,
	}
	var asked atomic.Int32
	reader := &runs.Reader{Client: objectstest.Client(t, "tenant", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, what, _ := strings.Cut(r.URL.Path, "/namespaces/tenant/")
		plural, name, isOne := strings.Cut(what, "/")
		switch object := exist[what]; {
		case plural == "logs":
			objectstest.Respond(w, map[string]any{"items": logs})
		case plural == "workflows":
			objectstest.Refuse(w, http.StatusNotFound, "not found")
		case !isOne:
			objectstest.Respond(w, map[string]any{}) // nothing has the labels
		case object == "":
			asked.Add(1)
			objectstest.Refuse(w, http.StatusNotFound, "not found")
		default:
			asked.Add(1)
			objectstest.Respond(w, json.RawMessage(fmt.Sprintf(`{"metadata":{"name":%q},%s`, name, object[1:])))
		}
	}))}
	states := func(text string) (map[string]runs.State, int) {
		asked.Store(0)
		selector, err := runs.ParseSelector(text)
		require.NoError(t, err)
		list, err := reader.List(t.Context(), "", selector)
		require.NoError(t, err)
		all := map[string]runs.State{}
		for _, r := range list.Runs {
			require.True(t, r.Logged, r.Target)
			all[r.Target.String()] = r.State
		}
		return all, int(asked.Load())
	}
	all, requests := states("tekton.dev/pipelineRun in (release,old)")
	require.Equal(t, 5, requests, "each owner, and no pod")
	for named, want := range map[string]runs.State{
		"taskrun/release-build": runs.Succeeded, "pipelinerun/release": runs.Running, "taskrun/old-build": runs.Gone, "pipelinerun/old": runs.Gone,
		"deployment/web": runs.Ready, "pod/release-pod": runs.Gone, "pod/many-59": runs.Gone,
	} {
		require.Equal(t, want, all[named], named)
	}
	all, requests = states("entrypointer.dev/deployment=web")
	require.Equal(t, 50, requests)
	require.Equal(t, runs.Running, all["pod/web-1"])
	require.Equal(t, runs.Unknown, all["pod/many-59"], "it wasn't asked for")
	all, requests = states("")
	require.Zero(t, requests)
	require.Equal(t, runs.Gone, all["deployment/web"])
}

// TestWhatIsMadeMeanwhileIsntGone has the logs of pods listed before the pods: otherwise, a pod
// made in between has logs and isn't listed.
func TestWhatIsMadeMeanwhileIsntGone(t *testing.T) {
	t.Parallel()
	const pages = 20
	var logged atomic.Int32
	var early atomic.Bool
	reader := &runs.Reader{Client: objectstest.Client(t, "tenant", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/logs") && logged.Add(1) < pages:
			objectstest.Respond(w, map[string]any{"metadata": map[string]any{"continue": "more"}})
			return
		case logged.Load() < pages:
			early.Store(true)
		}
		objectstest.Respond(w, map[string]any{})
	}))}
	_, err := reader.List(t.Context(), "", nil)
	require.NoError(t, err)
	require.EqualValues(t, pages, logged.Load())
	require.False(t, early.Load(), "objects were listed before the logs")
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

// TestTheBytesOfARunAreThoseOfItsPods has the pods of a PipelineRun, of which one runs and one is
// of a log service that doesn't count.
func TestTheBytesOfARunAreThoseOfItsPods(t *testing.T) {
	t.Parallel()
	pod := func(name, task string, status map[string]any) any {
		status["owner"] = "taskrun/" + task
		return map[string]any{"metadata": map[string]any{"name": name, "labels": map[string]string{"tekton.dev/taskRun": task, "tekton.dev/pipelineRun": "release"}}, "status": status}
	}
	logs := []any{
		pod("a", "build", map[string]any{"bytes": 1000, "complete": true}),
		pod("b", "build", map[string]any{"bytes": 24, "complete": true}), // a retry
		pod("c", "test", map[string]any{"bytes": 5, "complete": false}),
		pod("d", "old", map[string]any{"complete": true}),
		pod("e", "long", map[string]any{"bytes": 7, "complete": true, "partial": true}),
	}
	var isCut atomic.Bool
	reader := &runs.Reader{Client: objectstest.Client(t, "tenant", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/taskruns/build"):
			objectstest.Refuse(w, http.StatusNotFound, "not found")
		case !strings.HasSuffix(r.URL.Path, "/logs"):
			objectstest.Respond(w, map[string]any{})
		case strings.Contains(r.URL.Query().Get("labelSelector"), "build"):
			objectstest.Respond(w, map[string]any{"items": logs[:2]})
		default:
			objectstest.Respond(w, map[string]any{"items": logs, "incomplete": isCut.Load()})
		}
	}))}
	printed := func() map[string]runs.Printed {
		list, err := reader.List(t.Context(), "", nil)
		require.NoError(t, err)
		all := map[string]runs.Printed{}
		for _, r := range list.Runs {
			all[r.Target.String()] = r.Printed
		}
		return all
	}
	all := printed()
	require.Equal(t, runs.Printed{Bytes: 1036, IsKnown: true, IsMore: true}, all["pipelinerun/release"])
	require.Equal(t, runs.Printed{Bytes: 1024, IsKnown: true}, all["taskrun/build"])
	require.Equal(t, runs.Printed{Bytes: 5, IsKnown: true, IsMore: true}, all["taskrun/test"])
	require.Equal(t, runs.Printed{IsMore: true}, all["taskrun/old"])
	require.Equal(t, runs.Printed{Bytes: 7, IsKnown: true, IsMore: true}, all["taskrun/long"])
	require.Equal(t, runs.Printed{Bytes: 1000, IsKnown: true}, all["pod/a"])
	isCut.Store(true)
	all = printed()
	require.True(t, all["taskrun/build"].IsMore, "other pods of it may have logs")
	require.False(t, all["pod/a"].IsMore)

	build, err := target.Parse("taskrun/build", target.All())
	require.NoError(t, err)
	gone, err := reader.Get(t.Context(), build)
	require.NoError(t, err)
	require.Equal(t, runs.Printed{Bytes: 1024, IsKnown: true}, gone.Printed)
}
