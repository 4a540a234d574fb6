// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && neighbours

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	kyvernoNamespace  = "kyverno"
	kyvernoController = "kyverno-admission-controller"
)

// installKyverno installs the admission controller of Kyverno as its own manifest does, for the
// namespaces of tests, without the init container that cleans up after other versions. API
// servers call its webhook before the injector's, as the names of the configurations have it,
// and again after the injector.
func installKyverno(t *testing.T) {
	t.Helper()
	image := moduleImage(t, webhooksModule, "github.com/kyverno/kyverno/cmd/kyverno")
	t.Cleanup(func() { // Kyverno creates them, and leaves them
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_, err := framework.Run(ctx, "kubectl", "delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-l", "webhook.kyverno.io/managed-by=kyverno")
		require.NoError(t, err)
	})
	apply(t, objectsOf(t, "github.com/kyverno/kyverno", "config/install-latest-testing.yaml", func(object *unstructured.Unstructured) bool {
		switch {
		case object.GetKind() == "Deployment" && object.GetName() != kyvernoController:
			return false
		case object.GetKind() == "Deployment":
			changeDeployment(t, object, func(spec *corev1.PodSpec) {
				spec.Containers[0].Image, spec.InitContainers = image, nil
			})
		case object.GetKind() == "ConfigMap" && object.GetName() == "kyverno":
			selector := fmt.Sprintf(`{"namespaceSelector":{"matchExpressions":[{"key":%q,"operator":"Exists"}]}}`, neighbourLabel)
			require.NoError(t, unstructured.SetNestedField(object.Object, selector, "data", "webhooks"))
		}
		return true
	})...)
	require.NoError(t, cluster.WaitForDeployment(t.Context(), kyvernoNamespace, kyvernoController))
}

// kyvernoPolicy is a policy of a namespace with one rule for pods.
const kyvernoPolicy = `
apiVersion: kyverno.io/v1
kind: Policy
metadata:
  name: %s
  namespace: %s
  annotations: {pod-policies.kyverno.io/autogen-controllers: none}
spec:
  rules:
  - name: rule
    match: {any: [{resources: {kinds: [Pod]}}]}
    %s
---
`

// Kyverno applies its patches again to a pod that we have wrapped: the command of its sidecar is
// what its policy says then, until API servers ask us again.
func TestAMutationOfKyvernoStaysInAWrappedPod(t *testing.T) {
	installKyverno(t)
	namespace := optedInNamespace(t, neighbourLabel, "kyverno")
	sidecar := busybox(t, "extra", "sh", "-c", "id -u; echo $CLUSTER")
	apply(t, parsed(t, fmt.Sprintf(kyvernoPolicy, "a-sidecar", namespace, fmt.Sprintf(
		`mutate: {patchStrategicMerge: {spec: {containers: [{name: extra, image: %q, command: [sh, -c, %q]}]}}}`, sidecar.Image, sidecar.Command[2]))+
		fmt.Sprintf(kyvernoPolicy, "b-all", namespace,
			`mutate: {patchStrategicMerge: {spec: {containers: [{(name): "*", securityContext: {runAsUser: 65534}, env: [{name: CLUSTER, value: of-tests}]}]}}}`))...)

	main := busybox(t, "main", "sh", "-c", "id -u; echo $CLUSTER")
	created := createMeddled(t, namespace, askingPod("mutated", main), func(p *corev1.Pod) bool {
		return hasContainer(p.Spec.Containers, "extra") && len(p.Spec.Containers[0].Env) > 0
	})
	requireWrapped(t, created, containerNames(created.Spec.Containers)...)
	require.ElementsMatch(t, []string{"main", "extra"}, containerNames(created.Spec.Containers))
	requireOnceOfEverything(t, created)
	for _, c := range []corev1.Container{main, sidecar} {
		require.Equal(t, c.Command, argsOf(t, created, c.Name), c.Name)
	}
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "mutated").Status.Phase)
	for _, container := range []string{"main", "extra"} {
		require.Equal(t, "65534\nof-tests\n", logs(t, namespace, "mutated", container), container)
	}
}

func TestAPolicyOfKyvernoRefusesAWrappedPodInItsOwnWords(t *testing.T) {
	installKyverno(t)
	namespace, plain := optedInNamespace(t, neighbourLabel, "kyverno"), plainNamespace(t, neighbourLabel, "kyverno")
	const limited = `validate:
      failureAction: Enforce
      message: every container has a memory limit, and escalates no privileges
      pattern: {spec: {=(initContainers): [&each {resources: {limits: {memory: "?*"}}, securityContext: {allowPrivilegeEscalation: false}}], containers: [*each]}}`
	apply(t, parsed(t, fmt.Sprintf(kyvernoPolicy, "limited", plain, limited)+fmt.Sprintf(kyvernoPolicy, "limited", namespace, limited))...)

	requireOnlyLimitedPods(t, "Kyverno", plain, namespace, `admission webhook "validate.kyverno.svc-fail" denied the request`,
		"every container has a memory limit, and escalates no privileges")
}
