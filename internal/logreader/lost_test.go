// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/synced"
)

// sending is the specification of a container that sends its output.
func sending(name string) string {
	return `{"name":"` + name + `","command":["/entrypointer/bin/entrypoint"],"args":["-logs=stream","-logs-container=` + name + `","--","make"]}`
}

// terminatedAt is the state of a container that has run for five seconds.
const terminatedAt = `"terminated":{"exitCode":1,"reason":"Error","startedAt":"2026-11-18T11:06:40Z","finishedAt":"2026-11-18T11:06:45Z"}`

// lostText is the warning about a container that sent nothing.
func lostText(container, pod, see string) string {
	return `The log service has nothing of container "` + container + `" of pod "` + pod + `", which ended at 2026-11-18T11:06:45Z (Error): it didn't reach the service before its end, or retention has deleted its log. See kubectl logs ` + pod + " -c " + see + ".\n"
}

func TestAContainerThatNeverReachedTheServiceIsNamed(t *testing.T) {
	t.Parallel()
	const running = `"running":{"startedAt":"2026-11-18T11:06:50Z"}`
	for name, test := range map[string]struct {
		spec, status string
		streams      func(c *cluster)
		lost         string
	}{
		"it has ended":         {sending("main"), containerStatus("main", terminatedAt, ""), nil, lostText("main", "p", "main")},
		"it runs":              {sending("main"), containerStatus("main", running, ""), nil, ""},
		"it waits":             {sending("main"), containerStatus("main", `"waiting":{"reason":"ContainerCreating"}`, ""), nil, ""},
		"it has no status":     {sending("main"), "", nil, ""},
		"it never ran":         {sending("main"), containerStatus("main", `"terminated":{"exitCode":128,"reason":"StartError","startedAt":"1970-01-01T00:00:00Z","finishedAt":"2026-11-18T11:06:45Z"}`, ""), nil, ""},
		"its start is unknown": {sending("main"), containerStatus("main", `"terminated":{"exitCode":137,"reason":"ContainerStatusUnknown","startedAt":null,"finishedAt":null}`, ""), nil, ""},
		"it prints nothing": {sending("main"), containerStatus("main", terminatedAt, ""), func(c *cluster) {
			c.end(c.stream("p", "main", start(0), "events", "{}\n"), 3)
			c.end(c.stream("p", "other", start(0), "stdout", "x\n"), 2)
		}, ""},
		"it began a moment earlier": {sending("main"), containerStatus("main", terminatedAt, ""), func(c *cluster) { c.end(c.stream("p", "main", start(-100), "stdout", "x\n"), 2) }, ""},
		"only a later run has sent": {sending("main"), `{"name":"main","state":{` + running + `},"lastState":{` + terminatedAt + `}}`, func(c *cluster) { c.end(c.stream("p", "main", start(10_000), "stdout", "x\n"), 2) }, lostText("main", "p", "main --previous")},
		"only another pod has sent": {sending("main"), containerStatus("main", terminatedAt, ""), func(c *cluster) {
			id, err := c.store.Create(c.t.Context(), streams.Source{Namespace: "tenant", Pod: "p", PodUID: "uid-former", Container: "main", Start: start(0), Name: "stdout"})
			require.NoError(c.t, err)
			c.end(id, 0)
		}, lostText("main", "p", "main")},
		"it isn't wrapped":           {`{"name":"main","command":["make"],"args":["-logs=stream"]}`, containerStatus("main", terminatedAt, ""), nil, ""},
		"it is wrapped without logs": {strings.ReplaceAll(sending("main"), `"-logs=stream","-logs-container=main",`, "") + "," + `{"name":"a"}`, containerStatus("main", terminatedAt, ""), nil, ""},
		"the flag is the command's":  {`{"name":"main","command":["/entrypointer/bin/entrypoint"],"args":["--","x","-logs=stream"]}`, containerStatus("main", terminatedAt, ""), nil, ""},
	} {
		for _, follow := range []bool{false, true} {
			c := newCluster(t)
			c.specs["p"], c.containers["p"] = test.spec, test.status
			if test.streams != nil {
				test.streams(c)
			}
			if follow {
				c.ends("Failed")
			}
			warnings := &synced.Buffer{}
			_, err := c.followed("p", func(o *Options) { o.Follow, o.Warnings = follow, warnings })
			require.Equal(t, test.lost, warnings.String(), name)
			switch {
			case test.lost != "":
				requireCutOff(t, err)
			case test.streams == nil:
				require.ErrorContains(t, err, "the log service has no logs of pod/p", name)
			default:
				require.NoError(t, err, name)
			}
		}
	}
}

