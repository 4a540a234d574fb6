// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/stretchr/testify/require"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	plugin "k8s.io/apiserver/pkg/admission/plugin/cel"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/admissionregistration"
	_ "k8s.io/kubernetes/pkg/apis/admissionregistration/install"
	registrationvalidation "k8s.io/kubernetes/pkg/apis/admissionregistration/validation"
	_ "k8s.io/kubernetes/pkg/apis/apps/install"
	_ "k8s.io/kubernetes/pkg/apis/networking/install"
	_ "k8s.io/kubernetes/pkg/apis/policy/install"
	_ "k8s.io/kubernetes/pkg/apis/rbac/install"
	"sigs.k8s.io/yaml"
)

// shipped reads the object of this kind and name from what is installed for the injector.
func shipped[T any](t *testing.T, file, kind, name string) T {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "..", "config", "*", file))
	require.NoError(t, err)
	found = slices.DeleteFunc(found, func(path string) bool { return filepath.Base(filepath.Dir(path)) == "logs" })
	require.Len(t, found, 1, file)
	text, err := os.ReadFile(found[0])
	require.NoError(t, err)
	for _, document := range splitYAML(text) {
		var meta metav1.PartialObjectMetadata
		require.NoError(t, yaml.Unmarshal(document, &meta))
		if meta.Kind == kind && meta.Name == name {
			var object T
			require.NoError(t, yaml.UnmarshalStrict(document, &object))
			return object
		}
	}
	require.Fail(t, "no such object", "%s %s in %s", kind, name, file)
	panic("unreachable")
}

// The API server compiles what is installed, and looks at each field, before anybody is confined by it.
func TestTheAPIServerTakesThePoliciesAndWebhooksThatAreInstalled(t *testing.T) {
	var files []string
	for _, folder := range []string{"webhook", "auto", "outage"} {
		more, err := filepath.Glob(filepath.Join("..", "..", "config", folder, "*.yaml"))
		require.NoError(t, err)
		files = append(files, more...)
	}
	counts := map[string]int{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, document := range splitYAML(text) {
			object, kind, err := legacyscheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
			require.NoError(t, err, "%s", file)
			legacyscheme.Scheme.Default(object)
			internal, err := legacyscheme.Scheme.ConvertToVersion(object, schema.GroupVersion{Group: kind.Group, Version: runtime.APIVersionInternal})
			require.NoError(t, err, "%s", file)
			var wrong field.ErrorList
			switch object := internal.(type) {
			case *admissionregistration.ValidatingAdmissionPolicy:
				wrong = registrationvalidation.ValidateValidatingAdmissionPolicy(object)
			case *admissionregistration.ValidatingAdmissionPolicyBinding:
				wrong = registrationvalidation.ValidateValidatingAdmissionPolicyBinding(object)
			case *admissionregistration.MutatingAdmissionPolicy:
				wrong = registrationvalidation.ValidateMutatingAdmissionPolicy(object)
			case *admissionregistration.MutatingAdmissionPolicyBinding:
				wrong = registrationvalidation.ValidateMutatingAdmissionPolicyBinding(object)
			case *admissionregistration.MutatingWebhookConfiguration:
				wrong = registrationvalidation.ValidateMutatingWebhookConfiguration(object)
			case *admissionregistration.ValidatingWebhookConfiguration:
				wrong = registrationvalidation.ValidateValidatingWebhookConfiguration(object)
			default:
				continue
			}
			require.NoError(t, wrong.ToAggregate(), "%s", file)
			counts[kind.Kind]++
		}
	}
	require.Equal(t, map[string]int{
		"ValidatingAdmissionPolicy": 10, "ValidatingAdmissionPolicyBinding": 10,
		"MutatingAdmissionPolicy": 1, "MutatingAdmissionPolicyBinding": 1,
		"MutatingWebhookConfiguration": 2, "ValidatingWebhookConfiguration": 2,
	}, counts)
}

// request is what an API server is asked to do, by somebody.
type request struct {
	operation   admission.Operation
	resource    string
	kind        string
	user        string
	object, old runtime.Object
	namespace   *corev1.Namespace // of the object, nil if it has none
	params      runtime.Object
}

