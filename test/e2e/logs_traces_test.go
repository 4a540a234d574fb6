// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/markdown"
)

// spansComeWithin bounds how long after the end of a run its spans are all there.
const spansComeWithin = 4 * time.Minute

// A jaeger is a Jaeger of the cluster.
type jaeger struct{ inside, outside string } // its URL for spans, and that for the test

// startJaeger builds Jaeger, which takes minutes the first time, and runs it until the end of
// the test.
func startJaeger(t *testing.T) jaeger {
	t.Helper()
	namespace := plainNamespace(t)
	address := startServer(t, namespace, plainPod("jaeger", corev1.Container{
		Name: "jaeger", Image: moduleImage(t, "test/destinations/jaeger", "github.com/jaegertracing/jaeger/cmd/all-in-one"),
		Args:           []string{"--collector.otlp.http.host-port=:4318", "--query.http-server.host-port=:16686", "--admin.http.host-port=:14269"},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(14269)}}},
	}))
	local, err := framework.Forward(t.Context(), namespace, "pod/jaeger", ":16686")
	require.NoError(t, err)
	return jaeger{"http://" + address + ":4318/v1/traces", "http://" + local}
}

// A jaegerSpan is a span that Jaeger has.
type jaegerSpan struct {
	SpanID, OperationName string
	References            []struct{ RefType, SpanID string }
}

// parent returns the span above a span, "" for a root.
func (s jaegerSpan) parent() string {
	for _, r := range s.References {
		if r.RefType == "CHILD_OF" {
			return r.SpanID
		}
	}
	return ""
}

// trace returns the spans of a trace, none if there is no such trace.
func (j jaeger) trace(id string) ([]jaegerSpan, error) {
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(j.outside + "/api/traces/" + id)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode == http.StatusNotFound {
		return nil, err
	}
	var answer struct {
		Data []struct{ Spans []jaegerSpan }
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Data) == 0 {
		return nil, fmt.Errorf("%d: %w: %s", response.StatusCode, err, body)
	}
	return answer.Data[0].Spans, nil
}

// paths returns the names of spans with those above them, as "RUN/test/only/run", sorted. A
// span whose parent isn't there begins with "?".
func paths(spans []jaegerSpan) (list []string) {
	byID := map[string]jaegerSpan{}
	for _, s := range spans {
		byID[s.SpanID] = s
	}
	for _, s := range spans {
		path := s.OperationName
		for above := s.parent(); above != ""; above = byID[above].parent() {
			if _, is := byID[above]; !is {
				path = "?/" + path
				break
			}
			path = byID[above].OperationName + "/" + path
		}
		list = append(list, path)
	}
	slices.Sort(list)
	return list
}

// tektonTraces has Tekton's controller send its spans to a URL until the end of the test.
func tektonTraces(t *testing.T, to string) {
	t.Helper()
	maps := cluster.Kube.CoreV1().ConfigMaps("tekton-pipelines")
	set := func(ctx context.Context, data string) {
		_, err := maps.Patch(ctx, "config-tracing", types.MergePatchType, []byte(data), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		set(ctx, `{"data":{"enabled":null,"endpoint":null}}`)
	})
	set(t.Context(), fmt.Sprintf(`{"data":{"enabled":"true","endpoint":%q}}`, to))
}

