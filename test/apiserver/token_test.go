// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/informers"
	"k8s.io/kubernetes/pkg/apis/core"
	k8sv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/plugin/pkg/admission/serviceaccount"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// tokens is the plugin of API servers that mounts the tokens of service accounts.
func tokens(t *testing.T, automount *bool) *serviceaccount.Plugin {
	t.Helper()
	factory := informers.NewSharedInformerFactory(nil, 0)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: "tenant"}, AutomountServiceAccountToken: automount}
	require.NoError(t, factory.Core().V1().ServiceAccounts().Informer().GetStore().Add(account))
	plugin := serviceaccount.NewServiceAccount()
	plugin.SetExternalKubeInformerFactory(factory)
	return plugin
}

// mountToken has the plugin admit a pod.
func mountToken(t *testing.T, plugin *serviceaccount.Plugin, sent *corev1.Pod) *corev1.Pod {
	t.Helper()
	internal := toInternal(t, sent)
	attributes := admission.NewAttributesRecord(internal, nil, core.Kind("Pod").WithVersion("version"), "tenant", sent.Name,
		core.Resource("pods").WithVersion("version"), "", admission.Create, &metav1.CreateOptions{}, false, nil)
	require.NoError(t, plugin.Admit(t.Context(), attributes, nil))
	var admitted corev1.Pod
	require.NoError(t, k8sv1.Convert_core_Pod_To_v1_Pod(internal, &admitted, nil))
	return &admitted
}

// tokenMounts are the volumes at the path of tokens, "-" for a container without one.
func tokenMounts(containers []corev1.Container) (volumes []string) {
	for _, c := range containers {
		volume := "-"
		for _, m := range c.VolumeMounts {
			if m.MountPath == serviceaccount.DefaultAPITokenMountPath {
				volume, _, _ = strings.Cut(m.Name, "access-")
			}
		}
		volumes = append(volumes, volume)
	}
	return volumes
}

// API servers ask webhooks again if anything has changed a pod after them
// (https://github.com/kubernetes/kubernetes/blob/v1.36.3/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/mutating/reinvocationcontext.go).
func TestAnAPIServerAsksOnceAboutAPodThatGetsATokenMounted(t *testing.T) {
	const ours, tools, token, none = "entrypointer-bin", "entrypointer-tools", "kube-api-", "-"
	plain := func(*corev1.Pod, *pod.Injector) {}
	withTools := func(p *corev1.Pod, _ *pod.Injector) { p.Annotations["entrypointer.dev/tools"] = "ni" }
	images := func(_ *corev1.Pod, webhook *pod.Injector) { webhook.Policy.Delivery = pod.DeliveryImageVolume }
	for name, test := range map[string]struct {
		change    func(*corev1.Pod, *pod.Injector)
		automount *bool // of the service account
		init      []string
		container string
	}{
		"an init container":                         {plain, nil, []string{ours, token}, token},
		"an init container and tools":               {withTools, nil, []string{ours, tools, token}, token},
		"an image volume":                           {images, nil, []string{token}, token},
		"an image volume and tools":                 {func(p *corev1.Pod, webhook *pod.Injector) { images(p, webhook); withTools(p, webhook) }, nil, []string{tools, token}, token},
		"a pod that wants no token":                 {func(p *corev1.Pod, _ *pod.Injector) { p.Spec.AutomountServiceAccountToken = new(false) }, nil, []string{none, none}, none},
		"a service account without tokens":          {plain, new(false), []string{ours, none}, none},
		"a pod that wants what its account doesn't": {func(p *corev1.Pod, _ *pod.Injector) { p.Spec.AutomountServiceAccountToken = new(true) }, new(false), []string{ours, token}, token},
	} {
		t.Run(name, func(t *testing.T) {
			webhook := newWebhook(ordinary)
			webhook.Tools = []pod.Tool{{Name: "ni", Image: "registry.example.test/ni@sha256:" + strings.Repeat("6", 64), Path: "/usr/bin/ni"}}
			sent := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "tenant", Annotations: map[string]string{pod.InjectAnnotation: "true"}},
				Spec: corev1.PodSpec{
					InitContainers: []corev1.Container{{Name: "theirs", Image: "i", Command: []string{"x"}}},
					Containers:     []corev1.Container{{Name: "app", Image: "i", Command: []string{"run"}}},
				},
			}
			test.change(sent, webhook)
			c, plugin := cluster{webhook: webhook}, tokens(t, test.automount)

			wrapped, err := c.inject(t, mountToken(t, plugin, c.mutate(t, sent)))
			require.NoError(t, err)
			wrapped = c.mutate(t, wrapped) // its defaults
			require.JSONEq(t, string(asJSON(t, wrapped)), string(asJSON(t, mountToken(t, plugin, wrapped))), "nothing is added after us")
			require.Equal(t, test.init, tokenMounts(wrapped.Spec.InitContainers))
			require.Equal(t, []string{test.container}, tokenMounts(wrapped.Spec.Containers))

			_, err = c.create(t, wrapped)
			require.NoError(t, err, "Kubernetes' validation admits it")
		})
	}
}
