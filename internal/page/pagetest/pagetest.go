// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package pagetest has a cluster for the tests of the page: an API server with the runs of a
// namespace, among them a PipelineRun, a Deployment whose container restarts, runs that are
// gone, and one with hostile texts.
package pagetest

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/loglist"
	"github.com/entrypointer/entrypointer/internal/objects/objectstest"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// Namespace is that of all runs.
const Namespace = "team-a"

// Noon is when the PipelineRun began, and Now when all questions are asked.
var (
	Noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	Now  = Noon.Add(10 * time.Minute)
)

// ReleaseTrace is the id of the trace of the PipelineRun.
const ReleaseTrace = "0af7651916cd43dd8448eb211c80319c"

// Hostile is what a tenant could have others read: markup, and characters that hide or
// reorder others.
const Hostile = `</title><script>alert(1)</script><img src=x onerror="alert(2)">'"&` + "\u202e\x1b[31m"

// A Cluster is an API server. Its objects can change while it serves.
type Cluster struct {
	mu      sync.Mutex
	lists   map[string]map[string]any // by plural and name
	streams []stream
	logged  []any
	refused map[string]int // codes, by plural
	traces  string         // the template of the log service
}

// New returns a Cluster with all stories.
func New() *Cluster {
	c := &Cluster{lists: map[string]map[string]any{}, refused: map[string]int{}}
	for _, plural := range []string{"pods", "deployments", "statefulsets", "daemonsets", "jobs", "taskruns", "pipelineruns"} {
		c.lists[plural] = map[string]any{}
	}
	c.addRelease()
	c.addWeb()
	c.addReport()
	c.addNightly()
	c.addHostile()
	return c
}

// Set adds an object, or replaces it.
func (c *Cluster) Set(plural, name string, object any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists[plural][name] = object
}

// Refuse has requests for objects of a kind refused with an HTTP status, 0 for no longer.
func (c *Cluster) Refuse(plural string, code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[plural] = code
}

// LinkTraces has the log service say where traces are.
func (c *Cluster) LinkTraces(template string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.traces = template
}

// ServeHTTP implements the API server.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, what, _ := strings.Cut(r.URL.Path, "/namespaces/"+Namespace+"/")
	plural, name, _ := strings.Cut(what, "/")
	all, is := c.lists[plural]
	switch code := c.refused[plural]; {
	case code != 0:
		objectstest.Refuse(w, code, fmt.Sprintf("%s is forbidden: User %q cannot list resource %q", plural, "jane", plural))
	case r.URL.Path == "/apis/"+endpoint.Group+"/"+endpoint.Version:
		objectstest.Respond(w, loglist.Discovery{TraceURL: c.traces})
	case plural == "logs":
		c.serveLogs(w, r, name)
	case plural == "events":
		objectstest.Respond(w, corev1.EventList{Items: events()})
	case is && name == "":
		objectstest.Respond(w, map[string]any{"items": chosen(all, r.URL.Query().Get("labelSelector"))})
	case is && all[name] != nil:
		objectstest.Respond(w, all[name])
	default:
		objectstest.Refuse(w, http.StatusNotFound, fmt.Sprintf("%s %q not found", plural, name))
	}
}

// chosen returns the objects with labels, in the order of their names. A selector is one of
// key=value.
func chosen(all map[string]any, selector string) []any {
	key, value, isSelected := strings.Cut(selector, "=")
	found := []any{}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		labels := map[string]string{}
		switch o := all[name].(type) {
		case corev1.Pod:
			labels = o.Labels
		case map[string]any:
			labels, _ = o["metadata"].(map[string]any)["labels"].(map[string]string)
		}
		if !isSelected || labels[key] == value {
			found = append(found, all[name])
		}
	}
	return found
}

// A stream is what the log service has of one start of a container.
type stream struct {
	name           string // stdout or events
	pod, container string
	labels         map[string]string
	start          time.Time
	lines          []string
}

