// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/entrypointer/entrypointer/internal/claims"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// claimNamespace is a namespace whose pods, as far as the scope goes, mount a claim of
// this class.
func claimNamespace(t *testing.T, class string, scope pod.Scope) string {
	t.Helper()
	ns := newNamespace(t, map[string]string{pod.InjectAnnotation: string(scope), pod.DeliveryAnnotation: framework.Claim},
		"pod-security.kubernetes.io/enforce", "restricted")
	objects, err := framework.Example(t.Context(), "delivery/claim.yaml")
	require.NoError(t, err)
	require.NoError(t, unstructured.SetNestedField(objects[0].Object, class, "spec", "volumeClaimTemplate", "spec", "storageClassName"))
	require.NoError(t, unstructured.SetNestedField(objects[0].Object, "1m", "spec", "retireAfter"))
	// The reconciler may have made one already.
	volumes := cluster.Dynamic.Resource(claims.Resource).Namespace(ns.Name)
	_, err = volumes.Apply(t.Context(), claims.Name, objects[0], metav1.ApplyOptions{FieldManager: "e2e", Force: true})
	require.NoError(t, err)
	return ns.Name
}

// waitForColumns waits until kubectl shows this READY and REASON, and returns the CLAIM.
func waitForColumns(t *testing.T, namespace, ready, reason string) (claim string) {
	t.Helper()
	eventually(t, 3*time.Minute, "the SupervisorVolume to be "+ready+" "+reason, func() error {
		out, err := framework.Run(t.Context(), "kubectl", "get", "svol", claims.Name, "-n", namespace, "-o",
			`jsonpath={.status.conditions[?(@.type=="Ready")]['status','reason','message']}{"\n"}{.status.claimName}`)
		if err != nil {
			return err
		}
		said, name, _ := strings.Cut(string(out), "\n")
		if !strings.HasPrefix(said, strings.TrimSpace(ready+" "+reason)) {
			return errors.New(said)
		}
		claim = name
		return nil
	})
	return claim
}

// waitForClaim waits until pods would mount a claim.
func waitForClaim(t *testing.T, namespace, claim string) {
	t.Helper()
	eventually(t, 3*time.Minute, "pods to mount claim "+claim, func() error {
		p, err := cluster.WaitForDelivery(t.Context(), namespace, framework.Claim)
		if err != nil {
			return err
		}
		if p.Spec.Volumes[len(p.Spec.Volumes)-1].PersistentVolumeClaim.ClaimName != claim {
			return errors.New("they get it by another claim")
		}
		return nil
	})
}

func waitUntilClaimIsGone(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, 4*time.Minute, "claim "+name+" to be gone", func() error {
		claim, err := cluster.Kube.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err == nil && claim.DeletionTimestamp != nil {
			return errors.New("something keeps it")
		}
		return errors.Join(err, errors.New("it is there"))
	})
}

func TestWithoutConfigClaimsPodsGetAnInitContainer(t *testing.T) {
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		defer cancel()
		_, err := framework.Run(ctx, "ko", "apply", "-f", "config/claims")
		require.NoError(t, err)
	})
	_, err := framework.Run(t.Context(), "ko", "delete", "--ignore-not-found", "-f", "config/claims")
	require.NoError(t, err)
	ns := newNamespace(t, map[string]string{pod.InjectAnnotation: "true", pod.DeliveryAnnotation: framework.Claim})
	p, err := wouldBecome(t, ns.Name, askingPod("a", busybox(t, "main", "true")))
	require.NoError(t, err)
	require.Equal(t, "Injected by init-container", p.Annotations[pod.StatusAnnotation])
}

// The story of the RFC's tool volume, from its template to its end.
func TestAClaimIsFilledMountedAndReplacedByAnUpgrade(t *testing.T) {
	class := sharedClass(t)
	namespace := claimNamespace(t, class, pod.OwnedPods)
	_, err := wouldBecome(t, namespace, restrictedPod("early", busybox(t, "main", "true")))
	require.NoError(t, err, "nobody is refused because a claim isn't ready")
	first := waitForColumns(t, namespace, "True", "")
	require.Regexp(t, `^entrypointer-[0-9a-f]{12}$`, first)
	waitForClaim(t, namespace, first)
	claim, err := cluster.Kube.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), first, metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "build", claim.Labels["cost-centre"], "as the template has it")

	createPod(t, namespace, restrictedPod("old", busybox(t, "main", "sleep", "3600")))
	waitUntilRunning(t, namespace, "old")
	require.Equal(t, "Injected by claim", podNamed(t, namespace, "old").Annotations[pod.StatusAnnotation])
	require.Error(t, tryToWrite(t, namespace), "the mount is read-only")
	requireTektonAndKnativeMount(t, class)

	file, next := nextRelease(t)
	require.NotEqual(t, copierImage(t), next)
	nameImages(t, file)
	_, err = framework.Run(t.Context(), "kubectl", "apply", "-f", file)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		_, err := framework.Run(ctx, "ko", "apply", "-f", "config/webhook")
		require.NoError(t, err)
		require.NoError(t, cluster.WaitForDeployment(ctx, framework.SystemNamespace, framework.Injector))
	})
	require.NoError(t, cluster.WaitForDeployment(t.Context(), framework.SystemNamespace, framework.Injector))
	var second string
	eventually(t, 2*time.Minute, "the next release's claim", func() error {
		if second = waitForColumns(t, namespace, "True", ""); second == first {
			return errors.New("it is the one of before")
		}
		return nil
	})
	waitForClaim(t, namespace, second)
	createPod(t, namespace, restrictedPod("new", busybox(t, "main", "readlink", "/proc/1/exe")))
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "new").Status.Phase)
	require.Equal(t, "/entrypointer/bin/entrypoint\n", logs(t, namespace, "new", "main"))

	eventually(t, 4*time.Minute, "the former claim to be deleted", func() error {
		claim, err := cluster.Kube.CoreV1().PersistentVolumeClaims(namespace).Get(t.Context(), first, metav1.GetOptions{})
		if err == nil && claim.DeletionTimestamp == nil {
			return errors.New("it isn't")
		}
		return err
	})
	require.Contains(t, execIn(t, namespace, "old", "main", "/entrypointer/bin/entrypoint", "-version"), "entrypoint", "a pod keeps its claim")
	require.NoError(t, cluster.Kube.CoreV1().Pods(namespace).Delete(t.Context(), "old", metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))}))
	waitUntilClaimIsGone(t, namespace, first)
}

