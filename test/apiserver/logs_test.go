// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/apps"
	appsvalidation "k8s.io/kubernetes/pkg/apis/apps/validation"
	"k8s.io/kubernetes/pkg/apis/core"
	corevalidation "k8s.io/kubernetes/pkg/apis/core/validation"
	"k8s.io/kubernetes/pkg/apis/networking"
	networkingvalidation "k8s.io/kubernetes/pkg/apis/networking/validation"
	"k8s.io/kubernetes/pkg/apis/policy"
	policyvalidation "k8s.io/kubernetes/pkg/apis/policy/validation"
	psaapi "k8s.io/pod-security-admission/api"
	psapolicy "k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// rendered is what kubectl makes of an overlay, by kind and name.
func rendered(t *testing.T, overlay string) map[string][]byte {
	t.Helper()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../examples/logs/"+overlay)
	require.NoError(t, err)
	documents := map[string][]byte{}
	for _, resource := range resources.Resources() {
		text, err := resource.AsYAML()
		require.NoError(t, err)
		documents[resource.GetKind()+"/"+resource.GetName()] = text
	}
	return documents
}

// decoded is an object as a client has it, every field of which there is, and with
// defaults, as the API server validates it.
func decoded[T runtime.Object](t *testing.T, text []byte) (object T, internal runtime.Object) {
	t.Helper()
	require.NotEmpty(t, text)
	decoder := legacyscheme.Codecs.UniversalDeserializer()
	found, kind, err := decoder.Decode(text, nil, nil)
	require.NoError(t, err)
	legacyscheme.Scheme.Default(found)
	internal, err = legacyscheme.Scheme.ConvertToVersion(found, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
	require.NoError(t, err)
	return found.(T), internal
}

func TestTheLogServiceOnAnObjectStoreIsWhatKubernetesTakes(t *testing.T) {
	for overlay, expected := range map[string]struct{ bucket, account string }{
		"s3":    {"s3://EXAMPLE-LOGS?region=eu-central-1", "eks.amazonaws.com/role-arn"},
		"gcs":   {"gs://EXAMPLE-LOGS", "iam.gke.io/gcp-service-account"},
		"azure": {"azblob://EXAMPLE-LOGS", "azure.workload.identity/client-id"},
	} {
		t.Run(overlay, func(t *testing.T) {
			documents := rendered(t, overlay)
			require.NotContains(t, documents, "PersistentVolumeClaim/logs")
			require.Contains(t, documents, "APIService/v1alpha1.logs.entrypointer.dev")

			account, internal := decoded[*corev1.ServiceAccount](t, documents["ServiceAccount/logs"])
			require.Empty(t, corevalidation.ValidateServiceAccount(internal.(*core.ServiceAccount)))
			require.Contains(t, account.Annotations, expected.account)

			deployment, internal := decoded[*appsv1.Deployment](t, documents["Deployment/logs"])
			require.Empty(t, appsvalidation.ValidateDeployment(internal.(*apps.Deployment), corevalidation.PodValidationOptions{}))
			pod := deployment.Spec.Template
			require.Equal(t, []string{"-bucket", expected.bucket}, pod.Spec.Containers[0].Args[:2])
			require.NotContains(t, pod.Spec.Containers[0].Args, "-directory")
			require.Equal(t, int32(3), *deployment.Spec.Replicas)
			require.Equal(t, appsv1.RollingUpdateDeploymentStrategyType, deployment.Spec.Strategy.Type)
			require.Zero(t, deployment.Spec.Strategy.RollingUpdate.MaxUnavailable.IntValue())
			require.Empty(t, pod.Spec.Volumes)
			require.Empty(t, pod.Spec.Containers[0].VolumeMounts)
			spread := pod.Spec.TopologySpreadConstraints[0].LabelSelector
			require.Equal(t, deployment.Spec.Selector, spread)
			evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
			require.NoError(t, err)
			for _, result := range evaluator.EvaluatePod(psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
				require.True(t, result.Allowed, result.ForbiddenDetail)
			}

			budget, internal := decoded[*policyv1.PodDisruptionBudget](t, documents["PodDisruptionBudget/logs"])
			require.Empty(t, policyvalidation.ValidatePodDisruptionBudget(internal.(*policy.PodDisruptionBudget), policyvalidation.PodDisruptionBudgetValidationOptions{}))
			require.Equal(t, deployment.Spec.Selector, budget.Spec.Selector)
			require.Equal(t, deployment.Namespace, budget.Namespace)
		})
	}
}

func TestTheOverlayWithThePageIsWhatKubernetesTakes(t *testing.T) {
	documents := rendered(t, "page")
	require.Contains(t, documents, "PersistentVolumeClaim/logs")
	deployment, internal := decoded[*appsv1.Deployment](t, documents["Deployment/logs"])
	require.Empty(t, appsvalidation.ValidateDeployment(internal.(*apps.Deployment), corevalidation.PodValidationOptions{}))
	pod := deployment.Spec.Template
	container := pod.Spec.Containers[0]
	require.Equal(t, []string{"-directory", "/var/lib/logs", "-listen-page=:8445", "-page-disk=2Gi"}, container.Args)
	require.Len(t, pod.Spec.Volumes, 2)
	require.Len(t, container.VolumeMounts, 2)
	require.Len(t, container.Env, 1, "one GOMEMLIMIT")
	require.Equal(t, "1Gi", container.Resources.Limits.Memory().String())
	evaluator, err := psapolicy.NewEvaluator(psapolicy.DefaultChecks(), nil)
	require.NoError(t, err)
	for _, result := range evaluator.EvaluatePod(psaapi.LevelVersion{Level: psaapi.LevelRestricted, Version: psaapi.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
		require.True(t, result.Allowed, result.ForbiddenDetail)
	}
	ports := map[string]int32{}
	for _, port := range container.Ports {
		ports[port.Name] = port.ContainerPort
	}
	service, _ := decoded[*corev1.Service](t, documents["Service/page"])
	require.Equal(t, int32(8445), ports[service.Spec.Ports[0].TargetPort.StrVal])
	require.Subset(t, pod.Labels, service.Spec.Selector)

	allowed, internal := decoded[*networkingv1.NetworkPolicy](t, documents["NetworkPolicy/page"])
	require.Empty(t, networkingvalidation.ValidateNetworkPolicy(internal.(*networking.NetworkPolicy), networkingvalidation.NetworkPolicyValidationOptions{}))
	require.Subset(t, pod.Labels, allowed.Spec.PodSelector.MatchLabels)
	open := map[int32]bool{} // by port: to all
	for _, rule := range allowed.Spec.Ingress {
		for _, port := range rule.Ports {
			open[port.Port.IntVal] = len(rule.From) == 0
		}
	}
	require.Equal(t, map[int32]bool{ports["https"]: true, ports["proxied"]: true, ports["probes"]: true, ports["page"]: false}, open)
}
