// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/objects/objectstest"
	"github.com/entrypointer/entrypointer/internal/podstatus"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/internal/timeline"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// noon is when all stories begin, and now is when they are asked about.
var (
	noon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	now  = noon.Add(30 * time.Second)
)

// at returns the moment so many milliseconds after noon.
func at(milliseconds int) time.Time { return noon.Add(time.Duration(milliseconds) * time.Millisecond) }

// seconds returns a moment as the kubelet tells it.
func seconds(after int) metav1.Time { return metav1.NewTime(at(1000 * after)) }

// A world is what the API server, the log service and the supervisors say.
type world struct {
	pods    []corev1.Pod
	events  []corev1.Event
	records []recorded
	// says is what supervisors say, by the names of their containers.
	says map[string]string
	// runs are the object of a run, and the TaskRuns of a PipelineRun.
	run      any
	taskRuns []any
	// ends is a container that ends when its supervisor is asked, with its state from then on.
	ends map[string]corev1.ContainerState
	// isStranger is a user who may get pods, and nothing else.
	isStranger bool

	asked atomic.Int32 // how often a supervisor was
}

// recorded is a stream of events of the log service.
type recorded struct {
	pod, container string
	start          int
	lines          []string
}

// event is a line of such a stream.
func event(milliseconds int, name string, fields ...string) string {
	return fmt.Sprintf(`{"time":%q,"event":%q%s}`, at(milliseconds).Format(time.RFC3339Nano), name, strings.Join(append([]string{""}, fields...), ","))
}

func (w *world) exec(_ context.Context, _, container string, _ ...string) ([]byte, error) {
	w.asked.Add(1)
	if w.isStranger {
		return nil, errors.New(`pods "x" is forbidden: cannot create resource "pods/exec"`)
	}
	for at := range w.pods[0].Status.ContainerStatuses {
		if status := &w.pods[0].Status.ContainerStatuses[at]; status.Name == container && w.ends[container].Terminated != nil {
			status.State = w.ends[container]
			return nil, fmt.Errorf("unable to upgrade connection: container not found (%q)", container)
		}
	}
	if w.says[container] == "" {
		return nil, errors.New("no supervisor")
	}
	return []byte(w.says[container]), nil
}

// ServeHTTP implements the API server.
func (w *world) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	_, what, _ := strings.Cut(r.URL.Path, "/namespaces/tenant/")
	kind, name, _ := strings.Cut(what, "/")
	switch {
	case w.isStranger && kind != "pods":
		objectstest.Refuse(to, http.StatusForbidden, kind+" is forbidden")
	case kind == "logs" && strings.HasSuffix(name, "/log"):
		w.serveLog(to, strings.TrimSuffix(name, "/log"))
	case kind == "logs":
		objectstest.Respond(to, w.logs(r))
	case kind == "events":
		objectstest.Respond(to, corev1.EventList{Items: w.events})
	case kind == "taskruns" && name == "":
		objectstest.Respond(to, map[string]any{"items": w.taskRuns})
	case kind == "pods" && name == "":
		objectstest.Respond(to, corev1.PodList{Items: w.pods})
	case kind == "pods" && len(w.pods) > 0:
		objectstest.Respond(to, w.pods[0])
	case kind != "pods" && w.run != nil:
		objectstest.Respond(to, w.run)
	default:
		objectstest.Refuse(to, http.StatusNotFound, what+" not found")
	}
}

func (w *world) logs(r *http.Request) any {
	all := []any{}
	for id, s := range w.records {
		if of := r.URL.Query().Get("pod"); of == "" || of == s.pod {
			all = append(all, map[string]any{"id": fmt.Sprint(id), "name": "events", "pod": s.pod, "podUID": "uid-" + s.pod, "container": s.container, "start": at(s.start).Format(time.RFC3339Nano)})
		}
	}
	return map[string]any{"logs": all}
}

func (w *world) serveLog(to http.ResponseWriter, id string) {
	for at, s := range w.records {
		if fmt.Sprint(at) == id {
			text := strings.Join(s.lines, "\n") + "\n"
			_, _ = fmt.Fprintf(to, "event: data\nid: 1\ndata: {\"from\":0,\"to\":%d,\"data\":%q,\"times\":[[0,1]]}\n\nevent: end\ndata: {}\n\n", len(text), base64.StdEncoding.EncodeToString([]byte(text)))
		}
	}
}

// asks returns the timeline of an object.
func (w *world) asks(t *testing.T, named string) (*timeline.Timeline, error) {
	t.Helper()
	of, err := target.Parse(named, target.All())
	require.NoError(t, err)
	reader := &timeline.Reader{Reader: podstatus.Reader{Client: objectstest.Client(t, "tenant", w), Exec: w.exec}}
	return reader.Read(t.Context(), of, now)
}

// newPod is a pod that got its node after a second.
func newPod(name string, containers ...corev1.Container) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), CreationTimestamp: seconds(0)}}
	p.Spec.Containers, p.Spec.NodeName = containers, "node"
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: seconds(1)}}
	return p
}

// wrapped is a container that runs under the supervisor, with flags.
func wrapped(name string, flags ...string) corev1.Container {
	return corev1.Container{
		Name: name, Image: "registry.example/" + name, Command: []string{pod.EntrypointPath}, Args: append(flags, "--", "serve"),
		VolumeMounts: []corev1.VolumeMount{{Name: pod.VolumeName, MountPath: pod.MountPath, ReadOnly: true}},
	}
}

// ran is the state of a container that has ended.
func ran(from, to int, exitCode int32, message string) corev1.ContainerState {
	reason := "Completed"
	if exitCode != 0 {
		reason = "Error"
	}
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{StartedAt: seconds(from), FinishedAt: seconds(to), ExitCode: exitCode, Reason: reason, Message: message}}
}

// runs is the state of a container that runs since a time.
func runs(from int) corev1.ContainerState {
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: seconds(from)}}
}

// with adds the status of a pod's next container.
func with(p *corev1.Pod, states ...corev1.ContainerState) {
	s := corev1.ContainerStatus{Name: p.Spec.Containers[len(p.Status.ContainerStatuses)].Name, State: states[len(states)-1]}
	if len(states) > 1 {
		s.LastTerminationState, s.RestartCount = states[0], 4
	}
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, s)
}

// kubeEvent is an Event of the kubelet about a container.
func kubeEvent(of, container, reason, message string, after int) corev1.Event {
	return corev1.Event{
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Name: of, UID: types.UID("uid-" + of), FieldPath: "spec.containers{" + container + "}"},
		Reason:         reason, Message: message, FirstTimestamp: seconds(after),
	}
}
