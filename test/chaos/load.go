// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

const (
	// nameLabel is on all that the load creates, and on its pods. Its value is the name.
	nameLabel = "chaos.example.test/name"
	// dryRunsEvery is between two dry runs in a namespace that opted in, and in the other.
	dryRunsEvery = 250 * time.Millisecond
	// requestLimit is what a request may take, which is longer than an API server waits for
	// the injector.
	requestLimit = 15 * time.Second
	// atOnce bounds the requests in flight, and mostAttempts the objects of one fault.
	atOnce       = 64
	mostAttempts = 5000
	// lines is what each container prints, in some four seconds.
	lines = 40
	// mostOpen bounds the objects that haven't ended, in all namespaces together.
	mostOpen = 24
)

// load are the attempts while there is one fault.
type load struct {
	*environment
	prefix string

	mu       sync.Mutex
	attempts []*attempt
}

// run creates objects until ctx is done: each at the same moment in a namespace that opted
// in, of which there are two that take turns, and in the plain one.
func (l *load) run(ctx context.Context) {
	var flight sync.WaitGroup
	defer flight.Wait()
	slots := make(chan struct{}, atOnce)
	create := func(k kind, optedIn place, n int) {
		for _, p := range []place{optedIn, plain} {
			a := &attempt{kind: k, place: p, name: fmt.Sprintf("%s-%d", l.prefix, n), at: time.Now()}
			var s *service
			if k == aScaleUp {
				if s = l.services.take(p); s == nil {
					continue // each has a pod
				}
			}
			if !l.add(a) {
				return
			}
			slots <- struct{}{}
			flight.Go(func() {
				defer func() { <-slots }()
				// What was begun is finished: its end is counted.
				l.create(context.WithoutCancel(ctx), a, s)
			})
		}
	}
	next, dry := time.NewTicker(l.every), time.NewTicker(dryRunsEvery)
	defer next.Stop()
	defer dry.Stop()
	for n, turn, dryTurn := 0, 0, 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-next.C:
			if l.open() > mostOpen {
				continue // more would only make the machine slower
			}
			create(objects[turn%len(objects)], place(turn/len(objects)%2), n)
			turn++
		case <-dry.C:
			create(dryRuns[dryTurn%len(dryRuns)], place(dryTurn/len(dryRuns)%2), n)
			dryTurn++
		}
	}
}

// add notes an attempt, unless there are too many.
func (l *load) add(a *attempt) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.attempts) >= mostAttempts {
		return false
	}
	l.attempts = append(l.attempts, a)
	return true
}

// create makes a request, and notes the answer.
func (l *load) create(ctx context.Context, a *attempt, s *service) {
	if a.kind == aScaleUp {
		wrapped, err := l.services.ask(ctx, l.cluster, s)
		l.answered(a, err, func() { a.noteWrapping(wrapped) })
		return
	}
	ctx, cancel := context.WithTimeout(ctx, requestLimit)
	defer cancel()
	var (
		err     error
		spec    = l.spec(a)
		meta    = metav1.ObjectMeta{Name: a.name, Labels: map[string]string{nameLabel: a.name}}
		ofPods  = metav1.ObjectMeta{Labels: meta.Labels}
		options = metav1.CreateOptions{}
		ns      = l.spaces[a.place]
		would   *corev1.Pod
	)
	if a.place != all {
		ofPods.Annotations = map[string]string{pod.InjectAnnotation: "true"}
	}
	switch a.kind {
	case aDryRun, aTag, aDigest:
		options.DryRun = []string{metav1.DryRunAll}
		fallthrough
	case aPod:
		ofPods.Name = a.name
		would, err = l.cluster.Kube.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: ofPods, Spec: spec}, options)
	case aTaskRun:
		c := spec.Containers[0]
		_, err = l.cluster.Tekton.TektonV1().TaskRuns(ns).Create(ctx, &pipelinev1.TaskRun{ObjectMeta: meta, Spec: pipelinev1.TaskRunSpec{
			TaskSpec: &pipelinev1.TaskSpec{Steps: []pipelinev1.Step{{Name: c.Name, Image: c.Image, Command: c.Command}}},
		}}, options)
	case aJob:
		_, err = l.cluster.Kube.BatchV1().Jobs(ns).Create(ctx, &batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
			BackoffLimit: new(int32(0)), Template: corev1.PodTemplateSpec{ObjectMeta: ofPods, Spec: spec},
		}}, options)
	case aDeployment:
		spec.RestartPolicy = corev1.RestartPolicyAlways
		_, err = l.cluster.Kube.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: meta.Labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: ofPods, Spec: spec},
		}}, options)
	}
	l.answered(a, err, func() {
		if a.kind.isDry() {
			a.seeWrapping(would)
		}
	})
}

