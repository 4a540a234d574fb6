// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/why"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/jsonschema"
	"github.com/entrypointer/entrypointer/test/tektonpods"
)

// The exit codes of the plugin (docs/cli.md).
const (
	isSo    = 0
	isNotSo = 79
)

// cliSchema describes what the plugin prints with -o json.
const cliSchema = "../../docs/cli.schema.json"

// asksWhy is the answer of kubectl entrypointer why to a user, and its exit code.
func (p plugin) asksWhy(t *testing.T, kubeconfig, namespace string, args ...string) (*why.Answer, int) {
	t.Helper()
	command := p.Command(t.Context(), append([]string{"why", "-n", namespace, "-o", "json"}, args...)...)
	if kubeconfig != "" {
		command.Env = append(command.Env, "KUBECONFIG="+kubeconfig)
	}
	out, err := command.Output()
	code := 0
	if failed, is := errors.AsType[*exec.ExitError](err); is {
		code = failed.ExitCode()
		require.Contains(t, []int{isNotSo}, code, string(failed.Stderr))
	} else {
		require.NoError(t, err)
	}
	require.NoError(t, jsonschema.Check(cliSchema, "why", out))
	var document why.Answers
	require.NoError(t, json.Unmarshal(out, &document), string(out))
	require.Len(t, document.Answers, 1)
	return document.Answers[0], code
}

// webDeployment is a Deployment with a pod that runs.
func webDeployment(t *testing.T, namespace string, annotations map[string]string) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": "web"}
	d, err := cluster.Kube.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1.DeploymentSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: annotations},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{busybox(t, "web", forever...), busybox(t, "istio-proxy", forever...)}},
			},
		},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	return d
}

func TestWhyAnswersForWhatIsThere(t *testing.T) {
	t.Parallel()
	kubectl := newPlugin(t)
	for name, test := range map[string]func(*testing.T, plugin){
		"a Deployment from the first annotation to the last": followsADeployment,
		"a run of a Task":            asksAboutATaskRun,
		"a Service of Knative":       asksAboutAService,
		"a pod that is refused":      asksAboutARefusal,
		"a user with few rights":     asksWithFewRights,
		"a tenant":                   asksAsATenant,
		"a namespace that opts out":  asksAboutAFormerNamespace,
		"a pod that another refuses": asksBeyondAQuota,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, kubectl)
		})
	}
}

func followsADeployment(t *testing.T, kubectl plugin) {
	namespace := newNamespace(t, nil).Name
	webDeployment(t, namespace, nil)
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "web"))
	answer, code := kubectl.asksWhy(t, "", namespace, "deploy/web")
	require.Equal(t, isNotSo, code)
	require.Equal(t, why.NamespaceNotOptedIn, answer.Now.Reason)
	require.Equal(t, why.NamespaceNotOptedIn, answer.Pods[0].Reason)

	time.Sleep(1100 * time.Millisecond) // times of the API server are whole seconds
	annotate, patch, _ := strings.Cut(answer.Now.Next, " && ")
	run(t, annotate)
	eventually(t, 30*time.Second, "the label to follow", func() error {
		answer, _ = kubectl.asksWhy(t, "", namespace, "deploy/web")
		if answer.Now.Reason == why.LabelMissing {
			return errors.New("it is missing")
		}
		return nil
	})
	require.Equal(t, why.DoesNotAsk, answer.Now.Reason)
	require.Equal(t, why.DoesNotAsk, answer.Pods[0].Reason, "to create it anew would change nothing")
	require.Equal(t, patch, answer.Now.Next)

	run(t, fmt.Sprintf("kubectl -n %s rollout pause deployment/web", namespace))
	run(t, answer.Now.Next)
	answer, code = kubectl.asksWhy(t, "", namespace, "deploy/web")
	require.Equal(t, isNotSo, code, "the pod is still the former one")
	require.Equal(t, why.Reason(pod.Injected), answer.Now.Reason)
	require.Equal(t, why.OlderThanOptIn, answer.Pods[0].Reason)

	run(t, fmt.Sprintf("kubectl -n %s rollout resume deployment/web", namespace))
	run(t, fmt.Sprintf("kubectl -n %s rollout status deployment/web --timeout=2m", namespace))
	eventually(t, time.Minute, "the former pod to go", func() error {
		if answer, code = kubectl.asksWhy(t, "", namespace, "deploy/web"); code != isSo {
			return fmt.Errorf("%v", answer.Pods[0])
		}
		return nil
	})
	require.Empty(t, answer.Pods[0].Differs)
	require.Equal(t, pod.DeliveryInitContainer, answer.Now.Delivery)
	require.True(t, answer.Now.Containers[0].Wrapped)
	require.Contains(t, answer.Now.Containers[1].Why, "proxy-containers")

	// An option of the namespace is for new pods.
	_, err := annotateKey(t.Context(), namespace, "entrypointer.dev/timeout", `"1h"`)
	require.NoError(t, err)
	eventually(t, 30*time.Second, "the option", func() error {
		if answer, _ = kubectl.asksWhy(t, "", namespace, "deploy/web"); len(answer.Pods[0].Differs) == 0 {
			return errors.New("the injector doesn't know it yet")
		}
		return nil
	})
	require.Equal(t, []string{"container web would have the flag -timeout=1h"}, answer.Pods[0].Differs)
	require.Contains(t, answer.Now.Containers[0].Options, why.Option{Name: "timeout", Value: "1h", Source: fmt.Sprintf("annotation entrypointer.dev/timeout of namespace %q", namespace)})
	require.Contains(t, answer.Pods[0].Next, "rollout restart deployment/web")
}

