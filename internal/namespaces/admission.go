// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"knative.dev/pkg/configmap"
	"knative.dev/pkg/controller"
	"knative.dev/pkg/injection"
	"knative.dev/pkg/system"

	"github.com/entrypointer/entrypointer/internal/admission"
	"github.com/entrypointer/entrypointer/internal/config"
	"github.com/entrypointer/entrypointer/internal/version"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// WebhookName is the name of the MutatingWebhookConfiguration.
const WebhookName = "namespaces.entrypointer.dev"

// A Part is an optional part of the installation.
type Part struct {
	Folder string
	// Absent reports whether a check has found that the part isn't installed.
	Absent func() bool
}

// NewAdmissionController returns a constructor of the namespace webhook. parts are the
// parts that deliveries need.
func NewAdmissionController(settings *config.Store, parts map[pod.Delivery]Part) injection.ControllerConstructor {
	return func(ctx context.Context, _ configmap.Watcher) *controller.Impl {
		labels := &labelAdmission{rule: newRule(system.Namespace()), config: settings, parts: parts}
		return admission.NewController(ctx, WebhookName, "/namespaces", labels.admit)
	}
}

type labelAdmission struct {
	rule   rule
	config interface{ Load() *config.Config }
	parts  map[pod.Delivery]Part
}

// admit sets the label in the write that changes the annotation or the label. A mistake
// is refused when it is made; a namespace with a mistake from a time without the webhook
// stays writable.
func (l *labelAdmission) admit(_ context.Context, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	now, before, err := decode(request)
	if err != nil {
		return admission.Malformed(err)
	}
	want, mistake := l.rule.wants(&now)
	if mistake != nil && changed(&now, &before, pod.InjectAnnotation) {
		return admission.Deny(mistake)
	}
	options := pod.NamespaceDefaults(now.Name, now.Annotations)
	wrong := checkOptions(&now, options)
	if wrong != nil {
		former := pod.NamespaceDefaults(before.Name, before.Annotations)
		optsIn := want != pod.NoPods && labelled(&before) == pod.NoPods
		if optsIn || !maps.Equal(options.Values, former.Values) {
			return admission.Deny(wrong)
		}
		if want != pod.NoPods {
			wrong = fmt.Errorf("%w; until then, its pods are refused", wrong)
		}
	}
	unknown := unknownDelivery(&now)
	if unknown != nil && changed(&now, &before, pod.DeliveryAnnotation) {
		return admission.Deny(unknown)
	}
	response := admission.Allow(labelPatch(&now, want))
	for _, err := range []error{mistake, wrong, unknown} {
		if err != nil {
			response.Warnings = append(response.Warnings, "entrypointer: "+err.Error())
		}
	}
	response.Warnings = slices.Concat(response.Warnings,
		adviceOnLabel(&now, &before, want), adviceOnPrefix(&now, &before), l.withoutEffect(&now, want != pod.NoPods, options), adviceOnScope(&now, &before, want))
	return response
}

// decode decodes the namespace, and its former state, if it existed.
func decode(request *admissionv1.AdmissionRequest) (now, before corev1.Namespace, err error) {
	if err := json.Unmarshal(request.Object.Raw, &now); err != nil {
		return now, before, err
	}
	if len(request.OldObject.Raw) > 0 {
		err = json.Unmarshal(request.OldObject.Raw, &before)
	}
	// A namespace with generateName has no name yet, which messages and commands need.
	now.Name = cmp.Or(now.Name, "NAMESPACE")
	return now, before, err
}

// unknownDelivery returns an error if a namespace asks for an unknown delivery.
func unknownDelivery(ns *corev1.Namespace) error {
	if _, err := pod.NamespaceDelivery(ns.Annotations); err != nil {
		return fmt.Errorf("reading the annotations of namespace %q: %w; with another value, the operator's configuration counts", ns.Name, err)
	}
	return nil
}

// withoutEffect warns of annotations of a namespace that have no effect.
func (l *labelAdmission) withoutEffect(namespace *corev1.Namespace, optedIn bool, options pod.Defaults) []string {
	warnings := pod.Messages(pod.IgnoredOnNamespace(namespace.Annotations))
	if optedIn {
		warnings = append(warnings, l.lackingTools(options, namespace.Name)...)
		warnings = append(warnings, l.lackingPart(namespace)...)
	}
	return warnings
}

// lackingPart warns of a delivery that needs a part that isn't installed. For the
// operator's own delivery, the log warns the operator.
func (l *labelAdmission) lackingPart(namespace *corev1.Namespace) []string {
	asked, err := pod.NamespaceDelivery(namespace.Annotations)
	part, needed := l.parts[asked]
	if err != nil || !needed || !part.Absent() {
		return nil
	}
	return []string{fmt.Sprintf("entrypointer: annotation %s: %s has no effect on namespace %q until %s is installed: its pods get an init container; have the operator of entrypointer run: %s",
		pod.DeliveryAnnotation, asked, namespace.Name, part.Folder, version.Applies(version.Own(), strings.TrimPrefix(part.Folder, "config/")))}
}

func checkOptions(namespace *corev1.Namespace, options pod.Defaults) error {
	if err := options.Check(); err != nil {
		return fmt.Errorf("reading the annotations of namespace %q: %w", namespace.Name, err)
	}
	return nil
}

// lackingTools warns of tools that pods of the namespace would run without. The operator
// may offer these tools later.
func (l *labelAdmission) lackingTools(options pod.Defaults, namespace string) []string {
	current := l.config.Load()
	return pod.Messages((&pod.Injector{Tools: current.Tools, ToolRegistries: current.Lookup.Allowed}).LackingTools(namespace, options))
}

// changed reports whether a write changes an annotation.
func changed(now, before *corev1.Namespace, key string) bool {
	value, set := now.Annotations[key]
	was, wasSet := before.Annotations[key]
	return set != wasSet || value != was
}

func labelPatch(ns *corev1.Namespace, want pod.Scope) []jsonpatch.Operation {
	path := "/metadata/labels/" + strings.ReplaceAll(labelKey, "/", "~1")
	switch {
	case follows(ns, want):
		return nil
	case want == pod.NoPods:
		return []jsonpatch.Operation{jsonpatch.NewOperation("remove", path, nil)}
	case len(ns.Labels) == 0:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", "/metadata/labels", map[string]string{labelKey: string(want)})}
	default:
		return []jsonpatch.Operation{jsonpatch.NewOperation("add", path, string(want))}
	}
}
