// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/pipe"
	"github.com/entrypointer/entrypointer/internal/supervisor/startorder"
	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

// withoutCommand returns the flags of options.
func withoutCommand(o *options) *options {
	o.argv = nil
	return o
}

// ordered returns the options of container "web", which waits for "db", and those of
// "db". It returns false if admission refuses the pod.
func ordered(t *testing.T, probe *corev1.Probe, annotations ...string) (web, db *options, admitted bool) {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: asksToBeWrapped(annotations...)},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, RuntimeClassName: new("other"), Containers: []corev1.Container{
			{Name: "web", Image: "busybox", Command: []string{"x"}}, {Name: "db", Image: "busybox", Command: []string{"x"}, ReadinessProbe: probe},
		}},
	}
	result, err := (&pod.Injector{CopierImage: "copier"}).Inject(t.Context(), "tenant", p)
	if err != nil {
		var refusal *pod.Refusal
		require.ErrorAs(t, err, &refusal)
		return nil, nil, false
	}
	var all []*options
	for _, c := range result.Pod.Spec.Containers {
		var args []string
		for _, arg := range c.Args {
			args = append(args, strings.ReplaceAll(arg, "$$", "$")) // as the kubelet does
		}
		opts, err := parse(args)
		require.NoError(t, err)
		require.Equal(t, []string{"x"}, opts.argv)
		all = append(all, opts)
	}
	return all[0], all[1], true
}

func TestTheSupervisorAcceptsAdmissionsOrderFlags(t *testing.T) {
	web, db, admitted := ordered(t, nil, "depends-on.entrypointer.dev/web", "db:ready", "entrypointer.dev/depends-on-timeout", "5m",
		"ready-when.entrypointer.dev/db", `["pg_isready", "$x"]`)
	require.True(t, admitted)
	const webs, dbs = "/entrypointer/order/web", "/entrypointer/order/db"
	want := withoutCommand(defaults())
	want.presence.Dir, want.presence.Heartbeat, want.startOrder.Timeout = webs, true, 5*time.Minute
	want.startOrder.DependsOn = []order.Dependency{{Condition: conditions.Ready, Dir: dbs, Final: ends("0-255")}}
	want.startOrder.FinalEnds = []startorder.ContainerEnds{{Dir: dbs, Final: ends("0-255")}}
	require.Equal(t, want, withoutCommand(web))
	want = withoutCommand(defaults())
	want.presence.Dir, want.presence.Heartbeat, want.presence.Ready.Exec = dbs, true, []string{"pg_isready", "$x"}
	want.stopOrder.After, want.stopOrder.Share = []string{webs}, 15*time.Second
	require.Equal(t, want, withoutCommand(db))
}

func TestTheSupervisorAcceptsAdmissionsPipeFlags(t *testing.T) {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: asksToBeWrapped("stdin.entrypointer.dev/b", "a")},
		Spec: corev1.PodSpec{RestartPolicy: corev1.RestartPolicyOnFailure, Containers: []corev1.Container{
			{Name: "a", Image: "busybox", Command: []string{"x"}}, {Name: "b", Image: "busybox", Command: []string{"x"}},
		}},
	}
	result, err := (&pod.Injector{CopierImage: "copier"}).Inject(t.Context(), "tenant", p)
	require.NoError(t, err)
	const a, b = "/entrypointer/order/a", "/entrypointer/order/b"
	for at, want := range []pipe.Options{{To: order.Partner{Dir: b, Final: ends("0")}}, {From: order.Partner{Dir: a, Final: ends("0")}}} {
		opts, err := parse(result.Pod.Spec.Containers[at].Args)
		require.NoError(t, err)
		expected := withoutCommand(defaults())
		expected.presence.Dir, expected.pipe = []string{a, b}[at], want
		expected.startOrder.FinalEnds = []startorder.ContainerEnds{{Dir: []string{b, a}[at], Final: ends("0")}}
		if at == 1 { // the reader is stopped after its writer
			expected.stopOrder.After, expected.stopOrder.Share = []string{a}, 15*time.Second
		}
		require.Equal(t, expected, withoutCommand(opts))
		for _, m := range result.Pod.Spec.Containers[at].VolumeMounts {
			if strings.HasSuffix(m.MountPath, order.PipesSuffix) {
				require.Equal(t, b+order.PipesSuffix, m.MountPath)
				require.Equal(t, at == 0, m.ReadOnly)
			}
		}
	}
}

func TestTheSupervisorAcceptsAdmissionsLivenessProbe(t *testing.T) {
	get := &corev1.HTTPGetAction{Path: "/x", Port: intstr.FromInt32(80), HTTPHeaders: []corev1.HTTPHeader{{Name: "A", Value: "b"}}}
	for _, handler := range []corev1.ProbeHandler{{Exec: &corev1.ExecAction{Command: []string{"a", "-b"}}}, {TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(80)}}, {HTTPGet: get}} {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "p", Annotations: asksToBeWrapped("depends-on.entrypointer.dev/web", "db:started")},
			Spec: corev1.PodSpec{Containers: []corev1.Container{
				{Name: "web", Image: "busybox", Command: []string{"x"}, Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{HTTPGet: get}}},
				{Name: "db", Image: "busybox", Command: []string{"x"}, LivenessProbe: &corev1.Probe{ProbeHandler: handler}},
			}},
		}
		result, err := (&pod.Injector{CopierImage: "copier"}).Inject(t.Context(), "tenant", p)
		require.NoError(t, err)
		opts, err := parse(result.Pod.Spec.Containers[1].Args)
		require.NoError(t, err)
		require.Equal(t, 1, opts.stopOrder.Alive.Kinds())
		require.False(t, opts.stopOrder.Together)
	}
}

// FuzzTheSupervisorAcceptsAdmittedOrders checks that admission refuses all dependencies
// and probes that the supervisor would refuse.
func FuzzTheSupervisorAcceptsAdmittedOrders(f *testing.F) {
	for _, seed := range [][2]string{
		{"db:started", ""},
		{"db:ready", `["a","b"]`},
		{"db:exited, other:ready?", "tcp://:1"},
		{"db:completed\n", "tcp://[::ffff:1.2.3.4]:080"},
		{"db:ready", "http://127.0.0.1:80/a b?c=%zz"},
		{"db:ready", "http://:80?x"},
		{"db:ready", "http://:80/ü"},
		{"db:ready", "file:///a\nb"},
	} {
		f.Add(seed[0], seed[1], "", "", "")
	}
	f.Add("db:ready", "", "::1", "healthz?a=b c", "Host: a")
	f.Add("db:ready", "", "127.0.0.1", "//a#b", "X: ü\t")
	f.Fuzz(func(t *testing.T, dependsOn, readyWhen, host, path, header string) {
		name, value, _ := strings.Cut(header, ": ")
		get := &corev1.HTTPGetAction{Host: host, Path: path, Port: intstr.FromInt32(80)}
		if header != "" {
			get.HTTPHeaders = []corev1.HTTPHeader{{Name: name, Value: value}}
		}
		annotations := []string{"depends-on.entrypointer.dev/web", dependsOn}
		if readyWhen != "" {
			annotations = append(annotations, "ready-when.entrypointer.dev/db", readyWhen)
		}
		web, db, admitted := ordered(t, &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: get}}, annotations...)
		if !admitted || len(web.startOrder.DependsOn) == 0 {
			return
		}
		require.Equal(t, web.startOrder.DependsOn[0].Dir, db.presence.Dir)
		if web.startOrder.DependsOn[0].Condition == conditions.Ready {
			require.Equal(t, 1, db.presence.Ready.Kinds())
		}
	})
}
