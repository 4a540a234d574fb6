// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// A kind is what a user creates.
type kind string

const (
	aPod        kind = "pod"
	aTaskRun    kind = "TaskRun"
	aJob        kind = "Job"
	aDeployment kind = "Deployment"
	// aDryRun is a pod that isn't stored. It is cheap, so there are more of them.
	aDryRun kind = "dry run"
)

var (
	// objects take turns.
	objects = []kind{aPod, aTaskRun, aJob, aDeployment}
	kinds   = append(slices.Clone(objects), aDryRun)
)

const (
	// nameLabel is on all that the load creates, and on its pods. Its value is the name.
	nameLabel = "chaos.example.test/name"
	// late is what an object may take until its container runs.
	late = 20 * time.Second
	// stuck is what it may take until it is done.
	stuck = 2 * time.Minute
	// dryRunsEvery is between two dry runs in each namespace.
	dryRunsEvery = 250 * time.Millisecond
	// requestLimit is what a request may take, which is longer than an API server waits for
	// the injector.
	requestLimit = 15 * time.Second
	// atOnce bounds the requests in flight, and mostAttempts the objects of one fault.
	atOnce       = 64
	mostAttempts = 5000
	// lines is what each container prints, in some four seconds.
	lines = 40
	// mostOpen bounds the objects that haven't ended, in both namespaces together.
	mostOpen = 24
)

// An attempt is an object that a user creates, and what became of it.
type attempt struct {
	kind    kind
	name    string
	optedIn bool
	at      time.Time
	// asked says that the API server has answered, refusal what if it was no.
	asked   bool
	took    time.Duration // until the answer
	refusal string
	pod     string // its name, "" as long as none was seen
	// wrapped and unwrapped are about its pod.
	wrapped, unwrapped bool
	started            time.Duration // until its container ran, 0 as long as it doesn't
	// done says that it has done what it is for, failure why it never will. A pod is gone
	// when it isn't listed any more.
	done, gone bool
	failure    string
	removed    bool // a Deployment that is done is deleted
}

// decided says that it can't become better. It counts as bad as soon as it is late.
func (a *attempt) decided(now time.Time) bool {
	switch {
	case !a.asked:
		return now.Sub(a.at) > late
	case a.refusal != "" && a.pod == "", a.failure != "", a.done, a.kind == aDryRun:
		return true
	default:
		return a.started == 0 && now.Sub(a.at) > late || now.Sub(a.at) > stuck
	}
}

// good says that its user noticed nothing.
func (a *attempt) good() bool {
	asIntended := a.wrapped && !a.unwrapped
	if !a.optedIn {
		asIntended = a.unwrapped && !a.wrapped
	}
	if a.kind == aDryRun {
		return a.asked && a.refusal == "" && asIntended && a.took <= late
	}
	return a.asked && a.refusal == "" && a.failure == "" && asIntended && a.done && a.started <= late
}

// load are the attempts while there is one fault.
type load struct {
	*environment
	prefix string

	mu       sync.Mutex
	attempts []*attempt
}

// run creates objects until ctx is done.
func (l *load) run(ctx context.Context) {
	var flight sync.WaitGroup
	defer flight.Wait()
	slots := make(chan struct{}, atOnce)
	create := func(k kind, n int) {
		for _, optedIn := range []bool{true, false} {
			a := &attempt{kind: k, optedIn: optedIn, name: fmt.Sprintf("%s-%d", l.prefix, n), at: time.Now()}
			l.mu.Lock()
			room := len(l.attempts) < mostAttempts
			if room {
				l.attempts = append(l.attempts, a)
			}
			l.mu.Unlock()
			if !room {
				return
			}
			slots <- struct{}{}
			flight.Go(func() {
				defer func() { <-slots }()
				// What was begun is finished: its end is counted.
				l.create(context.WithoutCancel(ctx), a)
			})
		}
	}
	next, dry := time.NewTicker(l.every), time.NewTicker(dryRunsEvery)
	defer next.Stop()
	defer dry.Stop()
	for n, turn := 0, 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			if l.open() > mostOpen {
				continue // more would only make the machine slower
			}
			create(objects[turn%len(objects)], n)
			turn++
		case <-dry.C:
			create(aDryRun, n)
		}
	}
}

