// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package equality

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"knative.dev/pkg/apis"

	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// patience is what the slowest example may take on a slow machine.
	patience = 10 * time.Minute
	// checkInterval is the time between two looks at an example that runs.
	checkInterval = 400 * time.Millisecond
	// tries is how often an example may run unwrapped to show that it differs
	// from itself.
	tries = 3
)

// examine runs an example unwrapped and in these ways, side by side. It is late if it
// differs by one of its timeouts, and others ran beside it.
func examine(t *testing.T, example Example, ways []Way, alone bool) (_ Finding, late bool) {
	t.Helper()
	finding := Finding{Example: example.Name, Skipped: example.Skipped}
	if example.Skipped != nil {
		return finding, false
	}
	var plain *result
	wrapped := make([]*result, len(ways))
	var group errgroup.Group
	group.Go(func() (err error) {
		plain, err = unwrapped(t.Context(), example)
		return err
	})
	for i, way := range ways {
		group.Go(func() (err error) {
			wrapped[i], err = in(t.Context(), way.annotations(), way.checkPod, example)
			return err
		})
	}
	require.NoError(t, group.Wait())
	for i, way := range ways {
		require.Equal(t, plain.refusal == "", wrapped[i].refusal == "", "Tekton refuses all or none: unwrapped %q, %s %q", plain.refusal, way, wrapped[i].refusal)
	}
	if plain.refusal != "" {
		finding.Skipped = &Skipped{Refused, plain.refusal}
		return finding, false
	}

	unchanged := []Outcome{plain.fields}
	differs := func(o *result) bool { return len(Comparison{unchanged, o.fields}.Differs()) > 0 }
	for len(unchanged) < tries && slices.ContainsFunc(wrapped, differs) {
		again, err := unwrapped(t.Context(), example)
		require.NoError(t, err)
		unchanged = append(unchanged, again.fields)
	}
	finding.Varies = Varies(unchanged)
	var verdicts []string
	for _, run := range example.Runs {
		verdicts = append(verdicts, plain.fields.Verdict(run.GetName()))
	}
	finding.Verdict = strings.Join(verdicts, ", ")
	finding.Ways = map[Way]Difference{}
	for i, way := range ways {
		comparison, difference := Comparison{unchanged, wrapped[i].fields}, Difference{}
		for _, field := range comparison.Differs() {
			difference.Fields = append(difference.Fields, comparison.Explain(field))
			late = late || comparison.TimedOut(field)
		}
		if len(difference.Fields) > 0 && way != Mounted && wrapped[i].cutMoreThan(plain) {
			difference.Why = SharedMessages
		}
		finding.Ways[way] = difference
	}
	for _, way := range ways {
		switch difference := finding.Ways[way]; {
		case late && !alone:
			t.Logf("it is to run again, alone, for it was late: by %s:\n%s", way, strings.Join(difference.Fields, "\n"))
		case finding.unexplained(way):
			t.Errorf("it differs by %s:\n%s", way, strings.Join(difference.Fields, "\n"))
		}
	}
	return finding, late && !alone
}

// A result is what became of an example in one namespace.
type result struct {
	fields  Outcome
	cut     []string // termination messages
	refusal string   // Tekton's, if it didn't run
}

// cutMoreThan tells whether a message was cut that wasn't in another run.
func (o *result) cutMoreThan(other *result) bool {
	return slices.ContainsFunc(o.cut, func(message string) bool { return !slices.Contains(other.cut, message) })
}

func unwrapped(ctx context.Context, example Example) (*result, error) {
	return in(ctx, nil, framework.CheckNotWrapped, example)
}

// in runs an example in a namespace of its own, and tells what became of it. Each of
// its TaskRuns' pods must be right.
func in(ctx context.Context, annotations map[string]string, right func(*corev1.Pod) error, example Example) (*result, error) {
	namespace, err := newNamespace(ctx, annotations)
	if err != nil {
		return nil, err
	}
	defer deleteNamespace(ctx, namespace)
	if err := create(ctx, namespace, slices.Concat(example.Needs, example.Runs)); err != nil {
		if apierrors.IsBadRequest(err) || apierrors.IsInvalid(err) || apierrors.IsForbidden(err) {
			return &result{refusal: strings.ReplaceAll(err.Error(), namespace, "NAMESPACE")}, nil
		}
		return nil, err
	}
	watch := watch{namespace: namespace, pods: map[string]*corev1.Pod{}, volumes: map[string]bool{}}
	if err := watch.until(ctx, example.Runs); err != nil {
		return nil, err
	}
	seen := &result{fields: Outcome{}}
	if err := watch.addOutcomes(ctx, seen.fields, example.Runs); err != nil {
		return nil, err
	}
	for _, p := range watch.pods {
		if err := right(p); err != nil {
			return nil, err
		}
		seen.cut = append(seen.cut, CutMessages(p)...)
	}
	return seen, nil
}