// It takes the log service and the tracing of the whole cluster, so it isn't parallel. Building
// Jaeger takes minutes the first time: hack/e2e-part.sh leaves it out.
func TestAPipelineRunIsOneTraceWithAndWithoutTektonsTracing(t *testing.T) {
	destination := startJaeger(t)
	namespace := newNamespace(t, map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/logs": "stream", "entrypointer.dev/trace": "true"}).Name
	shell := markdown.Shell{Environment: os.Environ()}
	require.NoError(t, shell.Run(t.Context(), commandsOf(t, "docs/exporting-logs.md", t.Name())))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, cluster.Kube.RbacV1().ClusterRoleBindings().Delete(ctx, "entrypointer-logs-traces", metav1.DeleteOptions{}))
		require.NoError(t, cluster.Kube.RbacV1().ClusterRoles().Delete(ctx, "entrypointer-logs-traces", metav1.DeleteOptions{}))
	})
	logServiceWith(t, func(spec *appsv1.DeploymentSpec) {
		container := &spec.Template.Spec.Containers[0]
		container.Args = append(container.Args, "-export-traces="+destination.inside, "-export-namespaces="+namespace)
	})
	task := func(name string, after ...string) pipelinev1.PipelineTask {
		return pipelinev1.PipelineTask{Name: name, RunAfter: after, TaskSpec: &pipelinev1.EmbeddedTask{TaskSpec: pipelinev1.TaskSpec{
			Steps: []pipelinev1.Step{{Name: "first", Image: image(t, "busybox:1.37"), Command: []string{"echo", "one"}}, {Name: "second", Image: image(t, "busybox:1.37"), Command: []string{"echo", "two"}}},
		}}}
	}
	run := func(name string) *pipelinev1.PipelineRun {
		_, err := cluster.Tekton.TektonV1().PipelineRuns(namespace).Create(t.Context(), &pipelinev1.PipelineRun{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       pipelinev1.PipelineRunSpec{PipelineSpec: &pipelinev1.PipelineSpec{Tasks: []pipelinev1.PipelineTask{task("lint"), task("test"), task("push", "lint", "test")}}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		ran, err := cluster.WaitForPipelineRun(t.Context(), namespace, name)
		require.NoError(t, err)
		return ran
	}

	id := strings.ReplaceAll(string(run("untraced").UID), "-", "")
	var want []string
	for _, task := range []string{"lint", "push", "test"} {
		want = append(want, "RUN/"+task)
		for _, step := range []string{"first", "second"} {
			want = append(want, "RUN/"+task+"/"+step, "RUN/"+task+"/"+step+"/run")
		}
	}
	want = append(want, "RUN")
	isWait := func(path string) bool { return strings.HasSuffix(path, "/wait") } // the first step may have none
	slices.Sort(want)
	eventually(t, spansComeWithin, "the spans of a run that Tekton doesn't trace", func() error {
		spans, err := destination.trace(id)
		if got := slices.DeleteFunc(paths(spans), isWait); err == nil && !slices.Equal(got, want) {
			err = fmt.Errorf("there are %q", got)
		}
		return err
	})

	tektonTraces(t, destination.inside)
	var traced string
	eventually(t, time.Minute, "Tekton to trace", func() error {
		ran := run(fmt.Sprintf("traced-%d", time.Now().UnixNano()))
		runs, err := cluster.Tekton.TektonV1().TaskRuns(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "tekton.dev/pipelineRun=" + ran.Name})
		if err != nil {
			return err
		}
		var headers map[string]string
		if err := json.Unmarshal([]byte(runs.Items[0].Annotations["tekton.dev/taskrunSpanContext"]), &headers); err != nil || headers["traceparent"] == "" {
			return fmt.Errorf("the TaskRun has no trace: %w", err)
		}
		traced = strings.Split(headers["traceparent"], "-")[1]
		return nil
	})
	eventually(t, spansComeWithin, "the spans of a run that Tekton traces", func() error {
		spans, err := destination.trace(traced)
		if err != nil {
			return err
		}
		steps := 0
		for _, path := range paths(spans) {
			isStep := strings.HasSuffix(path, "/first") || strings.HasSuffix(path, "/second")
			if strings.HasPrefix(path, "?") {
				return fmt.Errorf("%s has no parent", path)
			}
			if isStep && strings.Count(path, "/") > 0 {
				steps++
			}
			require.NotContains(t, path, "RUN/", "the log service makes no spans that Tekton has")
		}
		if steps != 6 {
			return fmt.Errorf("there are %d steps below Tekton's spans among %q", steps, paths(spans))
		}
		return nil
	})
}
