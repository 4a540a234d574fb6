// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// optedIn has the namespaces that mention entrypointer.
type optedIn struct {
	once sync.Once
	all  []metav1.PartialObjectMetadata
	// one says that only the client's namespace was looked at.
	one bool
	err error
}

// read reads the namespaces, once. A user who may not list them is told about the one of
// the client.
func (o *optedIn) read(ctx context.Context, q *inquiry) error {
	o.once.Do(func() {
		keep := func(ns metav1.PartialObjectMetadata) {
			_, annotated := ns.Annotations[pod.InjectAnnotation]
			_, labelled := ns.Labels[pod.InjectAnnotation]
			if annotated || labelled {
				o.all = append(o.all, ns)
			}
		}
		if o.one = q.options.OnlyNamespace; !o.one {
			o.err = q.list(ctx, "/api/v1/namespaces", "", keep)
			o.one = apierrors.IsForbidden(o.err)
		}
		if o.one {
			var ns metav1.PartialObjectMetadata
			if o.err = q.get(ctx, "/api/v1/namespaces/"+q.Namespace, &ns); o.err == nil {
				keep(ns)
			}
		}
	})
	return o.err
}

// looked says which namespaces were looked at.
func (o *optedIn) looked(q *inquiry) string {
	if o.one {
		return "of namespace " + q.Namespace + " only"
	}
	if len(o.all) == 1 {
		return "of 1 namespace"
	}
	return fmt.Sprintf("of %d namespaces", len(o.all))
}

// checkLabels compares the labels of namespaces, by which the API server selects, with
// their annotations.
func checkLabels(ctx context.Context, q *inquiry) (a answer) {
	if err := q.opted.read(ctx, q); err != nil {
		return hinderedAnswer(err, "which namespaces opt in", "get namespaces")
	}
	for _, ns := range q.opted.all {
		want, err := pod.NamespaceScope(ns.Annotations)
		if err != nil || ns.Name == metav1.NamespaceSystem || ns.Name == objects.InjectorNamespace {
			want = pod.NoPods
		}
		if label := pod.Scope(ns.Labels[pod.InjectAnnotation]); label != want {
			a.add(Failed, fmt.Sprintf("namespace %s has %s=%q as its annotation, and %q as its label", ns.Name, pod.InjectAnnotation, ns.Annotations[pod.InjectAnnotation], label),
				objects.Command("kubectl -n default get events --field-selector involvedObject.name=%s", ns.Name))
		}
	}
	a.note = q.opted.looked(q)
	return a
}

// mostNamed is how many pods of a namespace are named.
const mostNamed = 3

const (
	// allFrom is the number of namespaces from which on the pods of all namespaces are listed,
	// instead of those of each that opted in.
	allFrom = 50
	// notEnded selects pods.
	notEnded = "status.phase!=Succeeded,status.phase!=Failed"
	// mostTold bounds the findings about pods.
	mostTold = 20
)

// unwrappedPods are the pods of a namespace that aren't as they should be.
type unwrappedPods struct{ unwrapped, waived []string }

// checkPods looks for pods that are unwrapped, though a new one would be wrapped.
func checkPods(ctx context.Context, q *inquiry) (a answer) {
	if err := q.opted.read(ctx, q); err != nil {
		return hinderedAnswer(err, "which namespaces opt in", "get namespaces")
	}
	scopes := map[string]pod.Scope{}
	for _, ns := range q.opted.all {
		if scope := pod.Scope(ns.Labels[pod.InjectAnnotation]); scope != pod.NoPods {
			scopes[ns.Name] = scope
		}
	}
	pods, all := 0, map[string]unwrappedPods{}
	look := func(p metav1.PartialObjectMetadata) {
		scope, optedIn := scopes[p.Namespace]
		if !optedIn {
			return
		}
		pods++
		of := all[p.Namespace]
		status := p.Annotations[pod.StatusAnnotation]
		switch {
		case strings.HasPrefix(status, string(pod.LookupWaived)), strings.HasPrefix(status, string(pod.PartlyInjected)):
			of.waived = append(of.waived, p.Name)
		case (status == "" || status == pod.Undecided) && isMeant(&p, scope):
			of.unwrapped = append(of.unwrapped, p.Name)
		}
		all[p.Namespace] = of
	}
	if f, failed := q.eachPod(ctx, slices.Sorted(maps.Keys(scopes)), look); failed {
		a.findings = append(a.findings, f)
	}
	for _, namespace := range slices.Sorted(maps.Keys(all)) {
		a.name(namespace, all[namespace].unwrapped, "aren't wrapped")
		a.name(namespace, all[namespace].waived, "run unwrapped, or in part, because images can't be looked up")
	}
	if more := len(a.findings) - mostTold; more > 0 {
		a.findings = append(a.findings[:mostTold:mostTold], Finding{State: Warning, Message: fmt.Sprintf("and so on, in %d more cases", more)})
	}
	a.note = fmt.Sprintf("%d pods that haven't ended, %s", pods, q.opted.looked(q))
	return a
}

// eachPod lists the pods of namespaces: at once if these are many and the user may.
func (q *inquiry) eachPod(ctx context.Context, namespaces []string, look func(metav1.PartialObjectMetadata)) (f Finding, failed bool) {
	if len(namespaces) >= allFrom {
		err := q.list(ctx, "/api/v1/pods", notEnded, look)
		if err == nil {
			return f, false
		}
		if !apierrors.IsForbidden(err) {
			return hindered(err, "whether some pods are wrapped", "list pods -A"), true
		}
	}
	for _, namespace := range namespaces {
		if err := q.list(ctx, "/api/v1/namespaces/"+namespace+"/pods", notEnded, look); err != nil {
			return hindered(err, "whether the pods of namespace "+namespace+" and of those after it are wrapped", "list pods -n "+namespace), true
		}
	}
	return f, false
}

// isMeant reports whether the injector would decide on a pod.
func isMeant(p *metav1.PartialObjectMetadata, scope pod.Scope) bool {
	_, isMirror := p.Annotations[corev1.MirrorPodAnnotationKey]
	_, isRuns := p.Labels[loglabels.TaskRun]
	_, isRevisions := p.Labels[loglabels.Revision]
	return p.DeletionTimestamp == nil && !isMirror &&
		(scope == pod.AllPods || isRuns || isRevisions || p.Annotations[pod.InjectAnnotation] == "true")
}

// name names pods of a namespace, and the command that explains the first one.
func (a *answer) name(namespace string, pods []string, what string) {
	if len(pods) == 0 {
		return
	}
	slices.Sort(pods)
	message := fmt.Sprintf("pods of namespace %s %s: %s", namespace, what, strings.Join(pods[:min(len(pods), mostNamed)], ", "))
	if more := len(pods) - mostNamed; more > 0 {
		message += fmt.Sprintf(" and %d more", more)
	}
	a.add(Warning, message, objects.Command("kubectl entrypointer why -n %s %s", namespace, pods[0]))
}