func (c *Cluster) serveLogs(w http.ResponseWriter, r *http.Request, name string) {
	query := r.URL.Query()
	id, isStream := strings.CutSuffix(name, "/log")
	key, value, _ := strings.Cut(query.Get("label"), "=")
	switch {
	case isStream:
		for at, s := range c.streams {
			if text := strings.Join(s.lines, "\n") + "\n"; fmt.Sprint(at) == id {
				_, _ = fmt.Fprintf(w, "event: data\nid: 1\ndata: {\"from\":0,\"to\":%d,\"data\":%q,\"times\":[[0,%d]]}\n\nevent: end\ndata: {}\n\n", len(text), base64.StdEncoding.EncodeToString([]byte(text)), s.start.UnixMilli())
			}
		}
	case name != "":
		objectstest.Refuse(w, http.StatusNotFound, "there are no such logs")
	case query.Has("limit"):
		_, wanted, isSelected := strings.Cut(query.Get("labelSelector"), "=")
		logged := slices.DeleteFunc(slices.Clone(c.logged), func(l any) bool {
			return isSelected && !slices.Contains(slices.Collect(maps.Values(l.(map[string]any)["metadata"].(map[string]any)["labels"].(map[string]string))), wanted)
		})
		objectstest.Respond(w, map[string]any{"items": logged})
	default:
		all := []any{}
		for at, s := range c.streams {
			if s.pod == query.Get("pod") || key != "" && s.labels[key] == value {
				all = append(all, map[string]any{"id": fmt.Sprint(at), "name": s.name, "pod": s.pod, "podUID": "uid-" + s.pod, "container": s.container, "start": s.start.Format(time.RFC3339Nano)})
			}
		}
		objectstest.Respond(w, map[string]any{"logs": all})
	}
}

// after returns the moment so many milliseconds after noon.
func after(milliseconds int) time.Time {
	return Noon.Add(time.Duration(milliseconds) * time.Millisecond)
}

// seconds returns a moment as the kubelet tells it.
func seconds(s int) metav1.Time { return metav1.NewTime(after(1000 * s)) }

// newPod is a pod that was created and got its node at these seconds.
func newPod(name string, labels map[string]string, created int, owner string, containers ...corev1.Container) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: labels, CreationTimestamp: seconds(created)}}
	if owner != "" {
		isController := true
		kind, of, _ := strings.Cut(owner, "/")
		p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: of, Controller: &isController}}
	}
	start := seconds(created)
	p.Spec.Containers, p.Spec.NodeName, p.Status.StartTime = containers, "node", &start
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: seconds(created + 1)}}
	return p
}

// wrapped is a container under the supervisor that sends its output.
func wrapped(name string, flags ...string) corev1.Container {
	return corev1.Container{
		Name: name, Image: "registry.example/" + name, Command: []string{pod.EntrypointPath}, Args: append(append([]string{"-logs=stream"}, flags...), "--", "run"),
		VolumeMounts: []corev1.VolumeMount{{Name: pod.VolumeName, MountPath: pod.MountPath, ReadOnly: true}},
	}
}

// ended adds the status of the next container, which ran between these seconds.
func ended(p *corev1.Pod, from, to int, code int32) {
	state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: seconds(from), FinishedAt: seconds(to), ExitCode: code, Reason: "Completed"}}
	if code != 0 {
		state.Terminated.Reason = "Error"
	}
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Name: p.Spec.Containers[len(p.Status.ContainerStatuses)].Name, State: state})
}

func event(at int, name string, fields ...string) string {
	return fmt.Sprintf(`{"time":%q,"event":%q%s}`, after(at).Format(time.RFC3339Nano), name, strings.Join(append([]string{""}, fields...), ","))
}

// A step is when a step of a TaskRun started, began its command, and ended, in milliseconds
// after noon.
type step struct {
	name               string
	start, began, over int
	code               int32
}

