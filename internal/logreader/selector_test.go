// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package logreader

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/logs/streams"
	"github.com/entrypointer/entrypointer/internal/synced"
	"github.com/entrypointer/entrypointer/internal/target"
)

// selected are the printed logs of the pods of a selector.
func (c *cluster) selected(selector string, change func(*Options)) (string, error) {
	c.t.Helper()
	parsed, err := labels.Parse(selector)
	require.NoError(c.t, err)
	return c.printed("ignored", func(o *Options) {
		o.Target, o.Selector = target.Target{}, parsed
		if change != nil {
			change(o)
		}
	})
}

// labelled stores a line of a pod's container main, with labels that the log service keeps.
func (c *cluster) labelled(pod string, later int64, kept labels.Set) {
	c.t.Helper()
	id, err := c.store.Create(c.t.Context(), streams.Source{Namespace: "tenant", Pod: pod, PodUID: "uid-" + pod, Container: "main", Start: start(later), Name: "stdout", Labels: kept})
	require.NoError(c.t, err)
	require.NoError(c.t, c.store.Write(c.t.Context(), id, 0, []byte("of "+pod+"\n")))
	c.end(id, int64(len("of "+pod+"\n")))
}

func TestByItsOwnLabelsTheServiceFindsLogsOfPodsThatAreGone(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.forbidden = true // the user needn't list pods for that
	c.labelled("build-pod", 0, labels.Set{"tekton.dev/pipelineRun": "release", "tekton.dev/pipelineTask": "build"})
	c.labelled("test-pod", 1, labels.Set{"tekton.dev/pipelineRun": "release", "tekton.dev/pipelineTask": "test"})
	c.labelled("other-pod", 2, labels.Set{"tekton.dev/pipelineRun": "other", "tekton.dev/pipelineTask": "build"})
	for selector, want := range map[string]string{
		"tekton.dev/pipelineRun=release":                                     "[pod/build-pod/main] of build-pod\n[pod/test-pod/main] of test-pod\n",
		"tekton.dev/pipelineTask in (build)":                                 "[pod/build-pod/main] of build-pod\n[pod/other-pod/main] of other-pod\n",
		"tekton.dev/pipelineRun==release,tekton.dev/pipelineTask=build":      "of build-pod\n",
		"tekton.dev/pipelineRun=release,tekton.dev/pipelineTask!=build":      "of test-pod\n",
		"!serving.knative.dev/service,tekton.dev/pipelineRun in (other)":     "of other-pod\n",
		"tekton.dev/pipelineRun=release,tekton.dev/pipelineTask notin (a,b)": "[pod/build-pod/main] of build-pod\n[pod/test-pod/main] of test-pod\n",
	} {
		text, err := c.selected(selector, nil)
		require.NoError(t, err, selector)
		require.Equal(t, want, text, selector)
	}
	_, err := c.selected("tekton.dev/pipelineRun=none", nil)
	require.ErrorContains(t, err, `no logs of pods with the labels "tekton.dev/pipelineRun=none" in namespace "tenant"`)
}

func TestByOtherLabelsThePodsThatExistAreRead(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.labels = map[string]labels.Set{"web-1": {"app": "web"}, "web-2": {"app": "web"}, "db-0": {"app": "db"}}
	for pod := range c.labels {
		c.specs[pod] = sending("main")
	}
	c.labelled("web-1", 0, nil)
	c.labelled("web-2", 1, nil)
	c.labelled("db-0", 2, nil)
	c.labelled("web-0", 3, nil) // is gone
	both := "[pod/web-1/main] of web-1\n[pod/web-2/main] of web-2\n"
	for selector, want := range map[string]string{
		"app=web": both, "app in (web)": both, "app!=db": both,
		"app=db": "of db-0\n", "app,app!=web": "of db-0\n",
		"app=db,!tekton.dev/taskRun":  "of db-0\n",
		"tekton.dev/taskRun in (a,b)": "",
		"tekton.dev/taskRun=":         "",
	} {
		text, err := c.selected(selector, nil)
		if want == "" {
			require.ErrorContains(t, err, "of pods that are gone, it finds logs by the labels tekton.dev/taskRun, ", selector)
			continue
		}
		require.NoError(t, err, selector)
		require.Equal(t, want, text, selector)
	}
	_, err := c.selected("app=web", func(o *Options) { o.Container = "mian" })
	require.ErrorContains(t, err, `pods with the labels "app=web" in namespace "tenant": there is no container "mian": use main; did you mean "main"?`)
	c.containers["web-2"] = containerStatus("main", `"terminated":{"exitCode":1,"reason":"Error","startedAt":"2026-11-18T11:16:40Z","finishedAt":"2026-11-18T11:16:45Z"}`, "")
	warnings := &synced.Buffer{}
	_, err = c.selected("app=web", func(o *Options) { o.Warnings = warnings })
	requireCutOff(t, err)
	require.Contains(t, warnings.String(), `nothing of container "main" of pod "web-2"`)
	c.forbidden = true
	_, err = c.selected("app=web", nil)
	require.ErrorContains(t, err, `listing the pods with the labels "app=web" in namespace "tenant": forbidden: you need the right to list pods`)
	c.forbidden, c.ill = false, true
	_, err = c.selected("app=web", nil)
	require.ErrorContains(t, err, `listing the pods with the labels "app=web"`)
}

func TestTheLogsOfVeryManyPodsAreNotReadAtOnce(t *testing.T) {
	t.Parallel()
	for _, follow := range []bool{false, true} {
		c := newCluster(t)
		for at := range MostSelected {
			c.specs[fmt.Sprintf("web-%d", at)] = sending("main")
		}
		c.labelled("web-0", 0, nil)
		text, err := c.selected("app=web", nil)
		require.NoError(t, err)
		require.Equal(t, "of web-0\n", text)
		c.specs["web"] = sending("main")
		_, err = c.selected("app=web", func(o *Options) { o.Follow = follow })
		require.ErrorContains(t, err, "too many pods: there are more than 50: use a selector of fewer pods")
	}
}

// A Deployment that is scaled up.
func TestAFollowerSeesNewPodsOfASelector(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	parsed, err := labels.Parse("app=web")
	require.NoError(t, err)
	out := &synced.Buffer{}
	f := newFollower(c.client, Options{Selector: parsed, Tail: -1, Printer: NewPrinter(out), Warnings: io.Discard})
	f.listInterval = 20 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- f.run(ctx) }()
	for at, want := range []string{"[pod/web-0/main] of web-0\n", "[pod/web-0/main] of web-0\n[pod/web-1/main] of web-1\n"} {
		name := fmt.Sprintf("web-%d", at)
		c.mu.Lock()
		c.specs[name] = sending("main")
		c.mu.Unlock()
		c.labelled(name, int64(at), nil)
		require.Eventually(t, func() bool { return out.String() == want }, 5*time.Second, 10*time.Millisecond)
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}
