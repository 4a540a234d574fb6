// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package between

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/annotation"
	"github.com/entrypointer/entrypointer/pkg/pod/internal/text"
	"github.com/entrypointer/entrypointer/pkg/spelling"
)

// noSidecars is the value of the option end-sidecars for no containers.
const noSidecars = "none"

// A sidecar is an unwrapped container that ends on request.
type sidecar struct {
	url string // to post to
	// container is the name that such a container always has, "" if the name varies.
	container string
}

// sidecars are the sidecars that a value can name. docs/order.md lists the settings that
// each of them needs.
var sidecars = map[string]sidecar{
	// https://github.com/istio/istio/blob/master/pilot/cmd/pilot-agent/status/server.go
	"istio": {"http://127.0.0.1:15020/quitquitquit", "istio-proxy"},
	// https://github.com/linkerd/linkerd2-proxy/blob/main/linkerd/app/admin/src/server.rs
	"linkerd": {"http://127.0.0.1:4191/shutdown", "linkerd-proxy"},
	// https://developer.hashicorp.com/vault/docs/agent-and-proxy/agent#quit
	"vault": {"http://127.0.0.1:8200/agent/v1/quit", "vault-agent"},
	// https://github.com/GoogleCloudPlatform/cloud-sql-proxy/blob/main/cmd/root.go
	"cloud-sql-proxy": {"http://127.0.0.1:9091/quitquitquit", ""},
}

