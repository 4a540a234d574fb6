// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
)

// A parsedPod is a pod with its annotations and labels in our domain, which are parsed once.
type parsedPod struct {
	*corev1.Pod
	annotations []parsedKey // sorted by their keys
	labels      []string    // the keys, sorted
	containers  map[string]bool
	// ofPod are the annotations for all containers, by their options, and ofContainer those
	// for single containers, by the names there.
	ofPod       map[*Option]*parsedKey
	ofContainer map[string][]*parsedKey
}

// A parsedKey is an annotation in our domain.
type parsedKey struct {
	text      string
	value     string
	name      string  // of the option
	option    *Option // nil if there is none of this name
	container string  // "" for all containers
}

// parse parses what a pod says in our domain. It is the only function that looks for keys
// there: the others look in its result, or for a key that they know.
func parse(pod *corev1.Pod) *parsedPod {
	p := &parsedPod{Pod: pod, annotations: parseKeys(pod.Annotations), labels: annotation.Ours(pod.Labels)}
	if len(p.annotations) == 0 {
		return p
	}
	p.containers = annotation.ContainerNames(pod)
	p.ofPod, p.ofContainer = map[*Option]*parsedKey{}, map[string][]*parsedKey{}
	for at := range p.annotations {
		switch key := &p.annotations[at]; {
		case key.option == nil:
		case strings.HasPrefix(key.text, annotation.Domain+"/"):
			p.ofPod[key.option] = key
		default:
			p.ofContainer[key.container] = append(p.ofContainer[key.container], key)
		}
	}
	return p
}

// parseKeys returns the annotations in our domain, sorted by their keys.
func parseKeys(annotations map[string]string) (list []parsedKey) {
	for _, key := range annotation.Ours(annotations) {
		name, container, _ := annotation.Split(key)
		list = append(list, parsedKey{text: key, value: annotations[key], name: name, option: optionNamed(name), container: container})
	}
	return list
}
