// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// waitForOption is the name of the option by which a container waits for unwrapped
// containers.
const waitForOption = "wait-for"

// maxURLs is the number of URLs in one value. Each takes a socket in the container.
const maxURLs = 16

// waitForFlags returns no flags: [wrapping.compileWaitFor] makes them.
func waitForFlags(value string, _ target) ([]string, error) {
	_, err := parseWaitFor(value)
	return nil, err
}

// parseWaitFor turns a value of the option wait-for into flags.
func parseWaitFor(value string) (flags []string, _ error) {
	wrong := text.CanBe("http://:PORT/PATH, tcp://:PORT or file:///PATH, up to 16 of them with commas; an IP address may stand before the port")
	words := text.SplitList(value)
	if len(words) == 0 || len(words) > maxURLs {
		return nil, wrong
	}
	for _, word := range words {
		url, ok := parseURL(word)
		if !ok {
			return nil, wrong
		}
		flags = append(flags, waitForFlag+url)
	}
	return flags, nil
}

// parseURL parses a URL like a value of the option ready-when, and returns it in the
// supervisor's form.
func parseURL(word string) (url string, ok bool) {
	flags, err := parseReadyWhen(word)
	if err != nil || len(flags) != 1 {
		return "", false
	}
	for flag, scheme := range map[string]string{readyFileFlag: "file://", readyTCPFlag: "tcp://", readyHTTPFlag: ""} {
		if rest, is := strings.CutPrefix(flags[0], flag); is {
			return scheme + rest, true
		}
	}
	return "", false // a command
}

// ensureOrdering returns the graph, to note waits for URLs in it.
func (w *wrapping) ensureOrdering() *ordering {
	if w.order == nil {
		w.order = &ordering{sees: map[string][]string{}, tells: map[string]bool{}, finals: map[string]string{}, doubtful: w.Policy.hasDoubtfulKernel(&w.pod.Spec)}
	}
	return w.order
}

// standaloneFlags returns the flags of a container that has no relation to other
// containers.
func (o *ordering) standaloneFlags(name string) []string {
	if o == nil {
		return nil
	}
	return slices.Concat(o.waitForFlags[name], o.startups[name], o.ending.flags(name))
}

// compileWaitFor notes which containers wait for URLs, and refuses containers that can't.
func (w *wrapping) compileWaitFor(selected []int) error {
	if w.owner == Tekton {
		return nil
	}
	unwrapped := w.nextUnwrapped(selected)
	for at, c := range w.pod.Spec.Containers {
		key := containerKey(waitForOption, c.Name)
		value, set := w.pod.Annotations[key]
		if !set {
			continue
		}
		flags, err := parseWaitFor(value)
		if err != nil {
			return refuse(InvalidAnnotation, "reading annotation %s: %q is wrong; %w", key, value, err)
		}
		if unwrapped[at] == c.Name {
			return refuse(InvalidAnnotation, "reading annotation %s: container %q can't be kept waiting, because %w", key, c.Name, orderable{pod: w.pod}.whyUnwrapped(c.Name))
		}
		if later := unwrapped[at+1]; later != "" && hasBlockingHook(c) {
			w.warnings = append(w.warnings, warning(ReasonHookBeforeProxy, "annotation %s: container %q has a postStart hook, and Kubernetes doesn't start %q, which comes after it in spec.containers, until the hook has ended; if the container waits for %q, the hook must not need the command",
				key, c.Name, later, later))
		}
		o := w.ensureOrdering()
		if o.waitForFlags == nil {
			o.waitForFlags = map[string][]string{}
		}
		o.waitForFlags[c.Name] = flags
	}
	return nil
}

// hasBlockingHook reports whether Kubernetes runs a hook in the container before it
// starts the next container.
func hasBlockingHook(c corev1.Container) bool {
	return c.Lifecycle != nil && c.Lifecycle.PostStart != nil && c.Lifecycle.PostStart.Sleep == nil
}

// nextUnwrapped returns, for each index in spec.containers and the index after the last,
// the first unwrapped container from there on, "" if there is none.
func (w *wrapping) nextUnwrapped(selected []int) []string {
	wrapped := map[int]bool{}
	for _, at := range selected {
		wrapped[at] = true
	}
	next := make([]string, len(w.pod.Spec.Containers)+1)
	for at, c := range slices.Backward(w.pod.Spec.Containers) {
		next[at] = next[at+1]
		if !wrapped[at] {
			next[at] = c.Name
		}
	}
	return next
}

// waitsForURLs reports whether a container waits for URLs.
func waitsForURLs(pod *corev1.Pod, name string) bool {
	_, set := pod.Annotations[containerKey(waitForOption, name)]
	return set
}
