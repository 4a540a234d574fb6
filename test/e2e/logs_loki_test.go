// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/markdown"
)

// lokiForgets is for how long Loki may still show what it was told to delete: its queriers
// ask for deletions every five minutes.
const lokiForgets = 6 * time.Minute

// A loki is a Loki of the cluster.
type loki struct{ inside, outside string } // its URLs for pods, and for the test

// startLoki builds Loki, which takes minutes the first time, and runs it until the end of the
// test.
func startLoki(t *testing.T) loki {
	t.Helper()
	namespace := plainNamespace(t)
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	config, err := os.ReadFile(filepath.Join(top, "test", "destinations", "loki", "config.yaml"))
	require.NoError(t, err)
	_, err = cluster.Kube.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "loki"}, Data: map[string]string{"config.yaml": string(config)},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	server := plainPod("loki", corev1.Container{
		Name: "loki", Image: moduleImage(t, "test/destinations/loki", "github.com/grafana/loki/v3/cmd/loki"),
		Args: []string{"-config.file=/etc/loki/config.yaml", "-config.expand-env"},
		Env: []corev1.EnvVar{
			{Name: "ADDRESS", Value: "0.0.0.0"}, {Name: "PORT", Value: "3100"}, {Name: "GRPC_PORT", Value: "9095"}, {Name: "DIRECTORY", Value: "/loki"},
		},
		VolumeMounts:   []corev1.VolumeMount{{Name: "config", MountPath: "/etc/loki"}, {Name: "data", MountPath: "/loki"}},
		ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/ready", Port: intstr.FromInt32(3100)}}},
	})
	group := int64(65532)
	server.Spec.SecurityContext = &corev1.PodSecurityContext{FSGroup: &group}
	server.Spec.Volumes = []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "loki"}}}},
		{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
	}
	address := startServer(t, namespace, server)
	local, err := framework.Forward(t.Context(), namespace, "pod/loki", ":3100")
	require.NoError(t, err)
	return loki{"http://" + address + ":3100", "http://" + local}
}

// finds returns the lines of the last hour that a query finds.
func (l loki) finds(query string) (lines []string, err error) {
	values := url.Values{"query": {query}, "limit": {"1000"}, "start": {strconv.FormatInt(time.Now().Add(-time.Hour).UnixNano(), 10)}}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(l.outside + "/loki/api/v1/query_range?" + values.Encode())
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %d: %s", query, response.StatusCode, body)
	}
	var answer struct {
		Data struct {
			Result []struct{ Values [][2]string }
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, err
	}
	for _, r := range answer.Data.Result {
		for _, v := range r.Values {
			lines = append(lines, v[1])
		}
	}
	return lines, nil
}

// requireFound waits until a query finds a line.
func (l loki) requireFound(t *testing.T, line, query string) {
	t.Helper()
	eventually(t, time.Minute, query, func() error {
		lines, err := l.finds(query)
		if err == nil && !slices.Contains(lines, line) {
			err = fmt.Errorf("%q isn't among %q", line, lines)
		}
		return err
	})
}

// commandsOf returns the console blocks of a page that a test is named to run.
func commandsOf(t *testing.T, page, test string) []markdown.Block {
	t.Helper()
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	blocks, err := markdown.BlocksFor(filepath.Join(top, filepath.FromSlash(page)), test)
	require.NoError(t, err)
	return blocks
}

// It takes the log service of the whole cluster, so it isn't parallel. Building Loki takes
// minutes the first time, and Loki's forgetting as many: hack/e2e-part.sh leaves it out.
func TestAFailedRunIsFoundInLokiAndDeletedInBothPlaces(t *testing.T) {
	destination := startLoki(t)
	namespace, token := logsNamespace(t, "stream")
	logServiceWith(t, func(spec *appsv1.DeploymentSpec) {
		container := &spec.Template.Spec.Containers[0]
		container.Args = append(container.Args, "-export-otlp="+destination.inside+"/otlp/v1/logs", "-export-namespaces="+namespace)
	})
	kubectl, jane := newPlugin(t), withToken(t, token)
	const secret, trace = "hunter2", "0af7651916cd43dd8448eb211c80319c"
	step := func(script string) pipelinev1.TaskSpec {
		return pipelinev1.TaskSpec{Steps: []pipelinev1.Step{{Name: "only", Image: image(t, "busybox:1.37"), Command: []string{"sh", "-c", script}}}}
	}
	nightly := taskRun("nightly", step("echo "+secret+"; exit 1"))
	// As the TaskRuns of a PipelineRun have it, where Tekton is configured to trace.
	nightly.Annotations = map[string]string{"tekton.dev/taskrunSpanContext": `{"traceparent":"00-` + trace + `-b7ad6b7169203331-01"}`}
	failed, _ := runTask(t, namespace, nightly)
	require.Equal(t, corev1.ConditionFalse, failed.Succeeded)
	daily := taskRun("daily", step("echo all is well"))
	daily.Annotations = map[string]string{"entrypointer.dev/trace": "true"} // and Tekton doesn't trace
	_, ofDaily := runTask(t, namespace, daily)
	for _, name := range []string{"nightly", "daily"} {
		require.NoError(t, cluster.Tekton.TektonV1().TaskRuns(namespace).Delete(t.Context(), name, metav1.DeleteOptions{}))
		waitUntilPodIsGone(t, namespace, name+"-pod")
	}

	kubectl.reads(t, jane, "taskrun/nightly", "-n", namespace, "--list")
	kubectl.reads(t, jane, secret, "-n", namespace, "--grep", "hunter[0-9]")
	of := func(filter string) string { return fmt.Sprintf(`{k8s_namespace_name=%q} | %s`, namespace, filter) }
	byName, byTrace, good := of(`cicd_pipeline_task_run_id="nightly"`), of(`trace_id="`+trace+`"`), of(`cicd_pipeline_task_run_id="daily"`)
	destination.requireFound(t, secret, byName)
	destination.requireFound(t, secret, byTrace)
	destination.requireFound(t, "all is well", good)
	destination.requireFound(t, "all is well", of(`trace_id="`+strings.ReplaceAll(ofDaily.Labels["tekton.dev/taskRunUID"], "-", "")+`"`))

	text, err := kubectl.changes(t, os.Getenv("KUBECONFIG"), "delete-logs", "-n", namespace, "taskrun/nightly")
	require.NoError(t, err, text)
	out, err := kubectl.command(t.Context(), jane, "-n", namespace, "taskrun/nightly").CombinedOutput()
	require.Error(t, err)
	require.NotContains(t, string(out), secret)
	destination.requireFound(t, secret, byName) // deleting here deletes nothing there

	shell := markdown.Shell{Environment: os.Environ(), Names: map[string]string{"https://HOST:3100": destination.outside, "team-a": namespace}}
	require.NoError(t, shell.Run(t.Context(), commandsOf(t, "docs/exporting-logs.md", t.Name())))
	eventually(t, lokiForgets, "Loki to have forgotten the run", func() error {
		lines, err := destination.finds(byName)
		if err == nil && len(lines) > 0 {
			err = fmt.Errorf("it has %q", lines)
		}
		return err
	})
	lines, err := destination.finds(byTrace)
	require.NoError(t, err)
	require.Empty(t, lines)
	destination.requireFound(t, "all is well", good)
	kubectl.reads(t, jane, "all is well", "-n", namespace, "taskrun/daily")
}
