// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	k8sv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/plugin/pkg/admission/limitranger"

	"github.com/entrypointer/entrypointer/pkg/lookup"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Privileged pods are PodSecurity's to forbid: --allow-privileged is what clusters run with.
func TestMain(m *testing.M) {
	capabilities.Setup(true, 0)
	os.Exit(m.Run())
}

// cluster is what an API server does to a pod that is created in a namespace.
type cluster struct {
	webhook    *pod.Injector // nil if the namespace didn't opt in
	limitRange *corev1.LimitRange
}

// create admits the pod, in the order in which an API server does: defaults,
// the plugins that mutate, our webhook, both again because it changed
// something, validation.
func (c cluster) create(t *testing.T, sent *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	admitted := c.mutate(t, sent)
	if c.webhook != nil {
		patched, err := c.inject(t, admitted)
		if err != nil {
			return nil, err
		}
		admitted = c.mutate(t, patched)
		again, err := c.inject(t, admitted)
		require.NoError(t, err, "what was admitted once is admitted again")
		require.Equal(t, asJSON(t, admitted), asJSON(t, again), "defaults and other webhooks don't make us start again")
	}
	internal := toInternal(t, admitted)
	podutil.DropDisabledPodFields(internal, nil)
	options := podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
	options.ResourceIsPod = true
	if err := corevalidation.ValidatePodCreate(internal, options).ToAggregate(); err != nil {
		return nil, err
	}
	if c.limitRange != nil {
		if err := limitranger.PodValidateLimitFunc(c.limitRange, internal); err != nil {
			return nil, err
		}
	}
	return admitted, nil
}

// mutate is what happens to a pod before webhooks, and after one changed it.
func (c cluster) mutate(t *testing.T, sent *corev1.Pod) *corev1.Pod {
	t.Helper()
	mutated := sent.DeepCopy()
	k8sv1.SetObjectDefaults_Pod(mutated)
	if c.limitRange == nil {
		return mutated
	}
	internal := toInternal(t, mutated)
	require.NoError(t, limitranger.PodMutateLimitFunc(c.limitRange, internal))
	var limited corev1.Pod
	require.NoError(t, k8sv1.Convert_core_Pod_To_v1_Pod(internal, &limited, nil))
	return &limited
}

// inject is the webhook, by way of JSON. An error is a refusal.
func (c cluster) inject(t *testing.T, sent *corev1.Pod) (*corev1.Pod, error) {
	t.Helper()
	result, err := c.webhook.Inject(t.Context(), "tenant", sent)
	if err != nil {
		var refusal *pod.Refusal
		require.ErrorAs(t, err, &refusal, "whoever made the pod must learn what is wrong with it")
		return nil, err
	}
	operations, err := jsonpatch.DecodePatch(asJSON(t, pod.Patch(sent, result.Pod)))
	require.NoError(t, err)
	document, err := operations.Apply(asJSON(t, sent))
	require.NoError(t, err)
	var patched corev1.Pod
	require.NoError(t, json.Unmarshal(document, &patched))
	return &patched, nil
}

func isRefusal(err error) bool {
	_, ok := errors.AsType[*pod.Refusal](err)
	return ok
}

func toInternal(t *testing.T, external *corev1.Pod) *core.Pod {
	t.Helper()
	var internal core.Pod
	require.NoError(t, k8sv1.Convert_v1_Pod_To_core_Pod(external.DeepCopy(), &internal, nil))
	return &internal
}

func asJSON(t *testing.T, value any) []byte {
	t.Helper()
	encoded, err := json.Marshal(value)
	require.NoError(t, err)
	return encoded
}

// newWebhook wraps pods of images that run what image says.
func newWebhook(image lookup.Image) *pod.Injector {
	return &pod.Injector{
		CopierImage:     "registry.example.test/copier@sha256:1111111111111111111111111111111111111111111111111111111111111111",
		EntrypointImage: "registry.example.test/entrypoint@sha256:1111111111111111111111111111111111111111111111111111111111111111",
		Lookup:          everyImage(image),
	}
}

// everyImage stands for a registry in which all images are the same.
type everyImage lookup.Image

func (e everyImage) Lookup(_ context.Context, query lookup.Query) (*lookup.Image, error) {
	image := lookup.Image(e)
	image.Pinned = query.Image + "@sha256:2222222222222222222222222222222222222222222222222222222222222222"
	return &image, nil
}

// ordinary is an image with both.
var ordinary = lookup.Image{Configs: []lookup.Config{{Platform: "linux/amd64", Entrypoint: []string{"/app"}, Cmd: []string{"serve"}}}}