// The log service creates a stream that found the storage full when there is space again.
func TestAContainerOfWhichTheServiceCouldStoreNothingIsNamed(t *testing.T) {
	t.Parallel()
	const empty = "The log service has nothing of container \"main\" of pod \"p\", which began at 2026-11-18T11:06:40Z: it could store nothing before the container's end.\n"
	for name, test := range map[string]struct {
		change    func(c *cluster)
		container string
		warning   string
	}{
		"its pod is gone":                {func(c *cluster) { c.gone = true }, "", empty},
		"it has ended":                   {func(c *cluster) { c.containers["p"] = containerStatus("main", terminatedAt, "") }, "main", empty},
		"it runs":                        {func(*cluster) {}, "", ""},
		"another container is asked for": {func(c *cluster) { c.gone = true }, "other", ""},
		"its output was cut off": {func(c *cluster) {
			c.gone = true
			c.stream("p", "main", start(0), "stdout")
		}, "", cutOffText("stdout", "main", "p")},
		"it has events": {func(c *cluster) {
			c.gone = true
			c.stream("p", "main", start(0), "events", "{}\n")
		}, "", ""},
	} {
		c := newCluster(t)
		c.stream("p", "main", start(0), "events")
		test.change(c)
		warnings := &synced.Buffer{}
		_, err := c.printed("p", func(o *Options) { o.Container, o.Warnings = test.container, warnings })
		require.Equal(t, test.warning, warnings.String(), name)
		if test.warning != "" {
			requireCutOff(t, err)
		} else {
			require.Error(t, err, name)
			require.NotErrorAs(t, err, new(*CutOffError), name)
		}
	}

	c := newCluster(t)
	c.stream("p", "main", start(0), "events")
	c.ends("Failed")
	warnings := &synced.Buffer{}
	_, err := c.followed("p", func(o *Options) { o.Warnings = warnings })
	requireCutOff(t, err)
	require.Equal(t, empty, warnings.String())
}

func TestStepsThatEndedInAnOutageAreNamedWithTheOthers(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.specs["build-pod"] = sending("step-a") + "," + sending("step-b") + "," + sending("step-c")
	c.containers["build-pod"] = containerStatus("step-a", terminatedAt, "") + "," + containerStatus("step-b", terminatedAt, "") + "," + containerStatus("step-c", terminatedAt, "")
	for _, step := range []string{"step-a", "step-c"} {
		id, err := c.store.Create(t.Context(), streams.Source{Namespace: "tenant", Pod: "build-pod", PodUID: "uid-build-pod", Container: step, Start: start(0), Name: "stdout", Labels: map[string]string{"tekton.dev/taskRun": "build"}})
		require.NoError(t, err)
		require.NoError(t, c.store.Write(t.Context(), id, 0, []byte(step+"\n")))
		if step == "step-a" {
			c.end(id, 7)
		}
	}
	lost, cutOff := lostText("step-b", "build-pod", "step-b"), cutOffText("stdout", "step-c", "build-pod")
	for want, change := range map[string]func(*Options){
		cutOff + lost: func(*Options) {},
		lost:          func(o *Options) { o.Container = "step-b" },
		cutOff:        func(o *Options) { o.Container = "step-c" },
	} {
		warnings := &synced.Buffer{}
		_, err := c.printed("taskrun/build", func(o *Options) {
			o.Warnings = warnings
			change(o)
		})
		requireCutOff(t, err)
		require.Equal(t, want, warnings.String())
	}
	warnings := &synced.Buffer{}
	_, err := c.printed("taskrun/build", func(o *Options) { o.Warnings, o.Container = warnings, "step-a" })
	require.NoError(t, err)
	require.Empty(t, warnings.String())
}

func TestAContainerThatEndedBeforeWhatIsAskedForIsNotNamed(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.specs["p"], c.containers["p"] = sending("main"), containerStatus("main", terminatedAt, "")
	c.end(c.stream("p", "other", start(0), "stdout", "x\n"), 2)
	_, err := c.printed("p", func(o *Options) { o.Printer.Since = time.UnixMilli(base).Add(time.Hour) })
	require.NoError(t, err)
	_, err = c.printed("p", func(o *Options) { o.Printer.Until = time.UnixMilli(base).Add(-time.Hour) })
	require.NoError(t, err)
	_, err = c.printed("p", func(o *Options) { o.Printer.Since = time.UnixMilli(base) })
	requireCutOff(t, err)
}

func TestLogsArePrintedBeforeTheErrorThatPodsAreUnknown(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.ill = true
	c.end(c.stream("p", "main", start(0), "stdout", "x\n"), 2)
	out, err := c.printed("p", nil)
	require.Equal(t, "x\n", out)
	require.ErrorContains(t, err, "asking for the pods of pod/p")
}

// A container that ends after the pods were listed has sent its output before the streams are.
func TestThePodsAreListedOnceAndThenTheStreamsOnce(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.end(c.stream("p", "main", start(0), "stdout", "x\n"), 2)
	_, err := c.printed("p", nil)
	require.NoError(t, err)
	const pod, logs = "/api/v1/namespaces/tenant/pods/p", "/apis/logs.entrypointer.dev/v1alpha1/namespaces/tenant/logs"
	require.Equal(t, []string{pod, logs}, c.asked[:2])
	require.NotContains(t, c.asked[2:], pod)
	require.NotContains(t, c.asked[2:], logs)
}

func TestWithoutAnAnswerOfTheAPIServerNothingElseIsAsked(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.server.Close()
	_, err := c.printed("p", nil)
	require.ErrorContains(t, err, "asking for the pods of pod/p")
	require.NotContains(t, err.Error(), "logs.entrypointer.dev")
}

func TestWithoutLogsTheErrorSaysThatTheServiceMayNotHaveBeenReached(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.forbidden = true
	_, err := c.printed("p", nil)
	require.ErrorContains(t, err, "have reached the service before their end")
}

func TestTheContainersThatAdmissionHasWrappedAreKnown(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../pkg/pod/testdata/logs.yaml")
	require.NoError(t, err)
	var wrapped corev1.Pod
	require.NoError(t, yaml.Unmarshal(text, &wrapped))
	c := wrapped.Spec.Containers[0]
	require.True(t, containerSpec{c.Name, c.Command, c.Args}.sends())
}
