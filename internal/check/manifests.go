// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/entrypointer/entrypointer/config"
	"github.com/entrypointer/entrypointer/internal/objects"
)

// A kind is what the checks need to know of a kind of objects in the manifests.
type kind struct {
	path, plural string
	cluster      bool // without a namespace
	// own says that the objects have nothing that operators are meant to change.
	own bool
	// optional says that a part works without its objects of this kind.
	optional bool
}

var kinds = map[string]kind{
	"Namespace":                        {path: "/api/v1", plural: "namespaces", cluster: true},
	"ServiceAccount":                   {path: "/api/v1", plural: "serviceaccounts"},
	"Service":                          {path: "/api/v1", plural: "services", own: true},
	"Secret":                           {path: "/api/v1", plural: "secrets"},
	"ConfigMap":                        {path: "/api/v1", plural: "configmaps", optional: true},
	"PersistentVolumeClaim":            {path: "/api/v1", plural: "persistentvolumeclaims", optional: true},
	"ResourceQuota":                    {path: "/api/v1", plural: "resourcequotas", optional: true},
	"Deployment":                       {path: "/apis/apps/v1", plural: "deployments"},
	"PodDisruptionBudget":              {path: "/apis/policy/v1", plural: "poddisruptionbudgets", optional: true},
	"ClusterRole":                      {path: "/apis/rbac.authorization.k8s.io/v1", plural: "clusterroles", cluster: true, own: true},
	"ClusterRoleBinding":               {path: "/apis/rbac.authorization.k8s.io/v1", plural: "clusterrolebindings", cluster: true, own: true},
	"Role":                             {path: "/apis/rbac.authorization.k8s.io/v1", plural: "roles", own: true},
	"RoleBinding":                      {path: "/apis/rbac.authorization.k8s.io/v1", plural: "rolebindings", own: true},
	"ValidatingAdmissionPolicy":        {path: "/apis/admissionregistration.k8s.io/v1", plural: "validatingadmissionpolicies", cluster: true, own: true},
	"ValidatingAdmissionPolicyBinding": {path: "/apis/admissionregistration.k8s.io/v1", plural: "validatingadmissionpolicybindings", cluster: true, own: true},
	"MutatingAdmissionPolicy":          {path: "/apis/admissionregistration.k8s.io/v1", plural: "mutatingadmissionpolicies", cluster: true, own: true},
	"MutatingAdmissionPolicyBinding":   {path: "/apis/admissionregistration.k8s.io/v1", plural: "mutatingadmissionpolicybindings", cluster: true, own: true},
	"MutatingWebhookConfiguration":     {path: "/apis/admissionregistration.k8s.io/v1", plural: "mutatingwebhookconfigurations", cluster: true, own: true},
	"ValidatingWebhookConfiguration":   {path: "/apis/admissionregistration.k8s.io/v1", plural: "validatingwebhookconfigurations", cluster: true, own: true},
	"CustomResourceDefinition":         {path: "/apis/apiextensions.k8s.io/v1", plural: "customresourcedefinitions", cluster: true, own: true},
	"APIService":                       {path: "/apis/apiregistration.k8s.io/v1", plural: "apiservices", cluster: true, own: true},
}

// A manifest is an object of this release.
type manifest struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	kind              kind
	object            map[string]any
}

// manifestsOf returns the objects of a part, a directory in config.
func manifestsOf(part string) (all []manifest, _ error) {
	files, err := fs.Glob(config.Manifests, part+"/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, name := range files {
		content, err := config.Manifests.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content))); ; {
			document, err := documents.Read()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			m, err := newManifest(document)
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", name, err)
			}
			all = append(all, m)
		}
	}
	return all, nil
}

func newManifest(document []byte) (m manifest, _ error) {
	document, err := yaml.ToJSON(document)
	if err != nil {
		return m, err
	}
	if err := errors.Join(json.Unmarshal(document, &m), json.Unmarshal(document, &m.object)); err != nil {
		return m, err
	}
	known, is := kinds[m.Kind]
	if !is {
		return m, fmt.Errorf("the checks don't know the kind %q", m.Kind)
	}
	m.kind = known
	return m, nil
}

// collection is the path of all objects of the manifest's kind and namespace.
func (m *manifest) collection() string {
	if m.kind.cluster {
		return m.kind.path + "/" + m.kind.plural
	}
	return m.kind.path + "/namespaces/" + m.Namespace + "/" + m.kind.plural
}

// path is the path of the object.
func (m *manifest) path() string { return m.collection() + "/" + m.Name }

func (m *manifest) String() string {
	if m.kind.cluster {
		return m.Kind + " " + m.Name
	}
	return m.Kind + " " + m.Namespace + "/" + m.Name
}

// right is the right to do something with the object, in the words of kubectl auth can-i.
func (m *manifest) right(verb string) string { return verb + " " + m.where() }

func (m *manifest) where() string {
	if m.kind.cluster {
		return m.kind.plural
	}
	return m.kind.plural + " -n " + m.Namespace
}

