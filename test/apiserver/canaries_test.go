// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/admission"
	k8sv1 "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/pod-security-admission/api"
)

// canary is one as the injector applies it (internal/autodelivery writes the file), and
// as an API server has it when policies look at it.
func canary(t *testing.T, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	text, err := os.ReadFile("../../internal/autodelivery/testdata/canary.json")
	require.NoError(t, err)
	var p corev1.Pod
	require.NoError(t, json.Unmarshal(text, &p))
	k8sv1.SetObjectDefaults_Pod(&p)
	p.Spec.ServiceAccountName = "default"
	p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "of-the-default-service-account"}}
	if change != nil {
		change(&p)
	}
	return &p
}

// injectorsNamespace is the one that ships, with the images of the canary.
func injectorsNamespace(t *testing.T) *corev1.Namespace {
	t.Helper()
	n := shipped[corev1.Namespace](t, "100-namespace.yaml", "Namespace", "entrypointer-system")
	containers := canary(t, nil).Spec.Containers
	for at, key := range []string{"entrypointer-entrypoint-image", "entrypointer-entrypoint-with-logs-image"} {
		require.Contains(t, n.Annotations, key)
		n.Annotations[key] = containers[at].Image
	}
	return &n
}

func TestACanaryIsAPodThatKubernetesTakes(t *testing.T) {
	admitted, err := cluster{}.create(t, canary(t, nil))
	require.NoError(t, err)
	require.True(t, allows(t, api.LevelRestricted, admitted), "%v", judgement(t, api.LevelRestricted, admitted))
}

func TestTheInjectorCreatesNoPodButCanaries(t *testing.T) {
	policy := newPolicy(t, shipped[admissionregistrationv1.ValidatingAdmissionPolicy](t,
		"210-confine-canaries.yaml", "ValidatingAdmissionPolicy", "canaries.entrypointer.dev").Spec)
	named := injectorsNamespace(t)
	home := installed()
	ask := func(p *corev1.Pod, namespace *corev1.Namespace, operation admission.Operation) request {
		return request{operation: operation, resource: "pods", user: injector, object: p, namespace: namespace, params: named}
	}
	first := func(change func(*corev1.Container)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { change(&p.Spec.Containers[0]) }
	}
	for what, test := range map[string]struct {
		allowed bool
		change  func(*corev1.Pod)
	}{
		"a canary":                   {true, nil},
		"the third":                  {true, func(p *corev1.Pod) { p.Name = "entrypointer-canary-2" }},
		"by a mirror's name":         {true, first(func(c *corev1.Container) { c.Image = "mirror.example.test/e@" + after(c.Image) })},
		"a fourth":                   {false, func(p *corev1.Pod) { p.Name = "entrypointer-canary-3" }},
		"another image":              {false, first(func(c *corev1.Container) { c.Image = "evil.example.test/e@sha256:" + strings.Repeat("0", 64) })},
		"a tag":                      {false, first(func(c *corev1.Container) { c.Image = "evil.example.test/e:latest" })},
		"another command":            {false, first(func(c *corev1.Container) { c.Command = []string{"sh"} })},
		"other arguments":            {false, first(func(c *corev1.Container) { c.Args = append(c.Args, "x") })},
		"a variable from a secret":   {false, first(func(c *corev1.Container) { c.EnvFrom = []corev1.EnvFromSource{{}} })},
		"a hook":                     {false, first(func(c *corev1.Container) { c.Lifecycle = &corev1.Lifecycle{} })},
		"a probe":                    {false, first(func(c *corev1.Container) { c.LivenessProbe = &corev1.Probe{} })},
		"a port":                     {false, first(func(c *corev1.Container) { c.Ports = []corev1.ContainerPort{{ContainerPort: 8443}} })},
		"a container more":           {false, func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) }},
		"an init container":          {false, func(p *corev1.Pod) { p.Spec.InitContainers = p.Spec.Containers }},
		"a volume of another image":  {false, func(p *corev1.Pod) { p.Spec.Volumes[0].Image.Reference = "evil.example.test/e" }},
		"a volume of another digest": {false, func(p *corev1.Pod) { p.Spec.Volumes[0].Image.Reference = "e@sha256:" + strings.Repeat("0", 64) }},
		"a secret": {false, func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "any"}}
		}},
		"a token": {false, func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}
		}},
		"a token by default":     {false, func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = nil }},
		"the injector's account": {false, func(p *corev1.Pod) { p.Spec.ServiceAccountName = "injector" }},
		"no end":                 {false, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = nil }},
		"a late end":             {false, func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(301)) }},
		"again and again":        {false, func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyAlways }},
		"a slow end":             {false, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(3600)) }},
		"critical":               {false, func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }},
		"another runtime":        {false, func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("any") }},
		"the webhook's label":    {false, func(p *corev1.Pod) { p.Labels["app.kubernetes.io/name"] = "injector" }},
		"a finalizer":            {false, func(p *corev1.Pod) { p.Finalizers = []string{"example.test/stays"} }},
	} {
		t.Run(what, func(t *testing.T) {
			says := policy.refuses(t, ask(canary(t, test.change), home, admission.Create))
			require.Equal(t, test.allowed, len(says) == 0, "%v", says)
		})
	}
	p := canary(t, nil)
	require.NotEmpty(t, policy.refuses(t, ask(p, tenant("true"), admission.Create)), "elsewhere")
	require.Equal(t, []string{"the injector changes no pod"}, policy.refuses(t, ask(p, home, admission.Update)))
	others := ask(canary(t, func(p *corev1.Pod) { p.Name = "any" }), tenant("true"), admission.Create)
	others.user = "admin"
	require.Empty(t, policy.refuses(t, others), "others create what they like")
	named.Annotations = nil
	require.NotEmpty(t, policy.refuses(t, ask(p, home, admission.Create)), "an injector whose images aren't known")
}

// after is the digest of a reference.
func after(reference string) string {
	_, digest, _ := strings.Cut(reference, "@")
	return digest
}
