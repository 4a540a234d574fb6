// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"knative.dev/pkg/apis"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/markdown"
	"github.com/entrypointer/entrypointer/test/tracedrawing"
)

// spansComeWithin bounds how long after the end of a run its spans are all there.
const spansComeWithin = 4 * time.Minute

// pictures is a folder for a drawing of the trace. Jaeger's module has a placeholder in the place of
// its page, so that can't be pictured.
var pictures = flag.String("pictures", "", "write trace.svg, the trace that Jaeger has, to this folder")

// A jaeger is a Jaeger of the cluster.
type jaeger struct{ inside, outside string } // its URL for spans, and that for the test

// startJaeger builds Jaeger, which takes minutes the first time, and runs it until the end of
// the test.
func startJaeger(t *testing.T, namespace string) jaeger {
	t.Helper()
	address := startServer(t, namespace, plainPod("jaeger", corev1.Container{
		Name: "jaeger", Image: moduleImage(t, "test/destinations/jaeger", "github.com/jaegertracing/jaeger/cmd/all-in-one"),
		Args:           []string{"--collector.otlp.http.host-port=:4318", "--query.http-server.host-port=:16686", "--admin.http.host-port=:14269"},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(14269)}}},
	}))
	local, err := framework.Forward(t.Context(), namespace, "pod/jaeger", ":16686")
	require.NoError(t, err)
	return jaeger{"http://" + address + ":4318", "http://" + local}
}

// startCollector runs an OpenTelemetry collector that passes traces on to a URL, until the end
// of the test, and returns its own URL for spans.
func startCollector(t *testing.T, namespace, behind string) string {
	t.Helper()
	_, err := cluster.Kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "collector"},
		Data: map[string]string{"config.yaml": fmt.Sprintf(`
receivers: {otlp: {protocols: {http: {endpoint: "0.0.0.0:4318"}}}}
exporters: {otlp_http: {endpoint: %q}}
service:
  telemetry: {metrics: {level: none}}
  pipelines: {traces: {receivers: [otlp], exporters: [otlp_http]}}
`, behind)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	collector := plainPod("collector", corev1.Container{
		Name: "collector", Image: moduleImage(t, "test/destinations/collector", "."), Args: []string{"--config=/etc/collector/config.yaml"},
		VolumeMounts:   []corev1.VolumeMount{{Name: "config", MountPath: "/etc/collector"}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(4318)}}},
	})
	collector.Spec.Volumes = []corev1.Volume{{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
		LocalObjectReference: corev1.LocalObjectReference{Name: "collector"},
	}}}}
	return "http://" + startServer(t, namespace, collector) + ":4318/v1/traces"
}

// A jaegerSpan is a span that Jaeger has. Its times are microseconds.
type jaegerSpan struct {
	SpanID, OperationName, ProcessID string
	References                       []struct{ RefType, SpanID string }
	StartTime, Duration              int64
	Tags                             []jaegerTag
	resource                         []jaegerTag // what Jaeger calls the tags of the process
}

