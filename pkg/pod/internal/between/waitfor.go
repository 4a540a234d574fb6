// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
)

// maxURLs is the number of URLs in one value. Each takes a socket in the container.
const maxURLs = 16

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
func (b *builder) ensureOrdering() *ordering {
	if b.order == nil {
		b.order = &ordering{sees: map[string][]string{}, tells: map[string]bool{}, finals: map[string]string{}, doubtful: b.OwnKernels}
	}
	return b.order
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
func (b *builder) compileWaitFor() error {
	if !b.Ordered {
		return nil
	}
	unwrapped := b.nextUnwrapped()
	for at, c := range b.Object.Spec.Containers {
		key := annotation.For(WaitFor, c.Name)
		value, set := b.Object.Annotations[key]
		if !set {
			continue
		}
		flags, err := parseWaitFor(value)
		if err != nil {
			return text.Errorf("reading annotation %s: %q is wrong; %w", key, value, err)
		}
		if unwrapped[at] == c.Name {
			return text.Errorf("reading annotation %s: container %q can't be kept waiting, because %w", key, c.Name, containers{pod: b.Object}.whyUnwrapped(c.Name))
		}
		if later := unwrapped[at+1]; later != "" && hasBlockingHook(c) {
			b.note(HookBeforeProxy, "annotation %s: container %q has a postStart hook, and Kubernetes doesn't start %q, which comes after it in spec.containers, until the hook has ended; if the container waits for %q, the hook must not need the command",
				key, c.Name, later, later)
		}
		o := b.ensureOrdering()
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
func (b *builder) nextUnwrapped() []string {
	wrapped := map[int]bool{}
	for _, at := range b.Wrapped {
		wrapped[at] = true
	}
	next := make([]string, len(b.Object.Spec.Containers)+1)
	for at, c := range slices.Backward(b.Object.Spec.Containers) {
		next[at] = next[at+1]
		if !wrapped[at] {
			next[at] = c.Name
		}
	}
	return next
}

// waitsForURLs reports whether a container waits for URLs.
func waitsForURLs(pod *corev1.Pod, name string) bool {
	_, set := pod.Annotations[annotation.For(WaitFor, name)]
	return set
}
