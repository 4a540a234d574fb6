// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// versionOf returns what the last word of a program's -version is.
func versionOf(t *testing.T, namespace, podName, container, program string) string {
	t.Helper()
	words := strings.Fields(execIn(t, namespace, podName, container, program, "-version"))
	require.GreaterOrEqual(t, len(words), 2)
	return words[1]
}

// The version has to be in the binaries that ko builds, and in the metrics of each program.
func TestWhatIsDeployedKnowsItsVersion(t *testing.T) {
	t.Parallel()
	replicas, err := cluster.InjectorPods(t.Context())
	require.NoError(t, err)
	require.NotEmpty(t, replicas)
	version := versionOf(t, framework.SystemNamespace, replicas[0].Name, replicas[0].Spec.Containers[0].Name, "/ko-app/injector")
	require.Regexp(t, `^v\d+\.\d+\.\d+\S*-[0-9a-f]{7,}(\+dirty)?$`, version)
	metrics := func(namespace, podName, port string) string {
		page, err := cluster.Kube.CoreV1().Pods(namespace).ProxyGet("http", podName, port, "/metrics", nil).DoRaw(t.Context())
		require.NoError(t, err)
		return string(page)
	}
	require.Regexp(t, `(?m)^entrypointer_build_info\{.*version="`+strings.ReplaceAll(version, "+", `\+`)+`".*\} 1$`,
		metrics(framework.SystemNamespace, replicas[0].Name, "9090"))

	services, err := cluster.Kube.CoreV1().Pods(endpoint.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=logs"})
	require.NoError(t, err)
	require.NotEmpty(t, services.Items)
	service := services.Items[0]
	require.Equal(t, version, versionOf(t, endpoint.Namespace, service.Name, service.Spec.Containers[0].Name, "/ko-app/logs"))
	require.Contains(t, metrics(endpoint.Namespace, service.Name, "8080"), `entrypointer_logs_build_info{version="`+version+`"} 1`)

	namespace := optedInNamespace(t)
	p := createPod(t, namespace, askingPod("versioned", busybox(t, "main", "sleep", "3600")))
	waitUntilRunning(t, namespace, p.Name)
	require.Equal(t, version, versionOf(t, namespace, p.Name, "main", pod.EntrypointPath))
}

func TestTheOperatorMayHaveTheVersionInTheStatusOfPods(t *testing.T) {
	namespace := optedInNamespace(t)
	p := askingPod("versioned", busybox(t, "main", "true"))
	before, err := wouldBecome(t, namespace, p)
	require.NoError(t, err)
	require.Equal(t, "Injected by init-container", before.Annotations[pod.StatusAnnotation], "by default")
	configureForNow(t, "status-version", "included")
	eventually(t, time.Minute, "the version in the status", func() error {
		seen, err := wouldBecome(t, namespace, p)
		if err != nil {
			return err
		}
		status := seen.Annotations[pod.StatusAnnotation]
		switch version, found := strings.CutPrefix(status, "Injected by init-container; version: v"); {
		case !found:
			return fmt.Errorf("the status is %q", status)
		case version == "":
			return errors.New("the version is empty")
		}
		require.Equal(t, before.Spec.Containers[0].Args, seen.Spec.Containers[0].Args)
		return nil
	})
}
