// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// versioned returns an injector that writes this version to pods.
func versioned(version string, known images) *pod.Injector {
	injector := newInjector(known)
	injector.Version = version
	return injector
}

func TestTheStatusEndsWithTheVersionIfSoAsked(t *testing.T) {
	const status = pod.StatusAnnotation
	wrapped := inject(t, versioned("v1.2.3", nil), asking(running("a", "x")))
	require.Equal(t, "Injected by init-container; version: v1.2.3", wrapped.Pod.Annotations[status])
	ordered := inject(t, versioned("v1.2.3", nil), dependsOn(abc(), "a", "b:started"))
	require.Equal(t, "Injected by init-container; order: b -> a; version: v1.2.3", ordered.Pod.Annotations[status])
	left := asking(running("a", "x"))
	left.Annotations[pod.InjectAnnotation] = "false"
	require.Equal(t, "OptedOut; version: v1.2.3", inject(t, versioned("v1.2.3", nil), left).Pod.Annotations[status])

	for annotation, decided := range map[string]string{
		"Injected by init-container; version: v1.2.3":                "Injected by init-container",
		"Injected by init-container; order: b -> a; version: v1.2.3": "Injected by init-container; order: b -> a",
		"Injected by init-container":                                 "Injected by init-container",
		"":                                                           "",
	} {
		require.Equal(t, decided, pod.WithoutVersion(annotation))
	}
}

// An API server with config/outage marks a pod before it asks.
func TestAnUndecidedPodIsDecidedOnAsIfItHadNoStatus(t *testing.T) {
	for name, p := range map[string]*corev1.Pod{
		"wrapped": asking(running("a", "x")), "not ours": {Spec: corev1.PodSpec{Containers: []corev1.Container{running("a", "x")}}}, "opted out": optingOut(),
	} {
		t.Run(name, func(t *testing.T) {
			undecided := p.DeepCopy()
			if undecided.Annotations == nil {
				undecided.Annotations = map[string]string{}
			}
			undecided.Annotations[pod.StatusAnnotation], undecided.Annotations[pod.MayWaitAnnotation] = pod.Undecided, "true"
			want, have := inject(t, newInjector(nil), p), inject(t, newInjector(nil), undecided)
			require.Equal(t, want.Outcome, have.Outcome)
			require.Equal(t, want.Pod.Spec, have.Pod.Spec)
			require.Empty(t, have.Warnings)
			require.NotEqual(t, pod.Undecided, have.Pod.Annotations[pod.StatusAnnotation])
			require.Equal(t, "true", have.Pod.Annotations[pod.MayWaitAnnotation], "API servers ask again by it")
			for _, operation := range pod.Patch(undecided, have.Pod) {
				require.NotContains(t, operation.Path, "may-wait")
			}
		})
	}
}

func optingOut() *corev1.Pod {
	p := asking(running("a", "x"))
	p.Annotations[pod.InjectAnnotation] = "false"
	return p
}

// During an upgrade, both releases may answer for a pod.
func TestAPodIsTheSameWhicheverVersionHasWrappedIt(t *testing.T) {
	first := inject(t, versioned("v1", nil), asking(running("a", "x")))
	for _, version := range []string{"v1", "v2", ""} {
		second := inject(t, versioned(version, nil), first.Pod)
		require.Equal(t, pod.AlreadyInjected, second.Outcome, version)
		require.Empty(t, second.Warnings)
		require.Equal(t, first.Pod.Spec, second.Pod.Spec)
		require.Equal(t, version == "v1", len(pod.Patch(first.Pod, second.Pod)) == 0, "the same release changes nothing")
	}
}

func TestAVersionInTheStatusHidesNoFailedLookup(t *testing.T) {
	injector := versioned("v1", nil)
	injector.Policy.WaiveFailedLookups = true
	for _, p := range []struct {
		commands []string
		status   string
	}{
		{[]string{"x"}, "PartlyInjected by init-container: b; version: v1"},
		{nil, "LookupWaived; version: v1"},
	} {
		first := inject(t, injector, asking(running("a", p.commands...), running("b")))
		require.Equal(t, p.status, first.Pod.Annotations[pod.StatusAnnotation])
		later := versioned("v2", images{"busybox": image([]string{"sh"}, nil)})
		second := inject(t, later, first.Pod)
		require.NotEmpty(t, second.Warnings)
		require.Equal(t, pod.ReasonLookupRecovered, second.Warnings[0].Reason)
	}
}

// outcomes returns all constants of type Outcome.
func outcomes(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		spec, is := node.(*ast.ValueSpec)
		if !is {
			return true
		}
		if of, named := spec.Type.(*ast.Ident); named && of.Name == "Outcome" {
			name, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			names = append(names, name)
		}
		return true
	})
	require.Contains(t, names, string(pod.Injected))
	require.Contains(t, names, string(pod.InternalError))
	return names
}

func TestThePagesListEveryOutcome(t *testing.T) {
	for page, row := range map[string]string{"metrics.md": "| `%` |", "reference.md": "`%", "troubleshooting.md": "`%"} {
		text, err := os.ReadFile(filepath.Join("../../docs", page))
		require.NoError(t, err)
		for _, outcome := range outcomes(t) {
			require.Contains(t, string(text), strings.ReplaceAll(row, "%", outcome), page)
		}
	}
}

func TestThePagesShowTheStatusOfAPodThatIsWrappedInPart(t *testing.T) {
	injector := newInjector(nil)
	injector.Policy.WaiveFailedLookups = true
	result := inject(t, injector, asking(running("main", "x"), running("a"), running("b")))
	status := result.Pod.Annotations[pod.StatusAnnotation]
	require.Equal(t, "PartlyInjected by init-container: a,b", status)
	for _, page := range []string{"metrics.md", "reference.md"} {
		text, err := os.ReadFile(filepath.Join("../../docs", page))
		require.NoError(t, err)
		require.Contains(t, string(text), "`"+status+"`", page)
	}
	pages, err := filepath.Glob("../../*.md")
	require.NoError(t, err)
	more, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, page := range append(pages, more...) {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		require.NotContains(t, string(text), "`PartlyInjected: ", page)
	}
}
