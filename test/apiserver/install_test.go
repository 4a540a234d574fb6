// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	resourcequotaapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	quotacore "k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"
)

// asOnGKE has the API server limit what may be critical: a pod of such a
// priority needs a quota that speaks of it
// (https://kubernetes.io/docs/concepts/policy/resource-quotas/#limit-priority-class-consumption-by-default).
var asOnGKE = []resourcequotaapi.LimitedResource{{
	Resource: "pods",
	MatchScopes: []corev1.ScopedResourceSelectorRequirement{{
		ScopeName: corev1.ResourceQuotaScopePriorityClass, Operator: corev1.ScopeSelectorOpIn,
		Values: []string{"system-node-critical", "system-cluster-critical"},
	}},
}}

func TestTheInjectorIsAdmittedWhereItsPriorityNeedsAQuota(t *testing.T) {
	deployment := shipped[appsv1.Deployment](t, "500-injector.yaml", "Deployment", "injector")
	replica := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "injector", Namespace: deployment.Namespace}, Spec: deployment.Spec.Template.Spec}
	require.Equal(t, "system-cluster-critical", replica.Spec.PriorityClassName)
	attributes := admission.NewAttributesRecord(replica, nil, schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, deployment.Namespace, replica.Name,
		schema.GroupVersionResource{Version: "v1", Resource: "pods"}, "", admission.Create, nil, false, nil)
	evaluator := quotacore.NewPodEvaluator(nil, clock.RealClock{})
	_, err := resourcequota.CheckRequest(nil, attributes, evaluator, asOnGKE)
	require.ErrorContains(t, err, "insufficient quota", "without a quota")

	quota := shipped[corev1.ResourceQuota](t, "500-injector.yaml", "ResourceQuota", "critical-pods")
	require.Equal(t, deployment.Namespace, quota.Namespace)
	quota.Status = corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard, Used: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("3")}}
	_, err = resourcequota.CheckRequest([]corev1.ResourceQuota{quota}, attributes, evaluator, asOnGKE)
	require.NoError(t, err)
}

func TestImagesAreBuiltForEachPlatformOnABaseThatStays(t *testing.T) {
	text, err := os.ReadFile("../../.ko.yaml")
	require.NoError(t, err)
	var ko struct {
		DefaultBaseImage string   `json:"defaultBaseImage"`
		DefaultPlatforms []string `json:"defaultPlatforms"`
	}
	require.NoError(t, yaml.Unmarshal(text, &ko))
	require.Regexp(t, `@sha256:[0-9a-f]{64}$`, ko.DefaultBaseImage)
	require.ElementsMatch(t, []string{"linux/amd64", "linux/arm64"}, ko.DefaultPlatforms)
}