// create creates copies: what is created is changed by the server.
func create(ctx context.Context, namespace string, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := cluster.Create(ctx, namespace, object.DeepCopy()); err != nil {
			return err
		}
	}
	return nil
}

func newNamespace(ctx context.Context, annotations map[string]string) (string, error) {
	ns, err := cluster.Kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		GenerateName: "equality-",
		Annotations:  annotations,
		Labels:       map[string]string{ours: "true"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return "", fmt.Errorf("creating a namespace: %w", err)
	}
	return ns.Name, framework.Eventually(ctx, time.Minute, "the service account of namespace "+ns.Name, func(ctx context.Context) error {
		_, err := cluster.Kube.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// deleteNamespace doesn't wait: the next example has a namespace of its own.
func deleteNamespace(ctx context.Context, name string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	_ = cluster.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
}

// ours labels what the test makes, so that what an aborted one left can be
// found: kubectl delete namespace -l e2e.entrypointer.dev/test
const ours = "e2e.entrypointer.dev/test"

// watch is what was seen of an example that runs.
type watch struct {
	namespace string
	pods      map[string]*corev1.Pod // of TaskRuns, by name
	volumes   map[string]bool        // claims that got a volume, by name
}

// until waits until all runs have succeeded or failed.
func (w *watch) until(ctx context.Context, runs []*unstructured.Unstructured) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		done, err := w.look(ctx, runs)
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for the runs in namespace %q: time was up after %v: %w", w.namespace, patience, err)
		case <-time.After(checkInterval):
		}
	}
}

// look tells whether all runs are done, or else which isn't and what it says.
func (w *watch) look(ctx context.Context, runs []*unstructured.Unstructured) (done bool, _ error) {
	if err := errors.Join(w.keepPods(ctx), w.provideVolumes(ctx)); err != nil {
		return false, err
	}
	for _, run := range runs {
		condition, err := w.condition(ctx, run.GetKind(), run.GetName())
		if err != nil {
			return false, err
		}
		if condition == nil {
			return false, fmt.Errorf("%s %q has no status yet", run.GetKind(), run.GetName())
		}
		if condition.IsUnknown() {
			return false, fmt.Errorf("%s %q: %s: %s", run.GetKind(), run.GetName(), condition.Reason, condition.Message)
		}
	}
	// Pods may have come since the last look.
	return true, w.keepPods(ctx)
}

func (w *watch) condition(ctx context.Context, kind, name string) (*apis.Condition, error) {
	if kind == "TaskRun" {
		run, err := cluster.Tekton.TektonV1().TaskRuns(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		return run.Status.GetCondition(apis.ConditionSucceeded), nil
	}
	run, err := cluster.Tekton.TektonV1().PipelineRuns(w.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	return run.Status.GetCondition(apis.ConditionSucceeded), nil
}

// keepPods keeps the pods of TaskRuns: some are deleted when they have run.
func (w *watch) keepPods(ctx context.Context) error {
	pods, err := cluster.Kube.CoreV1().Pods(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "tekton.dev/taskRun"})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		w.pods[pods.Items[i].Name] = &pods.Items[i]
	}
	return nil
}

// addOutcomes tells what became of the runs, and of their children.
func (w *watch) addOutcomes(ctx context.Context, outcome Outcome, runs []*unstructured.Unstructured) error {
	for _, run := range runs {
		if err := w.addOutcome(ctx, outcome, "", run.GetKind(), run.GetName()); err != nil {
			return err
		}
	}
	return nil
}

func (w *watch) addOutcome(ctx context.Context, outcome Outcome, parent, kind, name string) error {
	path := parent + name
	switch kind {
	case "TaskRun":
		run, err := cluster.Tekton.TektonV1().TaskRuns(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		outcome.AddTaskRun(path, run)
		return w.sawPods(run)
	case "PipelineRun":
		run, err := cluster.Tekton.TektonV1().PipelineRuns(w.namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		outcome.AddPipelineRun(path, run)
		for _, child := range run.Status.ChildReferences {
			if err := w.addOutcome(ctx, outcome, path+"/", child.Kind, child.Name); err != nil {
				return err
			}
		}
		return nil
	default:
		return fmt.Errorf("telling what became of %s %q: only TaskRuns and PipelineRuns are known", kind, name)
	}
}

// sawPods makes sure that no pod of a TaskRun came and went unseen.
func (w *watch) sawPods(run *pipelinev1.TaskRun) error {
	names := []string{run.Status.PodName}
	for _, retry := range run.Status.RetriesStatus {
		names = append(names, retry.PodName)
	}
	for _, name := range names {
		if name != "" && w.pods[name] == nil {
			return fmt.Errorf("looking at pod %q of TaskRun %q: it was gone before anybody looked", name, run.Name)
		}
	}
	return nil
}
