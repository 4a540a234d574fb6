// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/entrypointer/entrypointer/test/cluster/internal/images"
	"github.com/entrypointer/entrypointer/test/cluster/internal/layout"
)

const release = `# a comment only
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingWebhookConfiguration
metadata: {name: hook}
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: controller, namespace: space}
spec:
  replicas: 3
  template:
    spec:
      containers:
        - name: c
          args: [-shell-image, example.org/shell, -other, x]
          resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 2Gi}}
--- # separated with a comment
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: hpa}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config-domain}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config-network}
data: {kept: as it is, ingress-class: other}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: config-deployment}
data: {registries-skipping-tag-resolving: "kind.local"}
---
apiVersion: v1
kind: Namespace
metadata: {name: space}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crd}
`

func parseAdapted(t *testing.T) (crds, rest []object) {
	t.Helper()
	objects, err := parse(release)
	if err != nil {
		t.Fatal(err)
	}
	return order(adapt(objects))
}

func find(t *testing.T, objects []object, name string) object {
	t.Helper()
	for _, o := range objects {
		if o.name() == name {
			return o
		}
	}
	t.Fatalf("%q is not among the objects", name)
	return nil
}

func TestOrder(t *testing.T) {
	crds, rest := parseAdapted(t)
	if len(crds) != 1 || crds[0].name() != "crd" {
		t.Errorf("CRDs: got %v", crds)
	}
	var names []string
	for _, o := range rest {
		names = append(names, o.name())
	}
	if got, want := strings.Join(names, " "), "space config-domain config-network config-deployment controller hook"; got != want {
		t.Errorf("order: got %q, want %q", got, want)
	}
}

func TestAdaptDeployment(t *testing.T) {
	_, rest := parseAdapted(t)
	deployment := find(t, rest, "controller")
	if got := at(deployment, "spec", "replicas"); got != 1 {
		t.Errorf("replicas: got %v, want 1", got)
	}
	container := at(deployment, "spec", "template", "spec", "containers").([]any)[0].(map[string]any)
	for _, want := range []struct {
		of, resource string
		value        any
	}{
		{"requests", "cpu", "10m"}, {"requests", "memory", "1Gi"}, {"limits", "cpu", nil}, {"limits", "memory", "2Gi"},
	} {
		if got := at(container, "resources", want.of, want.resource); got != want.value {
			t.Errorf("%s of %s: got %v, want %v", want.of, want.resource, got, want.value)
		}
	}
	args := container["args"].([]any)
	if args[1] != images.Busybox || args[3] != "x" {
		t.Errorf("args: got %q, want the local shell image and the rest as it was", args)
	}
}

func TestAdaptConfigMaps(t *testing.T) {
	_, rest := parseAdapted(t)
	if got := at(find(t, rest, "config-domain"), "data", "example.test"); got != "" {
		t.Errorf("config-domain: got %v, want our domain for every service", got)
	}
	network := find(t, rest, "config-network")
	if got := at(network, "data", "ingress-class"); got != "traefik.ingress.networking.knative.dev" {
		t.Errorf("ingress-class: got %v", got)
	}
	skipped, _ := at(find(t, rest, "config-deployment"), "data", "registries-skipping-tag-resolving").(string)
	if !slices.Contains(strings.Split(skipped, ","), name.DefaultRegistry) {
		t.Errorf("registries-skipping-tag-resolving: got %q: Knative would ask Docker Hub itself", skipped)
	}
	if got := at(network, "data", "kept"); got != "as it is" {
		t.Errorf("what we don't set: got %v", got)
	}
}

// The YAML that we ship parses, filled in, and comes back from rendering.
func TestOwnManifests(t *testing.T) {
	path := filepath.Join(t.TempDir(), "release.yaml")
	if err := os.WriteFile(path, []byte(release), 0o644); err != nil {
		t.Fatal(err)
	}
	crds, rest, err := manifests(layout.Layout{State: "/state"}, []string{path})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"coredns", "kube-dns", "traefik", "local-path-provisioner", "shared", "controller"} {
		find(t, rest, name)
	}
	config, _ := at(find(t, rest, "local-path-config"), "data", "config.json").(string)
	var classes struct {
		StorageClassConfigs map[string]struct{ SharedFileSystemPath string }
	}
	if err := json.Unmarshal([]byte(config), &classes); err != nil || classes.StorageClassConfigs["shared"].SharedFileSystemPath != "/state/data/volumes/shared" {
		t.Errorf("configuration of the provisioner: got %s, %v", config, err)
	}
	text, err := render(append(crds, rest...))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := parse(text); err != nil || len(again) != len(crds)+len(rest) {
		t.Errorf("parsing what was rendered: %d objects, %v; want %d", len(again), err, len(crds)+len(rest))
	}
	if corefile := at(find(t, rest, "coredns"), "data", "Corefile"); corefile != nil && !strings.Contains(corefile.(string), `"{{ .Name }} 60 IN A 10.250.0.1"`) {
		t.Errorf("Corefile: got %s", corefile)
	}
}