// A jaegerTag is an attribute of a span, or of its resource.
type jaegerTag struct {
	Key   string
	Value any
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

// end returns when a span ended.
func (s jaegerSpan) end() int64 { return s.StartTime + s.Duration }

// attributes returns those attributes of a span and of its resource that a test asks for.
func (s jaegerSpan) attributes(asked []string) map[string]string {
	found := map[string]string{}
	for _, tag := range slices.Concat(s.Tags, s.resource) {
		if slices.Contains(asked, tag.Key) {
			found[tag.Key] = fmt.Sprint(tag.Value)
		}
	}
	return found
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
		Data []struct {
			Spans     []jaegerSpan
			Processes map[string]struct {
				ServiceName string // which Jaeger takes out of the tags
				Tags        []jaegerTag
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil || len(answer.Data) == 0 {
		return nil, fmt.Errorf("%d: %w: %s", response.StatusCode, err, body)
	}
	spans := answer.Data[0].Spans
	for at := range spans {
		of := answer.Data[0].Processes[spans[at].ProcessID]
		spans[at].resource = slices.Concat(of.Tags, []jaegerTag{{"service.name", of.ServiceName}})
	}
	return spans, nil
}

// draw draws a trace into the folder for pictures.
func draw(t *testing.T, spans []jaegerSpan) {
	t.Helper()
	var drawn []tracedrawing.Span
	for _, s := range spans {
		drawn = append(drawn, tracedrawing.Span{
			ID: s.SpanID, Parent: s.parent(), Name: s.OperationName,
			Start: time.UnixMicro(s.StartTime), Took: time.Duration(s.Duration) * time.Microsecond,
		})
	}
	drawing, err := tracedrawing.Draw("The trace of a PipelineRun: its tasks, the steps of each, and in each step the wait for its turn and the run of its command, with a hook in one of them", drawn)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(*pictures, "trace.svg"), drawing, 0o644))
}

// pathsOf returns the name of each span with those above it, as "RUN/test/only/run". That of a span
// whose parent isn't there begins with "?".
func pathsOf(spans []jaegerSpan) (paths []string) {
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
		paths = append(paths, path)
	}
	return paths
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

// sequence is the spec of a PipelineRun of three tasks of two steps each: a hook comes before
// the last step of the second task, and the last step of all fails.
func sequence(t *testing.T) *pipelinev1.PipelineSpec {
	t.Helper()
	task := func(name, last string, annotations map[string]string, after ...string) pipelinev1.PipelineTask {
		step := func(name, script string) pipelinev1.Step {
			return pipelinev1.Step{Name: name, Image: image(t, "busybox:1.37"), Command: []string{"sh", "-c", script}}
		}
		return pipelinev1.PipelineTask{Name: name, RunAfter: after, TaskSpec: &pipelinev1.EmbeddedTask{
			Metadata: pipelinev1.PipelineTaskMetadata{Annotations: annotations},
			TaskSpec: pipelinev1.TaskSpec{Steps: []pipelinev1.Step{step("first", "echo $TRACEPARENT; sleep 0.5"), step("second", last)}},
		}}
	}
	return &pipelinev1.PipelineSpec{Tasks: []pipelinev1.PipelineTask{
		task("lint", "sleep 0.2", nil),
		task("test", "sleep 1", map[string]string{"before-start.entrypointer.dev/second": "sleep 0.3"}),
		task("push", "sleep 0.5; exit 3", nil, "lint", "test"),
	}}
}

// spansOfSequence returns the spans of such a run that Tekton doesn't trace, each with
// attributes of it and of its resource. reason is that of the TaskRun that failed.
func spansOfSequence(namespace, run, reason string) map[string]map[string]string {
	want := map[string]map[string]string{"RUN": {
		"cicd.pipeline.action.name": "RUN", "cicd.pipeline.name": run, "cicd.pipeline.run.id": run, "cicd.pipeline.result": "failure",
		"error.type": "Failed", "span.kind": "server", "service.name": run, "k8s.namespace.name": namespace,
	}}
	for _, task := range []string{"lint", "test", "push"} {
		taskRun, path := run+"-"+task, "RUN/"+task
		add := func(path, task, id, reason string, isLast bool) {
			want[path] = map[string]string{
				"cicd.pipeline.task.name": task, "cicd.pipeline.task.run.id": id, "cicd.pipeline.task.run.result": "success",
				"cicd.pipeline.run.id": run, "span.kind": "internal", "k8s.namespace.name": namespace,
			}
			if isLast {
				want[path]["cicd.pipeline.task.run.result"], want[path]["error.type"] = "failure", reason
			}
		}
		add(path, task, taskRun, reason, task == "push")
		for _, step := range []string{"first", "second"} {
			isLast := task == "push" && step == "second"
			container, path := "step-"+step, path+"/"+step
			add(path, step, taskRun+"/"+container, "Exited", isLast)
			want[path]["k8s.pod.name"], want[path]["k8s.container.name"], want[path]["process.exit.code"] = taskRun+"-pod", container, "0"
			want[path+"/run"] = map[string]string{"process.command": "/tekton/bin/entrypoint", "process.exit.code": "0", "k8s.container.name": container}
			if isLast {
				want[path]["process.exit.code"], want[path+"/run"]["process.exit.code"] = "3", "3"
			}
		}
		want[path+"/second/wait"] = map[string]string{"entrypointer.wait.outcome": "met"}
	}
	want["RUN/test/second/hook"] = map[string]string{"entrypointer.hook": "1", "process.command": "/bin/sh", "process.exit.code": "0"}
	return want
}

// traceOf returns the id of the trace that begins with an object.
func traceOf(uid types.UID) string { return strings.ReplaceAll(string(uid), "-", "") }

// waitFor waits until a trace has the spans that are wanted, with their attributes, and returns all of
// its spans by their paths.
func (j jaeger) waitFor(t *testing.T, id string, want map[string]map[string]string) (found map[string]jaegerSpan) {
	t.Helper()
	eventually(t, spansComeWithin, "the spans of trace "+id, func() error {
		spans, err := j.trace(id)
		if err == nil {
			found, err = sameSpans(spans, want)
		}
		return err
	})
	return found
}

// sameSpans compares spans with those that are wanted, and returns them by their paths. That a first
// step waits is as it comes.
func sameSpans(spans []jaegerSpan, want map[string]map[string]string) (found map[string]jaegerSpan, err error) {
	found = map[string]jaegerSpan{}
	var wrong []string
	for at, path := range pathsOf(spans) {
		if _, is := want[path]; !is && !strings.HasSuffix(path, "/first/wait") || found[path].SpanID != "" {
			wrong = append(wrong, "unexpected: "+path)
		}
		found[path] = spans[at]
	}
	for path, attributes := range want {
		span, is := found[path]
		// Those that are fine have no error.
		if got := span.attributes(append(slices.Collect(maps.Keys(attributes)), "error.type")); !is || !maps.Equal(got, attributes) {
			wrong = append(wrong, fmt.Sprintf("%s has %v, not %v", path, got, attributes))
		}
		above := path[:max(0, strings.LastIndex(path, "/"))]
		if parent, is := found[above]; is && (span.StartTime < parent.StartTime || span.end() > parent.end()) {
			wrong = append(wrong, fmt.Sprintf("%s lasts from %d to %d, beyond %s", path, span.StartTime, span.end(), above))
		}
	}
	slices.Sort(wrong)
	if len(wrong) > 0 {
		return nil, errors.New(strings.Join(wrong, "\n"))
	}
	return found, nil
}

// It takes the log service and the tracing of the whole cluster, so it isn't parallel. Building
// Jaeger takes minutes the first time: hack/e2e-part.sh leaves it out.
func TestAPipelineRunIsOneTraceWithAndWithoutTektonsTracing(t *testing.T) {
	servers := plainNamespace(t)
	destination := startJaeger(t, servers)
	collector := startCollector(t, servers, destination.inside)
	namespace := newNamespace(t, map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/logs": "tee", "entrypointer.dev/trace": "true"}).Name
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
		container.Args = append(container.Args, "-export-traces="+collector, "-export-namespaces="+namespace)
	})
	run := func(name string) *pipelinev1.PipelineRun {
		_, err := cluster.Tekton.TektonV1().PipelineRuns(namespace).Create(t.Context(), &pipelinev1.PipelineRun{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: pipelinev1.PipelineRunSpec{PipelineSpec: sequence(t)},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		ran, err := cluster.WaitForPipelineRun(t.Context(), namespace, name)
		require.NoError(t, err)
		return ran
	}

	// Work of other kinds has a trace of its own each.
	alone := taskRun("alone", pipelinev1.TaskSpec{Steps: []pipelinev1.Step{{Name: "first", Image: image(t, "busybox:1.37"), Command: []string{"true"}}}})
	_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Create(t.Context(), alone, metav1.CreateOptions{})
	require.NoError(t, err)
	job, err := cluster.Kube.BatchV1().Jobs(namespace).Create(t.Context(), &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly"},
		Spec:       batchv1.JobSpec{Template: template(askingPod("nightly", busybox(t, "main", "true")))},
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	id := traceOf(run("untraced").UID)
	failed, err := cluster.WaitForTaskRun(t.Context(), namespace, "untraced-push")
	require.NoError(t, err)
	spans := destination.waitFor(t, id, spansOfSequence(namespace, "untraced", failed.Status.GetCondition(apis.ConditionSucceeded).Reason))
	first := spans["RUN/lint/first"]
	require.Equal(t, "00-"+id+"-"+first.SpanID+"-01\n", logs(t, namespace, "untraced-lint-pod", "step-first"), "what the command continues is its step")
	if *pictures != "" {
		draw(t, slices.Collect(maps.Values(spans)))
	}
	ran, err := cluster.WaitForTaskRun(t.Context(), namespace, "alone")
	require.NoError(t, err)
	destination.waitFor(t, traceOf(ran.UID), map[string]map[string]string{
		"alone":           {"cicd.pipeline.task.run.id": "alone", "cicd.pipeline.task.run.result": "success", "k8s.namespace.name": namespace},
		"alone/first":     {"cicd.pipeline.task.run.id": "alone/step-first", "k8s.pod.name": "alone-pod"},
		"alone/first/run": {"process.exit.code": "0"},
	})
	destination.waitFor(t, traceOf(job.UID), map[string]map[string]string{
		"main":     {"k8s.job.name": "nightly", "k8s.container.name": "main", "process.exit.code": "0"},
		"main/run": {"process.command": "true", "process.exit.code": "0"},
	})

	tektonTraces(t, destination.inside+"/v1/traces")
	var traced string
	above := map[string]string{} // the span of each TaskRun that Tekton passes on
	eventually(t, time.Minute, "Tekton to trace", func() error {
		ran := run(fmt.Sprintf("traced-%d", time.Now().UnixNano()))
		runs, err := cluster.Tekton.TektonV1().TaskRuns(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "tekton.dev/pipelineRun=" + ran.Name})
		if err != nil {
			return err
		}
		traced = ""
		for _, of := range runs.Items {
			var headers map[string]string
			if err := json.Unmarshal([]byte(of.Annotations["tekton.dev/taskrunSpanContext"]), &headers); err != nil || headers["traceparent"] == "" {
				return fmt.Errorf("TaskRun %q has no trace: %w", of.Name, err)
			}
			ids := strings.Split(headers["traceparent"], "-")
			if traced != "" && traced != ids[1] {
				return errors.New("Tekton began to trace during the run, which has several traces")
			}
			traced, above[of.Name] = ids[1], ids[2]
		}
		return nil
	})
	eventually(t, spansComeWithin, "the spans of a run that Tekton traces", func() error {
		spans, err := destination.trace(traced)
		if err != nil {
			return err
		}
		steps, paths := 0, pathsOf(spans)
		for at, path := range paths {
			require.NotContains(t, path, "RUN/", "the log service makes no spans that Tekton has")
			if strings.HasPrefix(path, "?") {
				return fmt.Errorf("%s has no parent", path)
			}
			const runID = "cicd.pipeline.task.run.id"
			if taskRun, _, is := strings.Cut(spans[at].attributes([]string{runID})[runID], "/step-"); is {
				require.Equal(t, above[taskRun], spans[at].parent(), path)
				steps++
			}
		}
		if steps != 6 {
			return fmt.Errorf("there are %d steps below Tekton's spans among %q", steps, paths)
		}
		return nil
	})
}
