// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

func TestAReadinessProbeIsTheEntrypoints(t *testing.T) {
	port := intstr.FromInt32
	http := func(get corev1.HTTPGetAction) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{HTTPGet: &get}}
	}
	tcp := func(host string, at intstr.IntOrString) *corev1.Probe {
		return &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Host: host, Port: at}}}
	}
	for name, test := range map[string]struct {
		probe *corev1.Probe
		when  string
		want  []string
		says  string
	}{
		"a command":               {probe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"a", "$(B)", ""}}}}, want: []string{"-ready-exec=a", "-ready-exec=$(B)", "-ready-exec="}},
		"a port":                  {probe: tcp("", port(5432)), want: []string{"-ready-tcp=:5432"}},
		"a port of an address":    {probe: tcp("::1", port(5432)), want: []string{"-ready-tcp=[::1]:5432"}},
		"a port by its name":      {probe: tcp("", intstr.FromString("serving")), want: []string{"-ready-tcp=:8080"}},
		"a port by no name":       {probe: tcp("", intstr.FromString("other")), says: "a port that the container doesn't declare"},
		"a port that isn't any":   {probe: tcp("", port(0)), says: "a port that the container doesn't declare"},
		"a host by its name":      {probe: tcp("db.example", port(1)), says: "a host that isn't an IP address"},
		"a page":                  {probe: http(corev1.HTTPGetAction{Port: port(8080)}), want: []string{"-ready-http=http://:8080/"}},
		"a page by its path":      {probe: http(corev1.HTTPGetAction{Port: port(8080), Path: "healthz?full=$x"}), want: []string{"-ready-http=http://:8080/healthz?full=$$x"}},
		"a path with a space":     {probe: http(corev1.HTTPGetAction{Port: port(8080), Path: "/a b%"}), want: []string{"-ready-http=http://:8080/a%20b%25"}},
		"a query with a space":    {probe: http(corev1.HTTPGetAction{Port: port(8080), Path: "/?a b"}), says: "a path that can't be sent"},
		"headers":                 {probe: http(corev1.HTTPGetAction{Port: port(80), Host: "10.0.0.1", Scheme: "HTTP", HTTPHeaders: []corev1.HTTPHeader{{Name: "Host", Value: "$a"}}}), want: []string{"-ready-http=http://10.0.0.1:80/", "-ready-http-header=Host: $$a"}},
		"a header of two lines":   {probe: http(corev1.HTTPGetAction{Port: port(80), HTTPHeaders: []corev1.HTTPHeader{{Name: "A", Value: "b\r\nC: d"}}}), says: "a header that can't be sent"},
		"TLS":                     {probe: http(corev1.HTTPGetAction{Port: port(443), Scheme: "HTTPS"}), says: "uses HTTPS"},
		"gRPC":                    {probe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: 1}}}, says: "neither exec, tcpSocket nor httpGet"},
		"no command":              {probe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{}}}, says: "neither exec, tcpSocket nor httpGet"},
		"a longer time":           {probe: &corev1.Probe{ProbeHandler: tcp("", port(1)).ProbeHandler, TimeoutSeconds: 90, PeriodSeconds: 60, InitialDelaySeconds: 30}, want: []string{"-ready-tcp=:1", "-ready-timeout=1m30s"}},
		"ready-when comes first":  {probe: tcp("", port(1)), when: "tcp://127.0.0.1:2", want: []string{"-ready-tcp=127.0.0.1:2"}},
		"when a command succeeds": {when: ` ["pg_isready", "$(A)", "-"]`, want: []string{"-ready-exec=pg_isready", "-ready-exec=$$(A)", "-ready-exec=-"}},
		"when a port accepts":     {when: "tcp://:5432", want: []string{"-ready-tcp=:5432"}},
		"when an address accepts": {when: "tcp://[::1]:5432", want: []string{"-ready-tcp=[::1]:5432"}},
		"when a server answers":   {when: "http://:8080/healthz?a=b", want: []string{"-ready-http=http://:8080/healthz?a=b"}},
		"when a root answers":     {when: "http://[::1]:8080", want: []string{"-ready-http=http://[::1]:8080/"}},
		"when a file is there":    {when: "file:///run/ready $x", want: []string{"-ready-file=/run/ready $$x"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := dependsOn(abc(), "a", "b:ready")
			p.Spec.Containers[1].ReadinessProbe = test.probe
			p.Spec.Containers[1].Ports = []corev1.ContainerPort{{Name: "serving", ContainerPort: 8080}}
			if test.when != "" {
				annotated(p, "ready-when.entrypointer.dev/b", test.when)
			}
			if test.says != "" {
				requireRefused(t, refusal(t, newInjector(nil), p), pod.InvalidAnnotation, `when container "b" is ready`, test.says, "set annotation ready-when.entrypointer.dev/b")
				return
			}
			wrapped := inject(t, newInjector(nil), p).Pod
			require.Equal(t, append([]string{"-order-dir=/entrypointer/order/b"}, test.want...), flagsBefore(wrapped, 1))
			require.Equal(t, test.probe, wrapped.Spec.Containers[1].ReadinessProbe, "the kubelet has its own as well")
			require.Equal(t, pod.AlreadyInjected, inject(t, newInjector(nil), wrapped).Outcome)
		})
	}
	for _, value := range []string{
		"", "ready", "[]", `[""]`, `["a\u0000"]`, `["a"`, "tcp://", "tcp://:0", "tcp://:65536", "tcp://db:1", "tcp://[fe80::1%eth0]:1", "https://:1/", "http:///", "http://host:1/",
		"http://u@:1/", "http://:1/#x", "http://:1/?a b", "http://:x/", "file://run/ready", "file://", "grpc://:1",
	} {
		p := annotated(dependsOn(abc(), "a", "b:ready"), "ready-when.entrypointer.dev/b", value)
		requireRefused(t, refusal(t, newInjector(nil), p), pod.InvalidAnnotation, "ready-when.entrypointer.dev/b", "it can be a command as JSON")
	}
}

func TestAReadyWhenForWhichNoContainerWaitsIsWarnedOf(t *testing.T) {
	p := annotated(dependsOn(abc(), "a", "b:started"), "ready-when.entrypointer.dev/b", "tcp://:1")
	result := inject(t, newInjector(nil), p)
	require.Equal(t, []pod.Warning{{Reason: pod.ReasonAnnotationHasNoEffect, Message: `annotation ready-when.entrypointer.dev/b has no effect: no container depends on "b" being ready`}}, result.Warnings)
	require.Equal(t, []string{"-order-dir=/entrypointer/order/b"}, flagsBefore(result.Pod, 1))
}
