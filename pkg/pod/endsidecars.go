// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/spelling"
)

const (
	// endSidecarsOption is the name of the option by which containers that aren't wrapped
	// are asked to end with the pod's work.
	endSidecarsOption = "end-sidecars"
	// noSidecars is the value that asks none.
	noSidecars = "none"
)

// A sidecar is a container that isn't wrapped, and that can be asked to end.
type sidecar struct {
	url string // to post to
	// container is the name that such a container always has, "" if it can be any.
	container string
}

// sidecars are those that are known by a name. docs/order.md says what each needs for it.
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

// endSidecarsFlags has none: they are made by [wrapping.compileEnding].
func endSidecarsFlags(value string, _ target) ([]string, error) {
	_, err := parseSidecars(value)
	return nil, err
}

// parseSidecars reads a value of the option end-sidecars.
func parseSidecars(value string) (list []sidecar, _ error) {
	wrong := canBe(`"istio", "linkerd", "vault", "cloud-sql-proxy" and http://:PORT/PATH, up to 16 of them with commas, or "none"; an IP address may stand before the port`)
	words := splitList(value)
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

// An ending is what is done at the end of a pod's work. Nil is nothing.
type ending struct {
	urls []string
	// members are the containers that work. Each of them may be the last.
	members []string
	// on is the end of each by which its part of the work is done: the last one, since it
	// isn't started again.
	on map[string]condition
	// own says that the pod itself has asked for it.
	own bool
}

// maxEnding is how many containers can know of each other's end: each mounts the
// directories of all.
const maxEnding = 16

// flags are those of a container that works.
func (e *ending) flags(name string) (flags []string) {
	if e == nil || !slices.Contains(e.members, name) {
		return nil
	}
	flags = append(prefixed(endSidecarFlag, e.urls), endSidecarsOnFlag+string(e.on[name]))
	for _, other := range e.members {
		if other != name {
			flags = append(flags, endSidecarsWhenFlag+string(e.on[other])+":"+orderDirectory(other))
		}
	}
	return flags
}

// isHelper reports whether a container is there for others, and is ended when they have: it
// is no part of the work.
func isHelper(pod *corev1.Pod, container string) bool {
	_, is := pod.Annotations[containerKey(stopWhenOption, container)]
	return is
}

// compileEnding notes which containers ask for the end of those that aren't wrapped. What
// the pod itself asks for in vain is refused. A namespace asks it of all its pods, also of
// those whose work has no end.
func (w *wrapping) compileEnding(selected []int) error {
	s, set := w.settingOf(slices.IndexFunc(options, func(o Option) bool { return o.Name == endSidecarsOption }), w.pod, "")
	if !set || !s.suits(w.owner) || w.keepsSidecars {
		return nil
	}
	all, err := parseSidecars(s.value)
	if err != nil {
		return refuse(InvalidAnnotation, "reading %s: %q is wrong; %w", s.source, s.value, err)
	}
	own := s.isPods()
	e := &ending{urls: w.urlsOf(all, selected, own), on: map[string]condition{}, own: own}
	if len(all) == 0 || !own && len(e.urls) == 0 {
		return nil
	}
	e.members = w.working(selected)
	works, err := w.endsKnown(e, s.source, selected)
	if err != nil || !works || len(e.urls) == 0 { // another webhook may still add a sidecar, and then we are asked again
		return err
	}
	w.warnings = append(w.warnings, w.leftOut(s.source, selected)...)
	o := w.beside()
	o.ending = e
	for _, name := range e.members {
		for _, other := range e.members {
			if other != name {
				o.see(name, other)
			}
		}
	}
	return nil
}

// working are the containers that aren't there for others, one more than can be at most.
func (w *wrapping) working(selected []int) (names []string) {
	for _, index := range selected {
		if len(names) > maxEnding {
			break
		}
		if name := w.pod.Spec.Containers[index].Name; !isHelper(w.pod, name) && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// endsKnown reports whether the containers that work have an end, which each can know of. If
// the pod itself counts on it, that they haven't is an error.
func (w *wrapping) endsKnown(e *ending, source string, selected []int) (bool, error) {
	unending, untold, err := w.readEnds(e, selected)
	why := cmp.Or(unending, untold)
	switch {
	case err != nil:
		return false, err
	case e.own && why != nil:
		return false, refuse(InvalidAnnotation, "reading %s: %w", source, why)
	case unending == nil && untold != nil:
		w.warnings = append(w.warnings, warning(ReasonAnnotationHasNoEffect, "%s has no effect: %v", source, untold))
	}
	return why == nil, nil
}

// urlsOf are where to post to in this pod, none if all of its containers are wrapped. What
// a namespace names is left out where the pod has no such container.
func (w *wrapping) urlsOf(all []sidecar, selected []int, own bool) (urls []string) {
	unwrapped := map[string]bool{}
	for at, name := range w.nextUnwrapped(selected)[:len(w.pod.Spec.Containers)] {
		if name == w.pod.Spec.Containers[at].Name {
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

// readEnds finds the last end of each container that works. It says why the work has no
// end, or why nobody would know of it.
func (w *wrapping) readEnds(e *ending, selected []int) (unending, untold, _ error) {
	if len(e.members) == 0 {
		return errors.New("all containers of the pod are there for others (stop-when), so that it has no work that could end"), nil, nil
	}
	for _, index := range selected {
		c := &w.pod.Spec.Containers[index]
		if !slices.Contains(e.members, c.Name) {
			continue
		}
		l, err := w.lifeOf(c)
		switch {
		case err != nil:
			return nil, nil, err
		case !isContainerName(c.Name):
			return fmt.Errorf("no container has a name such as %q", c.Name), nil, nil
		case l.withAll != "":
			return fmt.Errorf("a rule of container %q restarts all containers of the pod, so that no end is known to be the last; use action Restart, or remove the annotation", l.withAll), nil, nil
		case l.restarts[0]:
			return fmt.Errorf("container %q is restarted after a success, so that the work of the pod is never done; set restartPolicy: OnFailure or Never, of the pod or of that container, or remove the annotation; a helper can have stop-when.%s/%s instead",
				c.Name, domain, c.Name), nil, nil
		case l.mode != "":
			untold = fmt.Errorf("by %s: exec, nobody is left in container %q to tell that it has ended; remove one of them", l.mode, c.Name)
		}
		e.on[c.Name] = completed
		if l.failsForGood() {
			e.on[c.Name] = exited
		}
	}
	if len(e.members) > maxEnding {
		untold = fmt.Errorf("more than %d containers of the pod work, which can't know of each other's end; have helpers end by stop-when.%s/CONTAINER", maxEnding, domain)
	}
	return nil, untold, nil
}

// leftOut warns of containers that aren't known to be sidecars, and count as such.
func (w *wrapping) leftOut(source string, selected []int) (warnings []Warning) {
	next := w.nextUnwrapped(selected)
	for at, c := range w.pod.Spec.Containers {
		if next[at] == c.Name && !w.Policy.isProxy(c.Name) {
			warnings = append(warnings, warning(ReasonContainerCountsAsSidecar, "%s: container %q isn't wrapped, so that it counts as a sidecar, and the others don't wait for its end; if it works, add it to annotation %s", source, c.Name, ContainersAnnotation))
		}
	}
	return warnings
}

// mustBeWrapped reports whether a container can't run unwrapped, because others or itself
// count on it by the pod's own word.
func (o *ordering) mustBeWrapped(name string) bool {
	return o != nil && (slices.Contains(o.names, name) || len(o.waitsFor[name]) > 0 || o.ending != nil && o.ending.own && slices.Contains(o.ending.members, name))
}

// keepSidecars has sidecars not ended after all if one of the containers that work runs
// unwrapped: nobody would know when the work is done.
func (w *wrapping) keepSidecars(ctx context.Context, pod *corev1.Pod, selected, wrapped []int, unwrapped []string) (err error) {
	works := func(name string) bool { return slices.Contains(w.order.ending.members, name) }
	if w.order == nil || w.order.ending == nil || !slices.ContainsFunc(unwrapped, works) {
		return nil
	}
	w.warnings = append(w.warnings, warning(ReasonAnnotationHasNoEffect, "annotation %s/%s of the namespace has no effect: nobody would know when the work of the pod is done", domain, endSidecarsOption))
	said := w.warnings
	w.keepsSidecars = true
	if err = w.compile(selected); err != nil {
		return err
	}
	w.warnings = said
	for _, index := range wrapped { // the flags are made anew
		if _, err = w.wrap(ctx, &pod.Spec.Containers[index]); err != nil {
			return err
		}
	}
	return nil
}

// compile makes of the pod's annotations what its containers have to do with each other,
// and with those that aren't wrapped.
func (w *wrapping) compile(selected []int) (err error) {
	if w.order, err = w.compileOrder(selected); err != nil {
		return err
	}
	if err := w.compileWaitFor(selected); err != nil {
		return err
	}
	if err := w.compileStartupProbes(selected); err != nil {
		return err
	}
	if err := w.compileEnding(selected); err != nil {
		return err
	}
	w.shared, err = w.compileSharing(selected)
	return err
}