// run runs a command of an answer.
func run(t *testing.T, command string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "sh", "-c", command).CombinedOutput()
	require.NoError(t, err, "%s: %s", command, out)
}

func asksAboutATaskRun(t *testing.T, kubectl plugin) {
	namespace := optedInNamespace(t)
	_, err := cluster.Tekton.TektonV1().TaskRuns(namespace).Create(t.Context(), taskRun("build", pipelinev1.TaskSpec{
		Steps:    []pipelinev1.Step{{Name: "a", Image: image(t, "busybox:1.37"), Command: []string{"sleep", "30"}}},
		Sidecars: []pipelinev1.Sidecar{{Name: "db", Image: image(t, "busybox:1.37"), Command: []string{"sleep", "3600"}}},
	}), metav1.CreateOptions{})
	require.NoError(t, err)
	waitUntilRunning(t, namespace, "build-pod")
	answer, code := kubectl.asksWhy(t, "", namespace, "taskrun/build")
	require.Equal(t, isSo, code)
	for _, d := range []*why.Decision{answer.Now, answer.Pods[0]} {
		require.Equal(t, why.Reason(pod.Injected), d.Reason)
		require.Equal(t, []bool{true, false}, []bool{d.Containers[0].Wrapped, d.Containers[1].Wrapped})
		require.Contains(t, d.Containers[1].Why, "it is a sidecar of the TaskRun")
	}
	require.Empty(t, answer.Pods[0].Differs, "a new one would be the same")
}

func asksAboutAService(t *testing.T, kubectl plugin) {
	namespace := optedInNamespace(t)
	service := helloService(t, namespace, func(*servingv1.RevisionTemplateSpec) {})
	servingPod(t, service)
	answer, code := kubectl.asksWhy(t, "", namespace, "ksvc/"+service.Name)
	require.Equal(t, isSo, code)
	require.Empty(t, answer.Pods[0].Differs)
	whys := map[string]string{}
	for _, c := range answer.Now.Containers {
		whys[c.Name] = c.Why
	}
	require.Equal(t, "it is Knative's own", whys["queue-proxy"])
}

func asksAboutARefusal(t *testing.T, kubectl plugin) {
	namespace := optedInNamespace(t)
	webDeployment(t, namespace, map[string]string{pod.InjectAnnotation: "true", "entrypointer.dev/timeout": "10 minutes"})
	answer, code := kubectl.asksWhy(t, "", namespace, "deploy/web")
	require.Equal(t, isNotSo, code)
	require.Equal(t, why.Refused, answer.Now.Reason)
	require.Contains(t, answer.Now.Message, `"10 minutes" is wrong; it can be a duration above zero`)
}