// addTaskRun adds a TaskRun of the PipelineRun, with its pod and its events.
func (c *Cluster) addTaskRun(task string, created int, steps ...step) {
	name := "release-" + task
	labels := map[string]string{"tekton.dev/taskRun": name, "tekton.dev/pipelineRun": "release", "tekton.dev/pipelineTask": task}
	var containers []corev1.Container
	for _, s := range steps {
		containers = append(containers, wrapped("step-"+s.name, "-trace=00-"+ReleaseTrace+"-b7ad6b7169203331-01"))
	}
	p := newPod(name+"-pod", labels, created, "TaskRun/"+name, containers...)
	p.Status.Phase = corev1.PodSucceeded
	status, reason := "True", "Succeeded"
	last := 0
	for at, s := range steps {
		if s.code != 0 {
			p.Status.Phase, status, reason = corev1.PodFailed, "False", "Failed"
		}
		ended(&p, s.start/1000, (s.over+999)/1000, s.code)
		last = (s.over + 999) / 1000
		file := "/tekton/run/" + fmt.Sprint(at-1) + "/out"
		if at == 0 {
			file = "/tekton/downward/ready"
		}
		code := fmt.Sprintf(`"exitCode":%d`, s.code)
		c.streams = append(c.streams, stream{"events", p.Name, "step-" + s.name, labels, after(s.start), []string{
			event(s.start, "waiting", `"file":"`+file+`"`, `"traceparent":"00-`+ReleaseTrace+fmt.Sprintf(`-%016x-01"`, s.start)), event(s.began-1, "waited", `"outcome":"met"`), event(s.began, "started", `"argv0":"/tekton/bin/entrypoint"`),
			event(s.over, "exited", code), event(s.over+38, "finished", `"reason":"Exited"`, code),
		}}, stream{"stdout", p.Name, "step-" + s.name, labels, after(s.start), []string{"step " + s.name + " begins", "\x1b[32mok\x1b[0m " + s.name, "it ends with exit code " + fmt.Sprint(s.code)}})
	}
	c.lists["pods"][p.Name] = p
	isController := true
	c.lists["taskruns"][name] = map[string]any{
		"metadata": map[string]any{"name": name, "labels": labels, "creationTimestamp": seconds(created), "ownerReferences": []metav1.OwnerReference{{Kind: "PipelineRun", Name: "release", Controller: &isController}}},
		"status": map[string]any{
			"podName": p.Name, "startTime": seconds(created), "completionTime": seconds(last + 1),
			"conditions": []map[string]any{{"type": "Succeeded", "status": status, "reason": reason}},
		},
	}
	c.logged = append(c.logged, logged(p.Name, "taskrun/"+name, labels, created, last, containers))
}

func logged(name, owner string, labels map[string]string, first, last int, containers []corev1.Container) any {
	names := []string{}
	for _, one := range containers {
		names = append(names, one.Name)
	}
	return map[string]any{
		"metadata": map[string]any{"name": name, "labels": labels},
		"status":   map[string]any{"owner": owner, "firstStreamTime": seconds(first), "lastStreamTime": seconds(last), "pods": 1, "runs": len(names), "streams": 3 * len(names), "containers": names, "bytes": 1000 * len(names), "complete": true},
	}
}

// addRelease adds a PipelineRun of three tasks, of which the last one fails.
func (c *Cluster) addRelease() {
	c.addTaskRun("build", 0, step{"fetch", 4100, 5190, 8903, 0}, step{"compile", 4200, 8916, 24011, 0}, step{"push", 4300, 24025, 27450, 0})
	c.addTaskRun("lint", 0, step{"vet", 4600, 5700, 14220, 0})
	c.addTaskRun("test", 30, step{"prepare", 33050, 34100, 36303, 0}, step{"unit", 33200, 36318, 51400, 1})
	c.lists["pipelineruns"]["release"] = map[string]any{
		"metadata": map[string]any{"name": "release", "creationTimestamp": seconds(0), "labels": map[string]string{"app": "shop"}},
		"status": map[string]any{
			"startTime": seconds(0), "completionTime": seconds(54),
			"conditions": []map[string]any{{"type": "Succeeded", "status": "False", "reason": "Failed", "message": "Tasks Completed: 3 (Failed: 1)"}},
			"pipelineSpec": map[string]any{"tasks": []any{
				map[string]any{"name": "build"}, map[string]any{"name": "lint"}, map[string]any{"name": "test", "runAfter": []string{"build"}},
			}},
		},
	}
}