// create asks the API server for an object.
func (l *load) create(ctx context.Context, a *attempt) {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var (
		err     error
		spec    = l.spec(a)
		meta    = metav1.ObjectMeta{Name: a.name, Labels: map[string]string{nameLabel: a.name}}
		asking  = metav1.ObjectMeta{Labels: meta.Labels, Annotations: map[string]string{pod.InjectAnnotation: "true"}}
		options = metav1.CreateOptions{}
		ns      = l.namespace(a.optedIn)
		would   *corev1.Pod
	)
	switch a.kind {
	case aDryRun:
		options.DryRun = []string{metav1.DryRunAll}
		fallthrough
	case aPod:
		asking.Name = a.name
		would, err = l.cluster.Kube.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: asking, Spec: spec}, options)
	case aTaskRun:
		c := spec.Containers[0]
		_, err = l.cluster.Tekton.TektonV1().TaskRuns(ns).Create(ctx, &pipelinev1.TaskRun{ObjectMeta: meta, Spec: pipelinev1.TaskRunSpec{
			TaskSpec: &pipelinev1.TaskSpec{Steps: []pipelinev1.Step{{Name: c.Name, Image: c.Image, Command: c.Command}}},
		}}, options)
	case aJob:
		_, err = l.cluster.Kube.BatchV1().Jobs(ns).Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)), Template: corev1.PodTemplateSpec{ObjectMeta: asking, Spec: spec},
		}}, options)
	case aDeployment:
		spec.RestartPolicy = corev1.RestartPolicyAlways
		_, err = l.cluster.Kube.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: meta.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: asking, Spec: spec},
		}}, options)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	a.asked, a.took = true, time.Since(a.at)
	if err != nil {
		a.refusal = err.Error()
	}
	if err == nil && a.kind == aDryRun {
		a.seeWrapping(would)
	}
}

// spec is a pod that prints its lines and ends. That of a Deployment waits to be stopped.
func (l *load) spec(a *attempt) corev1.PodSpec {
	script := fmt.Sprintf(`i=1; while [ $i -le %d ]; do echo "$i of %s"; i=$((i+1)); sleep 0.1; done`, lines, a.name)
	if a.kind == aDeployment {
		script = `trap stop=1 TERM; ` + script + `; while [ -z "$stop" ]; do sleep 0.2; done`
	}
	return corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		Containers:                   []corev1.Container{{Name: "main", Image: l.image, Command: []string{"sh", "-c", script}}},
	}
}

// seeWrapping notes whether a pod's container runs under the supervisor.
func (a *attempt) seeWrapping(p *corev1.Pod) {
	for _, c := range p.Spec.Containers {
		if !isMain(c.Name) {
			continue
		}
		if slices.Contains(c.Command, pod.EntrypointPath) {
			a.wrapped = true
		} else {
			a.unwrapped = true
		}
	}
}

// isMain says whether a container is the user's: a step has a prefix.
func isMain(name string) bool { return strings.TrimPrefix(name, "step-") == "main" }

// see notes what a pod says of an attempt.
func (a *attempt) see(p *corev1.Pod) {
	a.pod = p.Name
	a.seeWrapping(p)
	for _, s := range p.Status.ContainerStatuses {
		if !isMain(s.Name) || a.started > 0 {
			continue
		}
		for _, began := range startsOf(s) {
			// Kubernetes tells whole seconds.
			a.started = max(began.Sub(a.at), time.Millisecond)
		}
	}
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		a.done = true
	case p.Status.Phase == corev1.PodFailed && !a.removed:
		a.failure = "pod " + p.Name + " failed: " + why(p)
	case a.kind == aDeployment && a.started > 0 && isReady(p):
		a.done = true
	}
}

func startsOf(s corev1.ContainerStatus) (all []time.Time) {
	if s.State.Running != nil {
		all = append(all, s.State.Running.StartedAt.Time)
	}
	if s.State.Terminated != nil {
		all = append(all, s.State.Terminated.StartedAt.Time)
	}
	return all
}

func isReady(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// why says how the containers of a failed pod have ended.
func why(p *corev1.Pod) string {
	ends := []string{p.Status.Reason, p.Status.Message}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if end := s.State.Terminated; end != nil && end.ExitCode != 0 {
			ends = append(ends, fmt.Sprintf("%s: exit code %d, %s %s", s.Name, end.ExitCode, end.Reason, end.Message))
		}
	}
	return strings.TrimSpace(strings.Join(ends, " "))
}