// answered notes an answer, and what it says if it is no error.
func (l *load) answered(a *attempt, err error, note func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a.asked, a.took = true, time.Since(a.at)
	if err != nil {
		a.refusal = err.Error()
		return
	}
	note()
}

// stoppable is a file that the container of a Deployment writes when its shell can be stopped:
// a shell that gets SIGTERM earlier ends without output.
const stoppable = "/tmp/stoppable"

// spec is a pod that prints its lines and ends. That of a Deployment is ready when it can be
// stopped, and waits to be stopped, and that of a lookup has no command.
func (l *load) spec(a *attempt) corev1.PodSpec {
	script := fmt.Sprintf(`i=1; while [ $i -le %d ]; do echo "$i of %s"; i=$((i+1)); sleep 0.1; done`, lines, a.name)
	var ready *corev1.Probe
	if a.kind == aDeployment {
		script = `trap stop=1 TERM; : >` + stoppable + `; ` + script + `; while [ -z "$stop" ]; do sleep 0.2; done`
		ready = &corev1.Probe{
			PeriodSeconds: 1, TimeoutSeconds: 10,
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"test", "-e", stoppable}}},
		}
	}
	c := corev1.Container{Name: "main", Image: l.image, Command: []string{"sh", "-c", script}, ReadinessProbe: ready}
	switch a.kind {
	case aTag:
		c.Image, c.Command = l.registry.tag, nil
	case aDigest:
		c.Image, c.Command = l.registry.digest, nil
	}
	return corev1.PodSpec{
		RestartPolicy:                corev1.RestartPolicyNever,
		AutomountServiceAccountToken: new(false),
		Containers:                   []corev1.Container{c},
	}
}

// recovered returns from when on everything works for good that was asked after a moment, on
// either side: of each kind, [inARow] are good.
func (l *load) recovered(from time.Time, optedIn bool) (since time.Time, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since = from
	for _, k := range kinds {
		first, broken, ok := l.firstOfRow(k, optedIn, from, time.Now())
		if !ok {
			return time.Time{}, false
		}
		if broken && first.After(since) {
			since = first
		}
	}
	return since, true
}

// firstOfRow returns when the first of the good attempts of a kind was made after which none
// was bad, and whether one was bad before, if there are enough of them.
func (l *load) firstOfRow(k kind, optedIn bool, from, now time.Time) (first time.Time, broken, ok bool) {
	twins, row := l.twins(), 0
	for _, a := range l.attempts {
		if a.kind != k || a.optedIn() != optedIn || a.at.Before(from) {
			continue
		}
		switch {
		case !a.decided(now):
			return first, broken, row >= inARow
		case a.good():
			if row++; row == 1 {
				first = a.at
			}
		case !isSlowMachine(a, twins[a.name], now):
			row, broken = 0, true
		}
	}
	return first, broken, row >= inARow
}

// twins are the attempts outside, by the name that they have in common with others.
func (l *load) twins() map[string]*attempt {
	twins := map[string]*attempt{}
	for _, a := range l.attempts {
		if !a.optedIn() {
			twins[a.name] = a
		}
	}
	return twins
}

// isSlowMachine says that an attempt in a namespace that opted in is late, and its twin isn't
// good either.
func isSlowMachine(a, twin *attempt, now time.Time) bool {
	return a.optedIn() && a.refusal == "" && twin != nil && twin.decided(now) && !twin.good()
}

// open counts the attempts that aren't over.
func (l *load) open() (open int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, a := range l.attempts {
		if !a.over() {
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
		for _, ns := range l.spaces {
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