// events are those of the kubelet.
func events() []corev1.Event {
	of := func(name, container, reason, message string, at int) corev1.Event {
		return corev1.Event{
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: name, UID: types.UID("uid-" + name), FieldPath: "spec.containers{" + container + "}"},
			Reason:         reason, Message: message, FirstTimestamp: seconds(at),
		}
	}
	return []corev1.Event{
		of("release-build-pod", "step-fetch", "Pulling", `Pulling image "registry.example/step-fetch"`, 1),
		of("release-build-pod", "step-fetch", "Pulled", `Successfully pulled image "registry.example/step-fetch" in 1.2s (1.95s including waiting). Image size: 7 bytes.`, 3),
	}
}

// WebPod is the pod of a Deployment, whose container db runs, and whose container api has
// been restarted so often.
func WebPod(restarts int32) corev1.Pod {
	p := newPod("web-7f9c-x2x1z", map[string]string{"app": "web"}, 60, "ReplicaSet/web-7f9c", corev1.Container{Name: "db"}, corev1.Container{Name: "api"})
	p.Status.Phase = corev1.PodRunning
	api := corev1.ContainerStatus{Name: "api", RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(90 + 60*int(restarts))}}}
	if restarts > 0 {
		api.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{StartedAt: seconds(62), FinishedAt: seconds(80 + 60*int(restarts)), ExitCode: 137, Reason: "OOMKilled"}
	}
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "db", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(62)}}}, api}
	return p
}

func (c *Cluster) addWeb() {
	p := WebPod(1)
	c.lists["pods"][p.Name] = p
	c.lists["deployments"]["web"] = map[string]any{
		"metadata": map[string]any{"name": "web", "labels": map[string]string{"app": "web"}, "creationTimestamp": seconds(-86400)},
		"spec":     map[string]any{"replicas": 2, "selector": map[string]any{"matchLabels": map[string]string{"app": "web"}}},
		"status":   map[string]any{"readyReplicas": 1},
	}
}

func (c *Cluster) addReport() {
	p := newPod("report-abcde", map[string]string{"job-name": "report"}, 120, "Job/report", corev1.Container{Name: "report"})
	p.Status.Phase = corev1.PodSucceeded
	ended(&p, 123, 190, 0)
	c.lists["pods"][p.Name] = p
	c.lists["jobs"]["report"] = map[string]any{
		"metadata": map[string]any{"name": "report", "creationTimestamp": seconds(120)},
		"spec":     map[string]any{"selector": map[string]any{"matchLabels": map[string]string{"job-name": "report"}}},
		"status":   map[string]any{"startTime": seconds(120), "completionTime": seconds(192), "conditions": []map[string]any{{"type": "Complete", "status": "True"}}},
	}
}

// addNightly adds a TaskRun that is gone, with its pod.
func (c *Cluster) addNightly() {
	labels := map[string]string{"tekton.dev/taskRun": "nightly"}
	at := -36_000_000
	c.streams = append(c.streams, stream{"events", "nightly-pod", "step-only", labels, after(at), []string{
		event(at, "waiting", `"file":"/tekton/downward/ready"`), event(at+900, "waited", `"outcome":"met"`), event(at+901, "started"),
		event(at+61_000, "exited", `"exitCode":2`), event(at+61_030, "finished", `"reason":"Exited"`, `"exitCode":2`),
	}})
	c.logged = append(c.logged, logged("nightly-pod", "taskrun/nightly", labels, at/1000, at/1000+1, []corev1.Container{{Name: "step-only"}}))
}

// addHostile adds a pod whose author writes Hostile wherever it can be written, and elsewhere.
func (c *Cluster) addHostile() {
	p := newPod("hostile", map[string]string{"note": Hostile, Hostile: "x"}, 240, "", corev1.Container{Name: Hostile})
	p.Status.Phase, p.Status.Reason = corev1.PodFailed, Hostile
	ended(&p, 243, 260, 3)
	p.Status.ContainerStatuses[0].State.Terminated.Message = Hostile
	p.Status.ContainerStatuses[0].State.Terminated.Reason = Hostile
	c.lists["pods"]["hostile"] = p
}

// TracedPod is a pod of the Deployment whose trace begins with the pod.
func TracedPod(name string) corev1.Pod {
	p := newPod(name, map[string]string{"app": "web"}, 60, "ReplicaSet/web-7f9c", wrapped("api", "-trace=env:ENTRYPOINTER_POD_UID"))
	p.Status.Phase = corev1.PodRunning
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "api", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(62)}}}}
	return p
}
