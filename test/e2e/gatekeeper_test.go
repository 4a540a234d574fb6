// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && neighbours

package e2e

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

const (
	gatekeeperModule    = "github.com/open-policy-agent/gatekeeper/v3"
	gatekeeperNamespace = "gatekeeper-system"
	gatekeeperMutation  = "gatekeeper-mutating-webhook-configuration"
)

// installGatekeeper installs Gatekeeper as its own manifest does, for the pods of tests. API
// servers call its mutating webhook before the injector's, as the names of the configurations
// have it; in namespaces with the label "after", a second configuration has them call it later.
func installGatekeeper(t *testing.T) {
	t.Helper()
	image := moduleImage(t, webhooksModule, gatekeeperModule)
	apply(t, objectsOf(t, gatekeeperModule, "deploy/gatekeeper.yaml", func(object *unstructured.Unstructured) bool {
		switch object.GetKind() {
		case "Deployment":
			changeDeployment(t, object, func(spec *corev1.PodSpec) {
				spec.Containers[0].Image, spec.Containers[0].Command = image, nil
			})
		case "MutatingWebhookConfiguration":
			eachWebhook(t, object, onlyNeighbours("before"))
		case "ValidatingWebhookConfiguration":
			eachWebhook(t, object, onlyNeighbours())
		}
		return true
	})...)
	for _, deployment := range []string{"gatekeeper-audit", "gatekeeper-controller-manager"} {
		require.NoError(t, cluster.WaitForDeployment(t.Context(), gatekeeperNamespace, deployment))
	}
	calledAfter(t)
}

// calledAfter registers Gatekeeper's mutating webhook for a second time, with a name that comes
// after the injector's.
func calledAfter(t *testing.T) {
	t.Helper()
	configurations := cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	after := &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{GenerateName: "z-", Labels: map[string]string{ours: "true"}}}
	eventually(t, 2*time.Minute, "Gatekeeper to have a CA bundle", func() error {
		found, err := configurations.Get(t.Context(), gatekeeperMutation, metav1.GetOptions{})
		if err != nil {
			return err
		}
		after.Webhooks = found.Webhooks
		if len(after.Webhooks[0].ClientConfig.CABundle) == 0 {
			return errors.New("it has none yet")
		}
		return nil
	})
	after.Webhooks[0].NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{neighbourLabel: "after"}}
	created, err := configurations.Create(t.Context(), after, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		require.NoError(t, configurations.Delete(ctx, created.Name, metav1.DeleteOptions{}))
	})
}

