// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"sigs.k8s.io/yaml"
)

// supervisorVolumes validates as the API server does with the definition of config/claims,
// which the API server takes.
func supervisorVolumes(t *testing.T) func(object map[string]any) field.ErrorList {
	t.Helper()
	text, err := os.ReadFile("../../config/claims/300-supervisorvolumes.yaml")
	require.NoError(t, err)
	var definition apiextensionsv1.CustomResourceDefinition
	require.NoError(t, yaml.UnmarshalStrict(text, &definition))
	apiextensionsv1.SetDefaults_CustomResourceDefinition(&definition)
	apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&definition.Spec)
	definition.Status.StoredVersions = []string{"v1alpha1"}
	var internal apiextensions.CustomResourceDefinition
	require.NoError(t, apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&definition, &internal, nil))
	require.NoError(t, crdvalidation.ValidateCustomResourceDefinition(t.Context(), &internal).ToAggregate())

	properties, err := apiextensions.GetSchemaForVersion(&internal, "v1alpha1")
	require.NoError(t, err)
	validator, _, err := validation.NewSchemaValidator(properties.OpenAPIV3Schema)
	require.NoError(t, err)
	structural, err := schema.NewStructural(properties.OpenAPIV3Schema)
	require.NoError(t, err)
	rules := cel.NewValidator(structural, true, celconfig.PerCallLimit)
	return func(object map[string]any) field.ErrorList {
		if errs := validation.ValidateCustomResource(nil, object, validator); len(errs) > 0 {
			return errs
		}
		errs, _ := rules.Validate(t.Context(), nil, structural, object, nil, celconfig.RuntimeCELCostBudget)
		return errs
	}
}

func TestFormerClaimsStayFromAMinuteToThirtyDays(t *testing.T) {
	validate := supervisorVolumes(t)
	for _, test := range []struct {
		wait any
		good bool
	}{
		{"1m", true},
		{"60s", true},
		{"1h30m", true},
		{"1.5h", true},
		{"24h0m0s", true}, // as metav1.Duration is written
		{"720h", true},
		{"59s", false},
		{"720h1s", false},
		{"-2h", false},
		{"1 day", false},
		{"1d", false},
		{"", false},
		{"24", false},
		{"99999999999999999999h", false},
		{int64(60), false},
	} {
		t.Run(fmt.Sprint(test.wait), func(t *testing.T) {
			errs := validate(map[string]any{
				"apiVersion": "entrypointer.dev/v1alpha1", "kind": "SupervisorVolume", "metadata": map[string]any{"name": "entrypointer"},
				"spec": map[string]any{"retireAfter": test.wait},
			})
			if test.good {
				require.Empty(t, errs)
				return
			}
			require.ErrorContains(t, errs.ToAggregate(), "spec.retireAfter")
		})
	}
}

// The injector keeps them all, and reads one for each pod.
func TestASupervisorVolumeIsSmall(t *testing.T) {
	validate := supervisorVolumes(t)
	for length, good := range map[int]bool{253 + 1 + 63: true, 253 + 1 + 64: false, 1 << 20: false} {
		words := map[string]any{strings.Repeat("x", length): "x"}
		for where, template := range map[string]any{
			"metadata.labels":           map[string]any{"metadata": map[string]any{"labels": words}},
			"metadata.annotations":      map[string]any{"metadata": map[string]any{"annotations": words}},
			"spec.selector.matchLabels": map[string]any{"spec": map[string]any{"selector": map[string]any{"matchLabels": words}}},
		} {
			errs := validate(map[string]any{
				"apiVersion": "entrypointer.dev/v1alpha1", "kind": "SupervisorVolume", "metadata": map[string]any{"name": "entrypointer"},
				"spec": map[string]any{"volumeClaimTemplate": template},
			})
			if good {
				require.Empty(t, errs, where)
				continue
			}
			require.ErrorContains(t, errs.ToAggregate(), "a key has 317 characters at most", where)
		}
	}
}
