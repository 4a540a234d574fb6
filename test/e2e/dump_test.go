// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/test/framework"
)

// dump logs what somebody needs who wants to know why a test failed.
func dump(ctx context.Context, t *testing.T, ns *corev1.Namespace) {
	t.Helper()
	var text bytes.Buffer
	pods, err := cluster.Kube.CoreV1().Pods(ns.Name).List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Fprintf(&text, "listing pods: %v\n", err)
	} else {
		for i := range pods.Items {
			dumpPod(ctx, &text, &pods.Items[i])
		}
	}
	dumpEvents(ctx, &text, ns.Name)
	dumpInjector(ctx, &text, ns)
	t.Logf("namespace %s when the test failed:\n%s", ns.Name, text.String())
}

func dumpPod(ctx context.Context, text *bytes.Buffer, p *corev1.Pod) {
	excerpt, err := yaml.Marshal(map[string]any{
		"annotations":    p.Annotations,
		"initContainers": p.Spec.InitContainers,
		"containers":     p.Spec.Containers,
		"status":         p.Status,
	})
	if err != nil {
		excerpt = []byte(err.Error())
	}
	fmt.Fprintf(text, "--- pod %s\n%s", p.Name, excerpt)
	for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
		if log, err := cluster.Logs(ctx, p.Namespace, p.Name, c.Name); err == nil && log != "" {
			fmt.Fprintf(text, "--- log of pod %s, container %s\n%s", p.Name, c.Name, log)
		}
	}
}

func dumpEvents(ctx context.Context, text *bytes.Buffer, namespace string) {
	events, err := cluster.Kube.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		fmt.Fprintf(text, "listing events: %v\n", err)
		return
	}
	fmt.Fprintln(text, "--- events")
	for _, e := range events.Items {
		fmt.Fprintf(text, "%s %dx %s %s: %s: %s\n", e.LastTimestamp.Format(time.TimeOnly), e.Count, e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
	}
}

// dumpInjector shows the lines of the injectors' logs that mention the
// namespace, and all that warn, since it is there.
func dumpInjector(ctx context.Context, text *bytes.Buffer, ns *corev1.Namespace) {
	pods, err := cluster.InjectorPods(ctx)
	if err != nil {
		fmt.Fprintf(text, "%v\n", err)
		return
	}
	for _, p := range pods {
		fmt.Fprintf(text, "--- log of %s, as far as it is about %s, and warnings\n", p.Name, ns.Name)
		log, err := cluster.Kube.CoreV1().Pods(p.Namespace).GetLogs(p.Name,
			&corev1.PodLogOptions{Container: framework.Injector, SinceTime: &ns.CreationTimestamp}).DoRaw(ctx)
		if err != nil {
			fmt.Fprintf(text, "%v\n", err)
			continue
		}
		for line := range strings.Lines(string(log)) {
			if strings.Contains(line, ns.Name) || strings.Contains(line, `"WARN`) || strings.Contains(line, `"ERROR"`) {
				text.WriteString(line)
			}
		}
	}
}