// parseSidecars parses a value of the option end-sidecars.
func parseSidecars(value string) (list []sidecar, _ error) {
	wrong := text.CanBe(`"istio", "linkerd", "vault", "cloud-sql-proxy" and http://:PORT/PATH, up to 16 of them with commas, or "none"; an IP address may stand before the port`)
	words := text.SplitList(value)
	if len(words) == 1 && words[0] == noSidecars {
		return nil, nil
	}
	if len(words) == 0 || len(words) > maxURLs {
		return nil, wrong
	}
	for _, word := range words {
		s, known := sidecars[word]
		if !known {
			url, ok := parseURL(word)
			if !ok || !strings.HasPrefix(url, "http://") {
				return nil, fmt.Errorf("%w%s", wrong, spelling.DidYouMean(word, slices.Sorted(maps.Keys(sidecars))))
			}
			s.url = url
		}
		if !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	return list, nil
}

// An ending describes how sidecars are ended after the pod's work. Nil ends none.
type ending struct {
	urls []string
	// members are the wrapped containers, for whose last ends the sidecars are needed. Each
	// of them may be the last to end, a helper (stop-when) after the work that it helps.
	members []string
	// finals are the exit codes of each member after which it isn't restarted.
	finals map[string]string
	// own reports whether the pod's own annotation sets the option.
	own bool
}

// maxEnding is the largest number of members: each member mounts the directories of all
// members.
const maxEnding = 16

// flags returns the flags of a member.
func (e *ending) flags(name string) (flags []string) {
	if e == nil || !slices.Contains(e.members, name) {
		return nil
	}
	flags = append(prefixed(endSidecarFlag, e.urls), endSidecarsOnFlag+e.finals[name])
	for _, other := range e.members {
		if other != name {
			flags = append(flags, endSidecarsWhenFlag+string(conditions.Exited)+":"+orderDirectory(other))
		}
	}
	return flags
}

// isHelper reports whether a container is a helper: it ends with other containers
// (stop-when), and is no part of the work that they do.
func isHelper(pod *corev1.Pod, container string) bool {
	_, is := pod.Annotations[annotation.For(StopWhen, container)]
	return is
}

// compileEnding determines which containers end the sidecars. It refuses a pod whose own
// annotation can't have an effect. A namespace's annotation applies to all pods there,
// also to those whose work has no end.
func (b *builder) compileEnding() error {
	s := b.EndSidecars
	if s == nil {
		return nil
	}
	all, err := parseSidecars(s.Value)
	if err != nil {
		return text.Errorf("reading %s: %q is wrong; %w", s.Source, s.Value, err)
	}
	e := &ending{urls: b.urlsOf(all, s.Own), finals: map[string]string{}, own: s.Own}
	if len(all) == 0 || !s.Own && len(e.urls) == 0 {
		return nil
	}
	e.members = b.needing()
	works, err := b.endsKnown(e, s.Source)
	if err != nil || !works || len(e.urls) == 0 { // another webhook may still add a sidecar, and then the API server asks again
		return err
	}
	b.noteLeftOut(s.Source)
	o := b.ensureOrdering()
	o.ending = e
	maps.Copy(o.finals, e.finals)
	for _, name := range e.members {
		for _, other := range e.members {
			if other != name {
				o.see(name, other)
			}
		}
	}
	return nil
}

// needing returns the containers that may need the sidecars until they end, at most
// maxEnding and one more.
func (b *builder) needing() (names []string) {
	for _, index := range b.Wrapped {
		if len(names) > maxEnding {
			break
		}
		if name := b.Object.Spec.Containers[index].Name; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// endsKnown reports whether each member ends for good, and can report its end to the
// others. If the pod's own annotation sets the option, false is an error.
func (b *builder) endsKnown(e *ending, source string) (bool, error) {
	unending, untold, err := b.lastOutcomes(e)
	why := cmp.Or(unending, untold)
	switch {
	case err != nil:
		return false, err
	case e.own && why != nil:
		return false, text.Errorf("reading %s: %w", source, why)
	case unending == nil && untold != nil:
		b.note(NoEffect, "%s has no effect: %v", source, untold)
	}
	return why == nil, nil
}

// urlsOf returns the URLs to post to in this pod, none if all of its containers are
// wrapped. A sidecar that a namespace names is left out if the pod has no such container.
func (b *builder) urlsOf(all []sidecar, own bool) (urls []string) {
	unwrapped := map[string]bool{}
	for at, name := range b.nextUnwrapped()[:len(b.Object.Spec.Containers)] {
		if name == b.Object.Spec.Containers[at].Name {
			unwrapped[name] = true
		}
	}
	for _, s := range all {
		if len(unwrapped) > 0 && (own || s.container == "" || unwrapped[s.container]) {
			urls = append(urls, s.url)
		}
	}
	return urls
}

// lastOutcomes finds the last end of each member. It returns why the work has no end, or why
// its end can't be reported.
func (b *builder) lastOutcomes(e *ending) (unending, untold, _ error) {
	works := func(name string) bool { return !isHelper(b.Object, name) }
	switch {
	case len(e.members) > maxEnding:
		untold = fmt.Errorf("the pod has more than %d wrapped containers, and only so many can report their ends to each other; leave some of them out of annotation %s", maxEnding, annotation.Containers)
	case !slices.ContainsFunc(e.members, works):
		return errors.New("all containers of the pod are helpers (stop-when), so that the pod has no work that could end"), nil, nil
	}
	for _, index := range b.Wrapped {
		c := &b.Object.Spec.Containers[index]
		if !slices.Contains(e.members, c.Name) {
			continue
		}
		l, err := b.restartPolicyOf(c)
		switch {
		case err != nil:
			return nil, nil, err
		case !isContainerName(c.Name):
			return fmt.Errorf("no container has a name such as %q", c.Name), nil, nil
		case l.withAll != "":
			return fmt.Errorf("a rule of container %q restarts all containers of the pod, so that no end of a container is known to be its last; use action Restart, or remove the annotation", l.withAll), nil, nil
		case l.restarts[0]:
			return fmt.Errorf("container %q is restarted after a success, so that the work of the pod is never done; set restartPolicy: OnFailure or Never, of the pod or of that container, or remove the annotation; a helper can have stop-when.%s/%s instead",
				c.Name, annotation.Domain, c.Name), nil, nil
		case l.mode != "":
			untold = fmt.Errorf("by %s: exec, container %q has no supervisor that reports its end; remove one of them", l.mode, c.Name)
		}
		e.finals[c.Name] = l.finalCodes()
	}
	return nil, untold, nil
}

// noteLeftOut notes unwrapped containers that count as sidecars, without being known as
// sidecars.
func (b *builder) noteLeftOut(source string) {
	next := b.nextUnwrapped()
	for at, c := range b.Object.Spec.Containers {
		if next[at] == c.Name && !b.IsProxy(c.Name) {
			b.note(CountsAsSidecar, "%s: container %q isn't wrapped, so that it counts as a sidecar, whose end the others don't wait for; if it does a part of the pod's work, add it to annotation %s", source, c.Name, annotation.Containers)
		}
	}
}

// mustBeWrapped reports whether a container can't run unwrapped, because its pod's
// annotations give it a place in the order.
func (o *ordering) mustBeWrapped(name string) bool {
	return o != nil && (slices.Contains(o.names, name) || len(o.waitForFlags[name]) > 0 || o.ending != nil && o.ending.own && slices.Contains(o.ending.members, name))
}
