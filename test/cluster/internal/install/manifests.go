// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"embed"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/test/cluster/internal/host"
	"github.com/entrypointer/entrypointer/test/cluster/internal/images"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

//go:embed yaml
var own embed.FS

// object is a Kubernetes object, as YAML has it.
type object map[string]any

func (o object) kind() string { kind, _ := o["kind"].(string); return kind }

func (o object) name() string { name, _ := at(o, "metadata", "name").(string); return name }

// settings is what our own YAML knows.
type settings struct {
	NodeIP, DNSServiceIP, Domain string
	IngressNodePort              int
	CoreDNS, Traefik             string
	Provisioner, Busybox         string
	SharedVolumes, NodesVolumes  string // directories of the node
	Nameservers                  []string
	Volumes                      []volume
}

// manifests returns all that is installed, in the order in which to apply it:
// CRDs first, to be applied on their own.
func manifests(l layout.Layout, releases []string) (crds, rest []object, err error) {
	s := settings{
		NodeIP: layout.NodeIP, DNSServiceIP: layout.DNSServiceIP, Domain: layout.Domain,
		IngressNodePort: layout.IngressNodePort,
		CoreDNS:         images.CoreDNS, Traefik: images.Traefik,
		Provisioner: images.Provisioner, Busybox: images.Busybox,
		SharedVolumes: l.Data("volumes", "shared"), NodesVolumes: l.Data("volumes", "node"),
		Nameservers: host.Nameservers(),
	}
	var all []object
	for _, name := range []string{"coredns.yaml", "traefik.yaml", "provisioner.yaml"} {
		objects, err := ownYAML(name, s)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, objects...)
	}
	for _, path := range releases {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("reading manifests: %w", err)
		}
		objects, err := parse(string(text))
		if err != nil {
			return nil, nil, fmt.Errorf("reading manifests from %q: %w", path, err)
		}
		all = append(all, objects...)
	}
	crds, rest = order(adapt(all))
	return crds, rest, nil
}

func ownYAML(name string, s settings) ([]object, error) {
	t, err := template.ParseFS(own, "yaml/"+name)
	if err != nil {
		return nil, fmt.Errorf("reading the template %q: %w", name, err)
	}
	var text strings.Builder
	if err := t.Execute(&text, s); err != nil {
		return nil, fmt.Errorf("filling in the template %q: %w", name, err)
	}
	objects, err := parse(text.String())
	if err != nil {
		return nil, fmt.Errorf("reading the manifest %q: %w", name, err)
	}
	return objects, nil
}

var separator = regexp.MustCompile(`(?m)^---\s*(#.*)?$`)

// parse reads YAML documents, and skips those that hold comments only.
func parse(text string) ([]object, error) {
	var objects []object
	for _, document := range separator.Split(text, -1) {
		var o object
		if err := yaml.Unmarshal([]byte(document), &o); err != nil {
			return nil, fmt.Errorf("parsing %.200q: %w", document, err)
		}
		if o != nil {
			objects = append(objects, o)
		}
	}
	return objects, nil
}

// Kinds that others depend on, before them. What isn't named comes in between.
var early = []string{"Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret", "ConfigMap", "Service"}

// Webhooks come last: nothing is refused while nobody answers.
var late = []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}

func order(all []object) (crds, rest []object) {
	for _, o := range all {
		if o.kind() == "CustomResourceDefinition" {
			crds = append(crds, o)
		} else {
			rest = append(rest, o)
		}
	}
	slices.SortStableFunc(rest, func(a, b object) int { return rank(a.kind()) - rank(b.kind()) })
	return crds, rest
}

func rank(kind string) int {
	if i := slices.Index(early, kind); i >= 0 {
		return i
	}
	if slices.Contains(late, kind) {
		return len(early) + 1
	}
	return len(early)
}

// render turns objects into YAML documents.
func render(objects []object) (string, error) {
	var text strings.Builder
	for _, o := range objects {
		document, err := yaml.Marshal(o)
		if err != nil {
			return "", fmt.Errorf("writing %s %q: %w", o.kind(), o.name(), err)
		}
		text.WriteString("---\n")
		text.Write(document)
	}
	return text.String(), nil
}