func asksWithFewRights(t *testing.T, kubectl plugin) {
	namespace := optedInNamespace(t)
	createPod(t, namespace, askingPod("app", busybox(t, "main", forever...)))
	createPod(t, namespace, plainPod("other", busybox(t, "main", forever...)))
	viewer := withToken(t, reader(t, namespace, "views", true))
	answer, code := kubectl.asksWhy(t, viewer, namespace, "app")
	require.Equal(t, isSo, code)
	require.Nil(t, answer.Now)
	require.Equal(t, why.Reason(pod.Injected), answer.Pods[0].Reason)
	require.Contains(t, strings.Join(answer.Unknown, "\n"), "you may not create pods")

	answer, code = kubectl.asksWhy(t, viewer, namespace, "other")
	require.Equal(t, isNotSo, code)
	require.Contains(t, []why.Reason{why.DoesNotAsk, why.Unexplained}, answer.Pods[0].Reason)

	out, err := kubectl.Command(t.Context(), "why", "-n", namespace, "none").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), `reading pod/none in namespace "`+namespace+`": pods "none" not found`)
}

// A tenant may not read the operator's configuration, and gets the same answer.
func asksAsATenant(t *testing.T, kubectl plugin) {
	namespace := optedInNamespace(t)
	webDeployment(t, namespace, map[string]string{"entrypointer.dev/inject": "true", "timeout.entrypointer.dev/web": "1h"})
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "web"))
	tenant := withToken(t, reader(t, namespace, "tenant", false))
	run(t, fmt.Sprintf("kubectl -n %s create rolebinding tenant --clusterrole=edit --serviceaccount=%s:tenant", namespace, namespace))
	want, code := kubectl.asksWhy(t, "", namespace, "deploy/web")
	require.Equal(t, isSo, code)
	got, code := kubectl.asksWhy(t, tenant, namespace, "deploy/web")
	require.Equal(t, isSo, code)
	require.Equal(t, want, got)
	require.Contains(t, got.Now.Containers[1].Why, "proxy-containers")
}

func asksAboutAFormerNamespace(t *testing.T, kubectl plugin) {
	namespace := optedInNamespace(t)
	createPod(t, namespace, askingPod("app", busybox(t, "main", forever...)))
	_, err := cluster.Kube.CoreV1().Namespaces().Patch(t.Context(), namespace, types.MergePatchType, []byte(`{"metadata":{"annotations":{"entrypointer.dev/inject":null}}}`), metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, 30*time.Second, "the label to go", func() error {
		answer, code := kubectl.asksWhy(t, "", namespace, "app")
		if answer.Now.Reason != why.NamespaceNotOptedIn {
			return fmt.Errorf("it is %s", answer.Now.Reason)
		}
		require.Equal(t, isNotSo, code)
		require.Equal(t, why.Reason(pod.Injected), answer.Pods[0].Reason, "the pod is as it was")
		return nil
	})
}

func asksBeyondAQuota(t *testing.T, kubectl plugin) {
	namespace := optedInNamespace(t)
	_, err := cluster.Kube.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "none"}, Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: {}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	webDeployment(t, namespace, map[string]string{pod.InjectAnnotation: "true"})
	eventually(t, 30*time.Second, "the quota", func() error {
		answer, _ := kubectl.asksWhy(t, "", namespace, "deploy/web")
		if answer.Now.Reason != why.RefusedByAnother {
			return fmt.Errorf("it is %s", answer.Now.Reason)
		}
		require.Contains(t, answer.Now.Message, "exceeded quota")
		return nil
	})
}

// The preview is what admission does: by the same code, with the operator's configuration.
func TestInjectShowsWhatAdmissionChanges(t *testing.T) {
	t.Parallel()
	kubectl, namespace := newPlugin(t), optedInNamespace(t)
	p := askingPod("ordered", busybox(t, "web", forever...), busybox(t, "db", forever...))
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.Annotations["depends-on.entrypointer.dev/web"] = "db:started"
	manifest, err := json.Marshal(p)
	require.NoError(t, err)
	command := kubectl.Command(t.Context(), "inject", "-n", namespace, "-f", "-", "-o", "json")
	command.Stdin = strings.NewReader(string(manifest))
	out, err := command.Output()
	require.NoError(t, err)
	var shown corev1.Pod
	require.NoError(t, json.Unmarshal(out, &shown), string(out))

	command = kubectl.Command(t.Context(), "graph", "-n", namespace, "-f", "-")
	command.Stdin = strings.NewReader(string(manifest))
	out, err = command.Output()
	require.NoError(t, err)
	require.Equal(t, "web waits for db: started\n", string(out))

	want := createPod(t, namespace, p)
	require.Equal(t, want.Name, shown.Name)
	require.Equal(t, want.Annotations, shown.Annotations)
	require.Len(t, shown.Spec.InitContainers, 1)
	require.Equal(t, want.Spec.InitContainers[0].Image, shown.Spec.InitContainers[0].Image)
	for at, c := range shown.Spec.Containers {
		require.Equal(t, want.Spec.Containers[at].Command, c.Command)
		require.Equal(t, want.Spec.Containers[at].Args, c.Args)
		require.Equal(t, want.Spec.Containers[at].StartupProbe, c.StartupProbe)
	}

	// It exists now, and is shown all the same. One that isn't wrapped is a finding.
	p.Annotations = nil
	for _, test := range []struct {
		format, shows string
	}{{"diff", ""}, {"patch", "[]\n"}} {
		if manifest, err = json.Marshal(p); err != nil {
			require.NoError(t, err)
		}
		command = kubectl.Command(t.Context(), "inject", "-n", namespace, "-f", "-", "-o", test.format)
		command.Stdin = strings.NewReader(string(manifest))
		var stderr strings.Builder
		command.Stderr = &stderr
		out, err = command.Output()
		failed, is := errors.AsType[*exec.ExitError](err)
		require.True(t, is, "%v", err)
		require.Equal(t, isNotSo, failed.ExitCode(), stderr.String())
		require.Equal(t, test.shows, string(out))
		require.Contains(t, stderr.String(), "pod/ordered isn't wrapped")
	}
}