// look updates the attempts by what is in the cluster.
func (l *load) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var errs []error
	for _, optedIn := range []bool{true, false} {
		errs = append(errs, l.lookIn(ctx, optedIn))
	}
	return errors.Join(errs...)
}

func (l *load) lookIn(ctx context.Context, optedIn bool) error {
	ns, mine := l.namespace(optedIn), metav1.ListOptions{LabelSelector: nameLabel}
	pods, err := l.cluster.Kube.CoreV1().Pods(ns).List(ctx, mine)
	if err != nil {
		return fmt.Errorf("listing the pods of the load: %w", err)
	}
	runs, err := l.cluster.Tekton.TektonV1().TaskRuns(ns).List(ctx, mine)
	if err != nil {
		return fmt.Errorf("listing the TaskRuns of the load: %w", err)
	}
	byName := map[string]*corev1.Pod{}
	for i := range pods.Items {
		byName[pods.Items[i].Labels[nameLabel]] = &pods.Items[i]
	}
	failed := map[string]string{}
	for _, run := range runs.Items {
		if condition := run.Status.GetCondition(apis.ConditionSucceeded); condition.IsFalse() {
			failed[run.Name] = condition.Reason + ": " + condition.Message
		}
	}
	var errs []error
	for _, name := range l.note(optedIn, byName, failed) {
		errs = append(errs, l.cluster.Kube.AppsV1().Deployments(ns).Delete(ctx, name, metav1.DeleteOptions{}))
	}
	return errors.Join(errs...)
}

// note updates the attempts in a namespace by its pods, and by why TaskRuns failed. It
// returns the Deployments that have just become done.
func (l *load) note(optedIn bool, pods map[string]*corev1.Pod, failed map[string]string) (finished []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.attempts {
		if a.optedIn != optedIn || a.kind == aDryRun {
			continue
		}
		if p, exists := pods[a.name]; exists {
			a.see(p)
		} else if a.pod != "" {
			a.gone = true
		}
		if a.kind == aTaskRun && failed[a.name] != "" {
			a.failure = failed[a.name]
		}
		if a.kind == aDeployment && a.done && !a.removed {
			a.removed = true
			finished = append(finished, a.name)
		}
	}
	return finished
}

// recovered returns from when on everything works for good that was created after a moment:
// of each kind in both namespaces, [inARow] are good.
func (l *load) recovered(from time.Time) (since time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since = from
	for _, k := range kinds {
		for _, optedIn := range []bool{true, false} {
			row, broken := 0, false
			var first time.Time
			for _, a := range l.attempts {
				if a.kind != k || a.optedIn != optedIn || a.at.Before(from) {
					continue
				}
				if !a.decided(time.Now()) {
					break
				}
				if !a.good() {
					row, broken = 0, true
					continue
				}
				if row++; row == 1 {
					first = a.at
				}
			}
			if row < inARow {
				return time.Time{}, false
			}
			if broken && first.After(since) {
				since = first
			}
		}
	}
	return since, true
}

// open counts the attempts that aren't over.
func (l *load) open() (open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.attempts {
		over := a.asked && (a.kind == aDryRun || a.refusal != "" && a.pod == "" || a.failure != "" ||
			a.done && (a.kind != aDeployment || a.gone))
		if !over {
			open++
		}
	}
	return open
}

// remove deletes all that the load has created.
func (l *load) remove(ctx context.Context) error {
	everything := metav1.ListOptions{LabelSelector: nameLabel}
	how := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	return framework.Eventually(ctx, time.Minute, "the load to be deleted", func(ctx context.Context) error {
		var errs []error
		for _, optedIn := range []bool{true, false} {
			ns := l.namespace(optedIn)
			errs = append(errs,
				l.cluster.Kube.AppsV1().Deployments(ns).DeleteCollection(ctx, how, everything),
				l.cluster.Kube.BatchV1().Jobs(ns).DeleteCollection(ctx, how, everything),
				l.cluster.Tekton.TektonV1().TaskRuns(ns).DeleteCollection(ctx, how, everything),
				l.cluster.Kube.CoreV1().Pods(ns).DeleteCollection(ctx, how, everything),
			)
		}
		return errors.Join(errs...)
	})
}