func (r request) attributes() *admission.VersionedAttributes {
	var namespace string
	if r.namespace != nil {
		namespace = r.namespace.Name
	}
	return &admission.VersionedAttributes{
		Attributes: admission.NewAttributesRecord(r.object, r.old, schema.GroupVersionKind{}, namespace, "",
			schema.GroupVersionResource{Version: "v1", Resource: r.resource}, "", r.operation, nil, false, &user.DefaultInfo{Name: r.user}),
		VersionedObject: r.object, VersionedOldObject: r.old,
	}
}

// expression is one of a policy, or of a webhook, by its name.
type expression struct{ name, text string }

func (e expression) GetName() string          { return e.name }
func (e expression) GetExpression() string    { return e.text }
func (e expression) ReturnTypes() []*cel.Type { return []*cel.Type{cel.AnyType} }
func (e expression) holds(t *testing.T, result plugin.EvaluationResult) bool {
	t.Helper()
	require.NoError(t, result.Error, "%s", e.text)
	holds, ok := result.EvalResult.Value().(bool)
	require.True(t, ok, "%s", e.text)
	return holds
}

// evaluator evaluates expressions as the API server does: with its libraries,
// within its limits of cost.
type evaluator struct {
	expressions []expression
	compiled    plugin.ConditionEvaluator
	compiler    *plugin.CompositedCompiler
}

func newEvaluator(t *testing.T, variables []admissionregistrationv1.Variable, expressions ...expression) *evaluator {
	t.Helper()
	compiler, err := plugin.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	require.NoError(t, err)
	options := plugin.OptionalVariableDeclarations{HasParams: true, HasAuthorizer: true}
	for _, v := range variables {
		result := compiler.CompileAndStoreVariable(expression{v.Name, v.Expression}, options, environment.NewExpressions)
		require.Nil(t, result.Error, "variable %s: %v", v.Name, result.Error)
	}
	accessors := make([]plugin.ExpressionAccessor, len(expressions))
	for i, e := range expressions {
		accessors[i] = e
	}
	compiled := compiler.CompileCondition(accessors, options, environment.NewExpressions)
	for _, err := range compiled.CompilationErrors() {
		require.NoError(t, err)
	}
	return &evaluator{expressions, compiled, compiler}
}

// evaluate returns the results of the expressions.
func (e *evaluator) evaluate(t *testing.T, r request) []plugin.EvaluationResult {
	t.Helper()
	attributes := r.attributes()
	review := plugin.CreateAdmissionRequest(attributes.Attributes, metav1.GroupVersionResource(attributes.GetResource()), metav1.GroupVersionKind{Kind: r.kind})
	results, _, err := e.compiled.ForInput(e.compiler.CreateContext(t.Context()), attributes, review,
		plugin.OptionalVariableBindings{VersionedParams: r.params}, r.namespace, celconfig.RuntimeCELCostBudget)
	require.NoError(t, err)
	return results
}

// failing are the names of the expressions that don't hold.
func (e *evaluator) failing(t *testing.T, r request) (names []string) {
	t.Helper()
	for i, result := range e.evaluate(t, r) {
		if !e.expressions[i].holds(t, result) {
			names = append(names, e.expressions[i].name)
		}
	}
	return names
}

// admissionPolicy is a ValidatingAdmissionPolicy.
type admissionPolicy struct{ conditions, validations *evaluator }

func newPolicy(t *testing.T, spec admissionregistrationv1.ValidatingAdmissionPolicySpec) *admissionPolicy {
	t.Helper()
	var conditions, validations []expression
	for _, c := range spec.MatchConditions {
		conditions = append(conditions, expression{c.Name, c.Expression})
	}
	for _, v := range spec.Validations {
		validations = append(validations, expression{v.Message, v.Expression})
		if v.MessageExpression != "" {
			newEvaluator(t, spec.Variables, expression{"message", v.MessageExpression})
		}
	}
	return &admissionPolicy{newEvaluator(t, nil, conditions...), newEvaluator(t, spec.Variables, validations...)}
}

// refuses are the messages with which it refuses a request.
func (p *admissionPolicy) refuses(t *testing.T, r request) []string {
	t.Helper()
	if len(p.conditions.failing(t, r)) > 0 {
		return nil
	}
	return p.validations.failing(t, r)
}

// splitYAML splits a file into its documents.
func splitYAML(text []byte) [][]byte { return bytes.Split(text, []byte("\n---\n")) }
