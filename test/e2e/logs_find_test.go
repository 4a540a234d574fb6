// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/jsonschema"
)

// Who knows no more than the namespace finds the output of what is gone.
func findsWhatIsGone(t *testing.T, kubectl plugin) {
	namespace, token := logsNamespace(t, "stream")
	viewer := withToken(t, token)
	runOnce(t, namespace, printing(t, "of the job", corev1.RestartPolicyNever))
	runServer(t, namespace, printing(t, "of the deployment; exec sleep 600", corev1.RestartPolicyAlways))
	job := runScheduled(t, namespace, printing(t, "of the cronjob", corev1.RestartPolicyNever))
	kubectl.reads(t, viewer, "of the deployment", "-n", namespace, "deployment/web")
	deleteAll(t, namespace)

	kubectl.reads(t, viewer, "job/"+job, "-n", namespace, "--list")
	text := kubectl.reads(t, viewer, "deployment/web", "-n", namespace, "--list")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	require.Equal(t, []string{"POD", "OWNER", "CONTAINERS", "RUNS", "FIRST", "LAST"}, strings.Fields(lines[0]))
	require.Contains(t, text, "job/report ")
	for named, want := range map[string]string{"job/report": "of the job\n", "deployment/web": "of the deployment\n", "job/" + job: "of the cronjob\n"} {
		require.Contains(t, kubectl.reads(t, viewer, want, "-n", namespace, named), want)
		listed := strings.Split(strings.TrimSpace(kubectl.reads(t, viewer, named, "-n", namespace, "--list", named)), "\n")
		require.Len(t, listed, 2, named)
		name := strings.Fields(listed[1])[0]
		require.Equal(t, want, kubectl.reads(t, viewer, "", "-n", namespace, name))
		requireGets(t, viewer, namespace, name, named)
	}
	searchesWhatIsGone(t, kubectl, viewer, namespace)
	require.Contains(t, kubectl.reads(t, viewer, "of the cronjob", "-n", namespace, "cronjob/nightly"), "the Jobs named nightly-MINUTES")
	out, err := kubectl.command(t.Context(), viewer, "-n", namespace, "--list", "-o", "json").Output()
	require.NoError(t, err)
	require.NoError(t, jsonschema.Check(cliSchema, "logs", out))
	out, err = kubectl.command(t.Context(), viewer, "-n", namespace, "job/reprot").CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "similar names have logs: report; kubectl entrypointer logs --list -n "+namespace)
}

// A word is found whoever has printed it, and so is that nobody has printed another.
func searchesWhatIsGone(t *testing.T, kubectl plugin, viewer, namespace string) {
	t.Helper()
	found := kubectl.reads(t, viewer, "of the cronjob", "-n", namespace, "--grep", "^of the (JOB|cronjob)$", "-i")
	require.Len(t, strings.Split(strings.TrimSpace(found), "\n"), 2, found)
	require.Contains(t, found, "/main] of the job\n")
	require.Equal(t, "of the job\n", kubectl.reads(t, viewer, "", "-n", namespace, "job/report", "--grep", "job", "--prefix=false"))
	err := kubectl.command(t.Context(), viewer, "-n", namespace, "--grep", "nobody has printed this").Run()
	exit, is := errors.AsType[*exec.ExitError](err)
	require.True(t, is, err)
	require.Equal(t, 79, exit.ExitCode())
}

// printing is the template of pods that print a line.
func printing(t *testing.T, line string, policy corev1.RestartPolicy) corev1.PodTemplateSpec {
	t.Helper()
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "prints"}, Annotations: map[string]string{pod.InjectAnnotation: "true"}},
		Spec: corev1.PodSpec{
			RestartPolicy: policy,
			Containers:    []corev1.Container{busybox(t, "main", "sh", "-c", "echo "+line)},
		},
	}
}

// runOnce runs the Job report.
func runOnce(t *testing.T, namespace string, template corev1.PodTemplateSpec) {
	t.Helper()
	completes(t, namespace, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "report"}, Spec: batchv1.JobSpec{Template: template}})
}

// runServer runs the Deployment web.
func runServer(t *testing.T, namespace string, template corev1.PodTemplateSpec) {
	t.Helper()
	_, err := cluster.Kube.AppsV1().Deployments(namespace).Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: template.Labels}, Template: template},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "web"))
}

// runScheduled runs the CronJob nightly, deletes it after its first Job, and returns the name
// of that. The controller creates one at each full minute.
func runScheduled(t *testing.T, namespace string, template corev1.PodTemplateSpec) (job string) {
	t.Helper()
	cronJobs := cluster.Kube.BatchV1().CronJobs(namespace)
	_, err := cronJobs.Create(t.Context(), &batchv1.CronJob{
		ObjectMeta: metav1.ObjectMeta{Name: "nightly"},
		Spec:       batchv1.CronJobSpec{Schedule: "* * * * *", ConcurrencyPolicy: batchv1.ForbidConcurrent, JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: template}}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	eventually(t, 3*time.Minute, "a Job of the CronJob nightly", func() error {
		list, err := cluster.Kube.BatchV1().Jobs(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, j := range list.Items {
			if strings.HasPrefix(j.Name, "nightly-") && j.Status.Succeeded > 0 {
				job = j.Name
				return nil
			}
		}
		return fmt.Errorf("%d Jobs, and none of it has succeeded", len(list.Items))
	})
	require.NoError(t, cronJobs.Delete(t.Context(), "nightly", metav1.DeleteOptions{}))
	return job
}

// deleteAll deletes the objects, and waits until the pods are gone.
func deleteAll(t *testing.T, namespace string) {
	t.Helper()
	background := metav1.DeletePropagationBackground
	all, of := metav1.DeleteOptions{PropagationPolicy: &background}, metav1.ListOptions{}
	require.NoError(t, cluster.Kube.BatchV1().Jobs(namespace).DeleteCollection(t.Context(), all, of))
	require.NoError(t, cluster.Kube.AppsV1().Deployments(namespace).DeleteCollection(t.Context(), all, of))
	eventually(t, patience, "the pods to be gone", func() error {
		pods, err := cluster.Kube.CoreV1().Pods(namespace).List(t.Context(), of)
		if err == nil && len(pods.Items) > 0 {
			err = fmt.Errorf("%d are there", len(pods.Items))
		}
		return err
	})
}

// requireGets has kubectl get logs, without the plugin, list a pod with its owner, and get it
// alone.
func requireGets(t *testing.T, kubeconfig, namespace, name, owner string) {
	t.Helper()
	get := func(args ...string) string {
		command := exec.CommandContext(t.Context(), "kubectl", append([]string{"get", "logs", "-n", namespace}, args...)...)
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		out, err := command.CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	for _, args := range [][]string{nil, {name}, {"-o", "wide"}} {
		text := get(args...)
		require.Regexp(t, `^NAME +OWNER +CONTAINERS +RUNS +COMPLETE +HELD +LAST +AGE`, text)
		require.Regexp(t, `(?m)^`+name+` +`+owner+` +main +1 +(True|False) +False +\S+ +\S+`, text)
	}
	require.Equal(t, name, get(name, "-o", "jsonpath={.metadata.name}"))
	require.Contains(t, get("-o", "name"), "log.logs.entrypointer.dev/"+name+"\n")
	named, err := target.Parse(owner, target.All())
	require.NoError(t, err)
	require.Contains(t, get("-l", named.LogLabel()+"="+named.Of), name)
}