// checkPart returns a check that compares the objects of a part with the manifests.
func checkPart(part string) func(context.Context, *inquiry) answer {
	return func(ctx context.Context, q *inquiry) (a answer) {
		manifests, err := manifestsOf(part)
		if err != nil {
			return found(Unknown, err.Error(), "")
		}
		apply := q.applies(ctx, part)
		exist, forbidden := 0, map[string]bool{}
		for _, m := range manifests {
			var live map[string]any
			err := q.get(ctx, m.path(), &live)
			switch {
			case apierrors.IsNotFound(err) && m.kind.optional:
			case apierrors.IsNotFound(err):
				a.add(Failed, m.String()+" doesn't exist", apply)
			case apierrors.IsForbidden(err):
				forbidden[m.where()] = true
			case err != nil:
				a.findings = append(a.findings, hindered(err, m.String(), m.right("get")))
			default:
				exist++
				a.compare(&m, live, apply)
			}
		}
		if exist == 0 && part != "webhook" && a.state() != Unknown && len(forbidden) == 0 {
			return skipped("config/" + part + " isn't installed")
		}
		if len(forbidden) > 0 {
			message := "a part is unknown: you may not get " + strings.Join(slices.Sorted(maps.Keys(forbidden)), ", ")
			a.findings = append(a.findings, Finding{State: Unknown, Message: message, lacksRight: true})
		}
		return a
	}
}

// compare says in what an object of the cluster differs from its manifest.
func (a *answer) compare(m *manifest, live map[string]any, apply string) {
	for _, name := range m.takeForeign(live) {
		a.add(Warning, m.String()+": webhook "+name+" isn't of this release", m.removal(name, apply))
	}
	for _, difference := range m.differences(live) {
		a.add(Warning, m.String()+": "+difference, apply)
	}
}

// takeForeign removes the webhooks from a configuration of the cluster that its manifest
// doesn't have, and returns their names.
func (m *manifest) takeForeign(live map[string]any) (names []string) {
	has, isConfiguration := live["webhooks"].([]any)
	if !isConfiguration {
		return nil
	}
	ofRelease, _ := m.object["webhooks"].([]any)
	var known []any
	for _, webhook := range has {
		name := webhookName(webhook)
		if slices.ContainsFunc(ofRelease, func(ours any) bool { return webhookName(ours) == name }) {
			known = append(known, webhook)
		} else {
			names = append(names, name)
		}
	}
	live["webhooks"] = known
	return names
}

func webhookName(webhook any) string {
	fields, _ := webhook.(map[string]any)
	name, _ := fields["name"].(string)
	return name
}

// removal is the command that removes a webhook from a configuration. One that somebody has added
// stays when the manifest is applied, and one of ours is another release's.
func (m *manifest) removal(webhook, apply string) string {
	if strings.HasSuffix(webhook, ".entrypointer.dev") {
		return apply
	}
	return objects.Command("kubectl patch %s %s --type strategic -p '{\"webhooks\":[{\"name\":\"%s\",\"$patch\":\"delete\"}]}'", strings.ToLower(m.Kind), m.Name, webhook)
}

// mostDifferences bounds what is said about one object.
const mostDifferences = 5

// differences says in what an object of the cluster differs from its manifest, but for what
// operators are meant to change.
func (m *manifest) differences(live map[string]any) []string {
	if !m.kind.own {
		return nil
	}
	all := differences("", m.object, live)
	return all[:min(len(all), mostDifferences)]
}

// differences says in what an object of the cluster differs from its manifest. What the
// manifest doesn't mention is the API server's default, or another's.
func differences(path string, want, have any) (all []string) {
	switch want := want.(type) {
	case map[string]any:
		has, _ := have.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(want)) {
			all = append(all, differences(path+"."+key, want[key], has[key])...)
		}
	case []any:
		has, _ := have.([]any)
		if len(want) != len(has) {
			return []string{fmt.Sprintf("%s has %d entries, and %d in this release", path[1:], len(has), len(want))}
		}
		for at := range want {
			all = append(all, differences(fmt.Sprintf("%s[%d]", path, at), want[at], has[at])...)
		}
	default:
		if wanted, had := written(want), written(have); wanted != had {
			at := firstDifference(wanted, had)
			all = append(all, fmt.Sprintf("%s is %s, and %s in this release", path[1:], around(had, at), around(wanted, at)))
		}
	}
	return all
}

// written returns a value as JSON, without the spaces by which libraries for YAML fold
// lines differently.
func written(value any) string {
	if text, is := value.(string); is {
		value = strings.Join(strings.Fields(text), " ")
	}
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(value) // it was JSON
	return strings.TrimSpace(b.String())
}

func firstDifference(a, b string) int {
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	return at
}

// around returns what is written around a place.
func around(text string, place int) string {
	const before, after = 20, 40
	begin, end := max(0, place-before), min(len(text), place+after)
	if begin > 0 {
		text, end, begin = "..."+text[begin:], end-begin+3, 0
	}
	if end < len(text) {
		return text[begin:end] + "..."
	}
	return text
}
