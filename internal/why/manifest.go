// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package why

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	corev1 "k8s.io/api/core/v1"
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
	Pod             *corev1.Pod
}

// ReadManifests reads the objects of YAML or JSON documents. An object that has no pods is
// left out, and a file without any is an error.
func ReadManifests(from io.Reader) (all []Manifest, _ error) {
	documents := yaml.NewYAMLReader(bufio.NewReader(io.LimitReader(from, maxManifest)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading document %d: %w", number, err)
		}
		if len(bytes.TrimSpace(document)) == 0 {
			continue
		}
		m, err := readManifest(document)
		if err != nil {
			return nil, fmt.Errorf("reading document %d: %w", number, err)
		}
		if m != nil {
			all = append(all, *m)
		}
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

// ofTekton are the kinds whose pods only Tekton's controller can make.
var ofTekton = []string{"TaskRun", "PipelineRun", "Task", "Pipeline"}

func readManifest(document []byte) (*Manifest, error) {
	var o objects.Workload
	if err := sigsyaml.Unmarshal(document, &o); err != nil {
		return nil, err
	}
	name := cmp.Or(o.Name, o.GenerateName)
	switch {
	case o.Kind == "":
		return nil, errors.New("it has no kind")
	case slices.Contains(ofTekton, o.Kind):
		return nil, fmt.Errorf("only Tekton's controller can make the pod of a %s: create it, and ask about taskrun/NAME", o.Kind)
	case o.Kind == "Pod":
		p := &corev1.Pod{}
		if err := sigsyaml.Unmarshal(document, p); err != nil {
			return nil, err
		}
		p.Namespace = ""
		return &Manifest{"pod/" + name, o.Namespace, p}, nil
	case o.Kind == "Service" && o.Template() != nil:
		return nil, errors.New("only Knative's controller can make the pod of a Service: create it, and ask about ksvc/NAME")
	}
	kinds := target.All()
	at := slices.IndexFunc(kinds, func(k target.Kind) bool { return k.Object == o.Kind })
	if at < 0 || o.Template() == nil {
		return nil, nil
	}
	return &Manifest{kinds[at].Name + "/" + name, o.Namespace, fromTemplate(o.Template(), cmp.Or(kinds[at].Controller, o.Kind), name, "00000000-0000-0000-0000-000000000000")}, nil
}
