// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// maxManifest bounds a manifest, in bytes: an API server takes no object of 3 MiB.
const maxManifest = 16 << 20

// A Manifest is an object of a file, with a pod as its controller would create it.
type Manifest struct {
	// Name is TYPE/NAME, and Namespace "" if the file has none.
	Name, Namespace string
	// Pod is nil if only the object's controller can make it. Ask is the object to ask about
	// once it exists, as TYPE/NAME.
	Pod *corev1.Pod
	Ask string

	metadata map[string]string // the annotations of an object with a template
}

// ReadManifests reads the objects of YAML or JSON documents. An object that has no pods is
// left out, and a file without any is an error.
func ReadManifests(from io.Reader) (all []Manifest, _ error) {
	limited := &io.LimitedReader{R: from, N: maxManifest + 1}
	documents := yaml.NewYAMLReader(bufio.NewReader(limited))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if limited.N == 0 {
			return nil, fmt.Errorf("reading the file: it is longer than %d bytes", maxManifest)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading document %d: %w", number, err)
		}
		m, err := readManifest(document)
		if err != nil {
			return nil, fmt.Errorf("reading document %d: %w", number, err)
		}
		if m != nil {
			all = append(all, *m)
		}
	}
	if limited.N == maxManifest+1 {
		return nil, errors.New("reading the file: it is empty")
	}
	if all == nil {
		return nil, fmt.Errorf("reading the file: it has no object with pods; such are %s", templates())
	}
	return all, nil
}

// templates lists the kinds that have a template for pods: "Pod, Deployment or Job".
func templates() string {
	all := []string{"Pod"}
	for _, k := range target.All() {
		if k.Object != "" {
			all = append(all, k.Object)
		}
	}
	return spelling.Alternatives(all)
}

// ofControllers are the kinds whose pods only a controller can make, with the type of the
// object to ask about once it exists.
var ofControllers = map[string]string{
	"TaskRun": "taskrun", "PipelineRun": "pipelinerun", "Task": "taskrun", "Pipeline": "pipelinerun",
	"Workflow": "workflow", "CronWorkflow": "workflow", "Configuration": "ksvc",
}

// ofController returns the manifest of an object whose pods only a controller can make.
func ofController(o *metav1.PartialObjectMetadata, asked string) *Manifest {
	m := &Manifest{Name: strings.ToLower(o.Kind) + "/" + cmp.Or(o.Name, o.GenerateName), Namespace: o.Namespace, Ask: asked + "/NAME"}
	if o.Kind == "Service" {
		m.Name = asked + "/" + o.Name
	}
	if o.Name != "" && m.Name == asked+"/"+o.Name {
		m.Ask = m.Name // another object than a run has runs of other names
	}
	return m
}

// readManifest reads an object with pods. It returns nil for a document without an object,
// and for objects that have none.
func readManifest(document []byte) (*Manifest, error) {
	var typed *metav1.PartialObjectMetadata // nil for a document of comments alone
	if err := sigsyaml.Unmarshal(document, &typed); err != nil {
		return nil, err
	}
	kinds := target.All()
	switch {
	case typed == nil:
		return nil, nil
	case typed.Kind == "":
		return nil, errors.New("it has no kind")
	case typed.Kind == "List" || strings.HasSuffix(typed.Kind, "List") && typed.APIVersion == "v1":
		return nil, fmt.Errorf("it is a %s: write its objects as documents of their own, with --- between them", typed.Kind)
	case ofControllers[typed.Kind] != "":
		return ofController(typed, ofControllers[typed.Kind]), nil
	case typed.Kind == "Service" && strings.HasPrefix(typed.APIVersion, "serving.knative.dev/"):
		return ofController(typed, "ksvc"), nil
	case typed.Kind == "Pod":
		p := &corev1.Pod{}
		if err := sigsyaml.Unmarshal(document, p); err != nil {
			return nil, err
		}
		m := &Manifest{Name: "pod/" + cmp.Or(p.Name, p.GenerateName), Namespace: p.Namespace, Pod: p}
		p.Namespace = ""
		return m, nil
	}
	at := slices.IndexFunc(kinds, func(k target.Kind) bool { return k.Object == typed.Kind })
	if at < 0 {
		return nil, nil
	}
	var o objects.Workload
	if err := sigsyaml.Unmarshal(document, &o); err != nil {
		return nil, err
	}
	template := o.Template()
	if template == nil {
		return nil, fmt.Errorf("the %s %q has no template for pods", o.Kind, o.Name)
	}
	name := cmp.Or(o.Name, o.GenerateName)
	trial := fromTemplate(template, cmp.Or(kinds[at].Controller, o.Kind), name, "00000000-0000-0000-0000-000000000000")
	completeTrial(trial, &o)
	return &Manifest{Name: kinds[at].Name + "/" + name, Namespace: o.Namespace, Pod: trial, metadata: o.Annotations}, nil
}
