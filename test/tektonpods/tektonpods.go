// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package tektonpods makes the pods of Tekton's own examples, by Tekton's own builder, for
// tests.
package tektonpods

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	tektonconfig "github.com/tektoncd/pipeline/pkg/apis/config"
	"github.com/tektoncd/pipeline/pkg/apis/pipeline"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	pipelinev1beta1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1beta1"
	tektonpod "github.com/tektoncd/pipeline/pkg/pod"
	"github.com/tektoncd/pipeline/pkg/workspace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apimachinery/pkg/version"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	logtesting "knative.dev/pkg/logging/testing"
	"sigs.k8s.io/yaml"
)

// Flags are the settings of Tekton's that change the shape of a pod.
// Alpha makes nothing impossible, so every example is made with it.
var Flags = map[string]map[string]string{
	"defaults":        {"enable-api-fields": "alpha"},
	"stable":          {"enable-api-fields": "stable"},
	"sidecar logs":    {"enable-api-fields": "alpha", "results-from": "sidecar-logs"},
	"native sidecars": {"enable-api-fields": "alpha", "results-from": "sidecar-logs", "enable-kubernetes-sidecar": "true"},
	"secure":          {"enable-api-fields": "alpha", "set-security-context": "true", "set-security-context-read-only-root-filesystem": "true"},
	"kept pods":       {"enable-api-fields": "alpha", "keep-pod-on-cancel": "true", "running-in-environment-with-injected-sidecars": "true"},
}

// An Example is one TaskRun, with what its file says besides.
type Example struct {
	Name string // the file, and a number if it has several TaskRuns
	Run  *pipelinev1.TaskRun
	Spec *pipelinev1.TaskSpec // as it was built last

	tasks   map[string]pipelinev1.TaskSpec
	actions map[string]pipelinev1beta1.StepActionSpec
	objects []runtime.Object
	cluster *fake.Clientset // has its secrets and service accounts; for reading only
}

// Examples reads examples/v1/taskruns of the Tekton module that go.mod
// names. Images come from a registry of ours, which has one of each name.
func Examples(t testing.TB) []*Example {
	t.Helper()
	location, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/tektoncd/pipeline").Output()
	require.NoError(t, err)
	root := filepath.Join(strings.TrimSpace(string(location)), "examples", "v1", "taskruns")
	host := imageRegistry(t)

	var examples []*Example
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		file, err := filepath.Rel(root, path)
		require.NoError(t, err)
		examples = append(examples, parseExamples(t, file, publicImage.ReplaceAllFunc(text, func(image []byte) []byte {
			return []byte(host.push(t, string(image)))
		}))...)
		return nil
	}))
	return examples
}

func parseExamples(t testing.TB, file string, text []byte) []*Example {
	t.Helper()
	shared := Example{
		Name: file, tasks: map[string]pipelinev1.TaskSpec{}, actions: map[string]pipelinev1beta1.StepActionSpec{},
		objects: []runtime.Object{&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "tenant"}}},
	}
	var runs []*pipelinev1.TaskRun
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, file)
		if run := shared.read(t, document); run != nil {
			runs = append(runs, run)
		}
	}
	shared.cluster = fake.NewClientset(shared.objects...)
	shared.cluster.Discovery().(*fakediscovery.FakeDiscovery).FakedServerVersion = &version.Info{Major: "1", Minor: "35"}
	var examples []*Example
	for i, run := range runs {
		one := shared
		one.Run = run
		if len(runs) > 1 {
			one.Name += " " + strconv.Itoa(i+1)
		}
		examples = append(examples, &one)
	}
	return examples
}

// read reads an object of the file. It returns a TaskRun, and keeps what others say.
func (e *Example) read(t testing.TB, document []byte) *pipelinev1.TaskRun {
	t.Helper()
	var kind metav1.TypeMeta
	require.NoError(t, yaml.Unmarshal(document, &kind), e.Name)
	switch kind.Kind {
	case "TaskRun":
		run := parse[pipelinev1.TaskRun](t, document)
		if run.Name == "" {
			run.Name = run.GenerateName + "x"
		}
		run.Namespace, run.UID = "tenant", "1"
		return run
	case "Task":
		task := parse[pipelinev1.Task](t, document)
		e.tasks[task.Name] = task.Spec
	case "StepAction":
		action := parse[pipelinev1beta1.StepAction](t, document)
		e.actions[action.Name] = action.Spec
	case "ServiceAccount":
		account := parse[corev1.ServiceAccount](t, document)
		account.Namespace = "tenant"
		e.objects = append(e.objects, account)
	case "Secret":
		secret := parse[corev1.Secret](t, document)
		secret.Namespace = "tenant"
		e.objects = append(e.objects, secret)
	}
	return nil
}