// What a mutation of Gatekeeper does to a pod, and what we do, are both there, whoever comes
// first.
func TestAMutationOfGatekeeperStaysInAWrappedPod(t *testing.T) {
	installGatekeeper(t)
	existing, err := name.ParseReference(image(t, "busybox:1.37"))
	require.NoError(t, err)
	before, after := optedInNamespace(t, neighbourLabel, "before"), optedInNamespace(t, neighbourLabel, "after")
	apply(t, parsed(t, fmt.Sprintf(`
apiVersion: mutations.gatekeeper.sh/v1
kind: Assign
metadata: {name: e2e-env}
spec:
  applyTo: [{groups: [""], kinds: [Pod], versions: [v1]}]
  match: {scope: Namespaced, namespaces: [%[1]s, %[2]s]}
  location: "spec.containers[name:*].env[name:CLUSTER].value"
  parameters: {assign: {value: of-tests}}
---
apiVersion: mutations.gatekeeper.sh/v1alpha1
kind: AssignImage
metadata: {name: e2e-image}
spec:
  applyTo: [{groups: [""], kinds: [Pod], versions: [v1]}]
  match: {scope: Namespaced, namespaces: [%[1]s, %[2]s]}
  location: "spec.containers[name:main].image"
  parameters: {assignDomain: %[3]q, assignPath: %[4]q, assignTag: ":%[5]s"}
---
apiVersion: mutations.gatekeeper.sh/v1
kind: AssignMetadata
metadata: {name: e2e-inject}
spec:
  match: {scope: Namespaced, kinds: [{apiGroups: [""], kinds: [Pod]}], namespaces: [%[1]s, %[2]s]}
  location: 'metadata.annotations."timeout.entrypointer.dev/main"'
  parameters: {assign: {value: 1h}}
`, before, after, existing.Context().RegistryStr(), existing.Context().RepositoryStr(), existing.Identifier()))...)

	const elsewhere = "registry.invalid/of/nobody:1"
	script := []string{"sh", "-c", "readlink /proc/1/exe; echo $CLUSTER"}
	isMutated := func(p *corev1.Pod) bool {
		return len(p.Spec.Containers[0].Env) > 0 && p.Spec.Containers[0].Image != elsewhere
	}
	for turn, namespace := range map[string]string{"before": before, "after": after} {
		t.Run(turn, func(t *testing.T) {
			main := corev1.Container{Name: "main", Image: elsewhere, Command: script}
			created := createMeddled(t, namespace, askingPod("mutated", main), isMutated)
			requireWrapped(t, created, "main")
			requireOnceOfEverything(t, created)
			require.Equal(t, script, argsOf(t, created, "main"))
			require.Equal(t, existing.Name(), created.Spec.Containers[0].Image)
			require.Contains(t, pod.Flags(created.Spec.Containers[0]), "-timeout=1h", "of the annotation that Gatekeeper has set")
			require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "mutated").Status.Phase)
			require.Equal(t, pod.EntrypointPath+"\nof-tests\n", logs(t, namespace, "mutated", "main"))
		})
	}

	// Only the registry knows what this one runs.
	unknown := askingPod("looked-up", corev1.Container{Name: "main", Image: elsewhere})
	created := createPod(t, before, unknown)
	requireWrapped(t, created, "main")
	require.True(t, strings.HasPrefix(created.Spec.Containers[0].Image, existing.Name()+"@sha256:"), created.Spec.Containers[0].Image)
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, before, "looked-up").Status.Phase)
	_, err = wouldBecome(t, after, unknown)
	require.ErrorContains(t, err, "registry.invalid", "the injector is called before Gatekeeper")
}

func TestAConstraintOfGatekeeperRefusesAWrappedPodInItsOwnWords(t *testing.T) {
	installGatekeeper(t)
	namespace, plain := optedInNamespace(t, neighbourLabel, "before"), plainNamespace(t, neighbourLabel, "before")
	apply(t, parsed(t, `
apiVersion: templates.gatekeeper.sh/v1
kind: ConstraintTemplate
metadata: {name: e2elimited}
spec:
  crd: {spec: {names: {kind: E2ELimited}}}
  targets:
  - target: admission.k8s.gatekeeper.sh
    rego: |
      package e2elimited
      violation[{"msg": msg}] {
        c := containers[_]
        not c.resources.limits.memory
        msg := sprintf("container <%v> has no memory limit", [c.name])
      }
      violation[{"msg": msg}] {
        c := containers[_]
        not c.securityContext.allowPrivilegeEscalation == false
        msg := sprintf("container <%v> may escalate its privileges", [c.name])
      }
      containers[c] { c := input.review.object.spec.containers[_] }
      containers[c] { c := input.review.object.spec.initContainers[_] }
`)...)
	apply(t, parsed(t, fmt.Sprintf(`
apiVersion: constraints.gatekeeper.sh/v1beta1
kind: E2ELimited
metadata: {name: e2e-limited}
spec:
  match: {kinds: [{apiGroups: [""], kinds: [Pod]}], namespaces: [%s, %s]}
`, namespace, plain))...)

	requireOnlyLimitedPods(t, "Gatekeeper", plain, namespace, `admission webhook "validation.gatekeeper.sh" denied the request`,
		"[e2e-limited] container <main> has no memory limit", "[e2e-limited] container <main> may escalate its privileges")
}