// nameImages has the injector's namespace name the images of the next release, as
// config/webhook does.
func nameImages(t *testing.T, file string) {
	t.Helper()
	manifest, err := os.ReadFile(file)
	require.NoError(t, err)
	for _, name := range []string{"copier-image", "copier-with-logs-image"} {
		image := regexp.MustCompile(`- -` + name + `\n +- (\S+)`).FindSubmatch(manifest)
		require.NotNil(t, image, name)
		_, err = framework.Run(t.Context(), "kubectl", "annotate", "--overwrite", "namespace", framework.SystemNamespace, "entrypointer-"+name+"="+string(image[1]))
		require.NoError(t, err)
	}
}

func podNamed(t *testing.T, namespace, name string) *corev1.Pod {
	t.Helper()
	p, err := cluster.Kube.CoreV1().Pods(namespace).Get(t.Context(), name, metav1.GetOptions{})
	require.NoError(t, err)
	return p
}

func tryToWrite(t *testing.T, namespace string) error {
	t.Helper()
	_, err := cluster.Exec(t.Context(), namespace, "old", "main", "touch", "/entrypointer/bin/file")
	return err
}

// requireTektonAndKnativeMount has a TaskRun and a Service run from a claim of their own.
func requireTektonAndKnativeMount(t *testing.T, class string) {
	t.Helper()
	namespace := claimNamespace(t, class, pod.AllPods)
	_, err := framework.Run(t.Context(), "kubectl", "label", "--overwrite", "namespace", namespace, "pod-security.kubernetes.io/enforce=baseline")
	require.NoError(t, err)
	claim := waitForColumns(t, namespace, "True", "")
	waitForClaim(t, namespace, claim)
	ran, its := runTask(t, namespace, taskRun("mounting", pipelinev1.TaskSpec{Steps: []pipelinev1.Step{{
		Name: "first", Image: image(t, "busybox:1.37"), Script: "readlink /proc/1/exe",
	}}}))
	require.Equal(t, corev1.ConditionTrue, ran.Succeeded, ran.Message)
	require.NoError(t, framework.CheckStepsWrapped(its))
	require.Equal(t, framework.Claim, framework.Delivery(its))
	service := helloService(t, namespace, func(*servingv1.RevisionTemplateSpec) {})
	requireWrappedAnswer(t, waitForAnswer(t, service))
	require.Equal(t, framework.Claim, framework.Delivery(servingPod(t, service)))
}

func TestATemplateThatCanNotBeSatisfiedIsTold(t *testing.T) {
	class := sharedClass(t)
	namespace := claimNamespace(t, "no-such-class", pod.OwnedPods)
	waitForColumns(t, namespace, "False", "StorageClassNotFound")
	createPod(t, namespace, restrictedPod("meanwhile", busybox(t, "main", "true")))
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "meanwhile").Status.Phase)

	// What can be known when it is written is refused.
	for path, value := range map[string]any{"accessModes": []any{"ReadWriteOnce"}, "volumeMode": "Block", "storageClassName": int64(1)} {
		bad, err := cluster.Dynamic.Resource(claims.Resource).Namespace(namespace).Get(t.Context(), claims.Name, metav1.GetOptions{})
		require.NoError(t, err)
		require.NoError(t, unstructured.SetNestedField(bad.Object, value, "spec", "volumeClaimTemplate", "spec", path))
		_, err = cluster.Dynamic.Resource(claims.Resource).Namespace(namespace).Update(t.Context(), bad, metav1.UpdateOptions{})
		require.True(t, apierrors.IsInvalid(err), "%s: %v", path, err)
	}

	for _, wait := range []any{"59s", "721h", "1 day", "-2h", int64(60)} {
		bad, err := cluster.Dynamic.Resource(claims.Resource).Namespace(namespace).Get(t.Context(), claims.Name, metav1.GetOptions{})
		require.NoError(t, err)
		require.NoError(t, unstructured.SetNestedField(bad.Object, wait, "spec", "retireAfter"))
		_, err = cluster.Dynamic.Resource(claims.Resource).Namespace(namespace).Update(t.Context(), bad, metav1.UpdateOptions{})
		require.True(t, apierrors.IsInvalid(err), "%v: %v", wait, err)
	}

	_, err := framework.Run(t.Context(), "kubectl", "patch", "svol", claims.Name, "-n", namespace, "--type=merge",
		"-p", fmt.Sprintf(`{"spec":{"volumeClaimTemplate":{"spec":{"storageClassName":%q}}}}`, class))
	require.NoError(t, err)
	waitForClaim(t, namespace, waitForColumns(t, namespace, "True", ""))

	// Opting for another delivery ends it.
	_, err = annotateKey(t.Context(), namespace, pod.DeliveryAnnotation, `"`+framework.InitContainer+`"`)
	require.NoError(t, err)
	waitForDelivery(t, namespace, framework.InitContainer)
	waitForColumns(t, namespace, "Unknown", "NotAskedFor")
}