// Build does what Tekton's reconciler does, but for the substitution of
// variables, which a pod doesn't notice. The reason says why there is no pod.
func (e *Example) Build(t testing.TB, flags map[string]string) (built *corev1.Pod, reason string) {
	t.Helper()
	features, err := tektonconfig.NewFeatureFlagsFromMap(flags)
	require.NoError(t, err)
	ctx := logtesting.TestContextWithLogger(t)
	settings := tektonconfig.FromContextOrDefaults(ctx)
	settings.FeatureFlags = features
	ctx = tektonconfig.ToContext(ctx, settings)

	run := e.Run.DeepCopy()
	run.SetDefaults(ctx)
	spec, reason := e.taskSpec(ctx, run)
	if reason != "" {
		return nil, reason
	}
	for i, binding := range run.Spec.Workspaces {
		if binding.VolumeClaimTemplate != nil {
			run.Spec.Workspaces[i].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "made-of-a-template"}
		}
	}
	spec, err = workspace.Apply(ctx, *spec, run.Spec.Workspaces, workspace.CreateVolumes(run.Spec.Workspaces))
	require.NoError(t, err, e.Name)
	e.Spec = spec

	cache, err := tektonpod.NewEntrypointCache(e.cluster)
	require.NoError(t, err)
	builder := tektonpod.Builder{Images: tektonImages, KubeClient: e.cluster, EntrypointCache: cache}
	built, err = builder.Build(ctx, run, *spec.DeepCopy())
	require.NoError(t, err, e.Name)
	return built, ""
}

var tektonImages = pipeline.Images{
	EntrypointImage: "entrypoint", ShellImage: "busybox", NopImage: "nop",
	WorkingDirInitImage: "workingdirinit", SidecarLogResultsImage: "sidecarlogresults",
}

// taskSpec is the run's own, or that of a Task in the same file, its steps
// replaced by the StepActions that they refer to.
func (e *Example) taskSpec(ctx context.Context, run *pipelinev1.TaskRun) (*pipelinev1.TaskSpec, string) {
	spec := run.Spec.TaskSpec
	if ref := run.Spec.TaskRef; ref != nil {
		if ref.Resolver != "" {
			return nil, "its Task comes from elsewhere, by resolver " + string(ref.Resolver)
		}
		named, ok := e.tasks[ref.Name]
		if !ok {
			return nil, "there is no Task " + strconv.Quote(ref.Name) + " in its file"
		}
		spec = &named
	}
	spec = spec.DeepCopy()
	for i, step := range spec.Steps {
		if step.Ref == nil {
			continue
		}
		if step.Ref.Resolver != "" {
			return nil, "its StepAction comes from elsewhere, by resolver " + string(step.Ref.Resolver)
		}
		action, ok := e.actions[step.Ref.Name]
		if !ok {
			return nil, "there is no StepAction " + strconv.Quote(step.Ref.Name) + " in its file"
		}
		spec.Steps[i] = *action.ToStep()
		spec.Steps[i].Name = step.Name
	}
	spec.SetDefaults(ctx)
	return spec, ""
}

// publicImage is an image as the examples write it.
var publicImage = regexp.MustCompile(`\b(mirror\.gcr\.io|gcr\.io|ghcr\.io|cgr\.dev|mcr\.microsoft\.com)/[\w./:@-]*\w`)

// imageHost is a registry in this process, which gets each image that is asked for.
type imageHost struct {
	host string
	has  map[string]bool
}

func imageRegistry(t testing.TB) *imageHost {
	t.Helper()
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	return &imageHost{host: strings.TrimPrefix(server.URL, "http://"), has: map[string]bool{}}
}

// push makes an image of the same path, whose ENTRYPOINT names it, and returns
// its reference.
func (h *imageHost) push(t testing.TB, image string) string {
	t.Helper()
	_, path, _ := strings.Cut(image, "/")
	path, _, _ = strings.Cut(path, "@")
	path, _, _ = strings.Cut(path, ":")
	reference, err := name.ParseReference(h.host + "/" + path + ":latest")
	require.NoError(t, err)
	if !h.has[path] {
		made, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
			OS: "linux", Architecture: "amd64",
			Config: v1.Config{Entrypoint: []string{"/" + path}, Cmd: []string{"cmd"}},
		})
		require.NoError(t, err)
		require.NoError(t, remote.Write(reference, made))
		h.has[path] = true
	}
	return reference.String()
}

func parse[T any](t testing.TB, document []byte) *T {
	t.Helper()
	var object T
	require.NoError(t, yaml.Unmarshal(document, &object))
	return &object
}