func TestStatusSaysWhatContainersDoAndWaitFor(t *testing.T) {
	t.Parallel()
	kubectl, namespace := newPlugin(t), optedInNamespace(t)
	p := askingPod("ordered",
		busybox(t, "db", "sh", "-c", "trap 'touch /tmp/ready' USR1; while true; do sleep 1 & wait; done"),
		busybox(t, "web", forever...), busybox(t, "debugged", forever...), busybox(t, "alone", forever...))
	p.Annotations["entrypointer.dev/containers"] = "db, web, debugged"
	p.Annotations["depends-on.entrypointer.dev/web"] = "db:ready"
	p.Annotations["ready-when.entrypointer.dev/db"] = "file:///tmp/ready"
	p.Annotations["pause.entrypointer.dev/debugged"] = "before-start"
	createPod(t, namespace, p)
	waitUntilRunning(t, namespace, "ordered")
	says := func(kubeconfig string, args ...string) (string, int) {
		command := kubectl.Command(t.Context(), append(args, "-n", namespace)...)
		if kubeconfig != "" {
			command.Env = append(command.Env, "KUBECONFIG="+kubeconfig)
		}
		out, err := command.CombinedOutput()
		if failed, is := errors.AsType[*exec.ExitError](err); is {
			return string(out), failed.ExitCode()
		}
		require.NoError(t, err)
		return string(out), 0
	}
	until := func(pattern string) {
		t.Helper()
		eventually(t, time.Minute, pattern, func() error {
			if text, _ := says("", "status", "ordered"); !regexp.MustCompile(pattern).MatchString(text) {
				return errors.New(text)
			}
			return nil
		})
	}
	until(`(?s)db +running for .*web +waiting for \w+\n +db:ready \(.*debugged +paused before-start.*alone +running for \w+, without the supervisor`)

	text, _ := says("", "status", "ordered", "-o", "wide")
	require.Regexp(t, `on node \S+, IP \S+\n  CONTAINER +READY +RESTARTS +PREVIOUS EXIT +STATUS\n  db +(yes|no) +0 +- +running for `, text)
	text, _ = says("", "status", "ordered", "-o", "json")
	require.NoError(t, jsonschema.Check(cliSchema, "status", []byte(text)))
	text, _ = says("", "status", "ordered", "pod/ordered")
	require.Equal(t, 2, strings.Count(text, "pod/ordered in namespace "+namespace), text)
	text, code := says("", "graph", "ordered")
	require.Equal(t, isSo, code, text)
	require.Equal(t, "web waits for db: ready\n", text)

	viewer := withToken(t, reader(t, namespace, "views", true))
	text, _ = says(viewer, "status", "ordered")
	require.Contains(t, text, "its supervisor doesn't tell: you may not (kubectl auth can-i create pods/exec)")
	text, code = says(viewer, "continue", "ordered")
	require.Equal(t, 1, code, text)
	require.Contains(t, text, "you may not")

	text, code = says("", "signal", "USR1", "ordered", "-c", "db")
	require.Equal(t, 0, code, text)
	require.Equal(t, "pod/ordered, container db: got the signal\n", text)
	text, code = says("", "continue", "ordered")
	require.Equal(t, 0, code, text)
	require.Equal(t, "pod/ordered, container debugged: continues\n", text)
	until(`(?s)web +running.*debugged +running`)
	text, code = says("", "continue", "ordered")
	require.Equal(t, isNotSo, code, text)
}

// withoutLogs leaves out the examples that send their output: whether there is a log
// service, only the cluster knows.
func withoutLogs(file string) bool { return strings.Contains(file, "logs") }

// Offline, the same code decides, with the operator's configuration from a file.
func TestInjectWithoutAClusterShowsTheSame(t *testing.T) {
	t.Parallel()
	kubectl, namespace := newPlugin(t), optedInNamespace(t)
	file := writtenConfig(t)
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	compared := 0
	for _, pattern := range []string{"*.yaml", "order/*.yaml", "options/*.yaml"} {
		files, err := filepath.Glob(filepath.Join(top, "examples", pattern))
		require.NoError(t, err)
		for _, path := range slices.DeleteFunc(files, withoutLogs) {
			name, err := filepath.Rel(filepath.Join(top, "examples"), path)
			require.NoError(t, err)
			objects, err := framework.Example(t.Context(), name)
			require.NoError(t, err)
			for _, object := range objects {
				if !slices.Contains([]string{"Deployment", "Job", "Pod"}, object.GetKind()) {
					continue
				}
				manifest, err := object.MarshalJSON()
				require.NoError(t, err)
				online, onlineWarnings := kubectl.injects(t, namespace, string(manifest))
				offline, offlineWarnings := kubectl.injects(t, namespace, string(manifest), "--offline", "--config", file, "--copier-image", copierImage(t))
				require.Equal(t, online, offline, name)
				require.Equal(t, onlineWarnings, offlineWarnings, name)
				compared++
			}
		}
	}
	require.Greater(t, compared, 5)
}

// TestInjectWithoutAClusterShowsTheSameOfTektonsPods compares for the pods of all of Tekton's
// examples, as Tekton's own builder makes them.
func TestInjectWithoutAClusterShowsTheSameOfTektonsPods(t *testing.T) {
	t.Parallel()
	kubectl, namespace := newPlugin(t), optedInNamespace(t)
	var manifests strings.Builder
	pods := 0
	for _, example := range tektonpods.Examples(t) {
		built, reason := example.Build(t, tektonpods.Flags["defaults"])
		manifest, err := json.Marshal(built)
		require.NoError(t, err)
		// Windows pods stay as they are, and Tekton's reconciler would replace the variable.
		if reason != "" || strings.Contains(string(manifest), "$(workspaces.") || strings.Contains(example.Name, "windows") {
			continue
		}
		pods++
		built.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		built.Namespace = namespace
		built.Spec.ServiceAccountName = "" // theirs aren't there
		manifest, err = json.Marshal(built)
		require.NoError(t, err)
		fmt.Fprintf(&manifests, "---\n%s\n", manifest)
	}
	require.Greater(t, pods, 65)
	online, _ := kubectl.injects(t, namespace, manifests.String()) // the API server warns of other fields
	require.GreaterOrEqual(t, strings.Count(online, pod.EntrypointPath), pods)
	offline, _ := kubectl.injects(t, namespace, manifests.String(), "--offline", "--config", writtenConfig(t), "--copier-image", copierImage(t))
	require.Equal(t, online, offline)
}

// injects is what kubectl entrypointer inject prints of manifests.
func (p plugin) injects(t *testing.T, namespace, manifests string, args ...string) (patches, warnings string) {
	t.Helper()
	command := p.Command(t.Context(), append([]string{"inject", "-n", namespace, "-f", "-", "-o", "patch"}, args...)...)
	command.Stdin = strings.NewReader(manifests)
	var stderr strings.Builder
	command.Stderr = &stderr
	out, err := command.Output()
	require.NoError(t, err, stderr.String())
	return string(out), stderr.String()
}

// writtenConfig is a file with the operator's configuration.
func writtenConfig(t *testing.T) string {
	t.Helper()
	cm, err := cluster.Kube.CoreV1().ConfigMaps(framework.SystemNamespace).Get(t.Context(), config.Name, metav1.GetOptions{})
	require.NoError(t, err)
	cm.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	written, err := json.Marshal(cm)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "config.json")
	require.NoError(t, os.WriteFile(file, written, 0o600))
	return file
}
