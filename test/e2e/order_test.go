// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servingv1 "knative.dev/serving/pkg/apis/serving/v1"

	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/pod"
	"github.com/entrypointer/entrypointer/test/framework"
)

// orderedPod is a pod that asks, and whose annotations order its containers.
func orderedPod(name string, annotations map[string]string, containers ...corev1.Container) *corev1.Pod {
	p := askingPod(name, containers...)
	for key, value := range annotations {
		option, container, _ := strings.Cut(key, "/")
		p.Annotations[option+".entrypointer.dev/"+container] = value
	}
	return p
}

// containerStatus is what the kubelet says of a container.
func containerStatus(t *testing.T, p *corev1.Pod, container string) corev1.ContainerStatus {
	t.Helper()
	got, err := cluster.Kube.CoreV1().Pods(p.Namespace).Get(t.Context(), p.Name, metav1.GetOptions{})
	require.NoError(t, err)
	for _, s := range got.Status.ContainerStatuses {
		if s.Name == container {
			return s
		}
	}
	t.Fatalf("the kubelet says nothing of container %q of pod %q", container, p.Name)
	return corev1.ContainerStatus{}
}

// saysThatItWaits waits until a container says on stderr for whom it waits, which it
// does after ten seconds.
func saysThatItWaits(t *testing.T, p *corev1.Pod, container, forWhom string) {
	t.Helper()
	eventually(t, patience, fmt.Sprintf("container %q of pod %q to say that it waits", container, p.Name), func() error {
		said, err := cluster.Logs(t.Context(), p.Namespace, p.Name, container)
		if err == nil && !strings.Contains(said, "entrypointer: waiting for "+forWhom) {
			err = fmt.Errorf("it says %q", said)
		}
		return err
	})
}

func TestAJobWaitsForItsDatabase(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	createExample(t, namespace, "order/job-with-database.yaml")
	waitForJob(t, namespace, "job-with-database")
	p, err := cluster.PodOf(t.Context(), namespace, "job-name=job-with-database")
	require.NoError(t, err)
	require.Equal(t, "Injected by init-container; order: db -> test; db until test", p.Annotations[pod.StatusAnnotation])
	require.Equal(t, "hello from the database\n", printed(t, namespace, p.Name, "test"))
}

// waitForJob waits until a Job is complete.
func waitForJob(t *testing.T, namespace, name string) {
	t.Helper()
	eventually(t, patience, "the Job to be complete", func() error {
		job, err := cluster.Kube.BatchV1().Jobs(namespace).Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for _, c := range job.Status.Conditions {
			if c.Type == batchv1.JobFailed && c.Status == corev1.ConditionTrue {
				return framework.Permanent(errors.New(c.Message))
			}
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v", job.Status.Conditions)
	})
}

// endpoints are the addresses of a Service, and whether they are ready.
func endpoints(t *testing.T, namespace, service string) map[string]bool {
	t.Helper()
	slices, err := cluster.Kube.DiscoveryV1().EndpointSlices(namespace).List(t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service})
	require.NoError(t, err)
	found := map[string]bool{}
	for _, slice := range slices.Items {
		for _, e := range slice.Endpoints {
			found[e.Addresses[0]] = e.Conditions.Ready != nil && *e.Conditions.Ready
		}
	}
	return found
}

func TestAServerIsNeitherKilledNorReadyUntilItsMigrationIsDone(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	objects, err := framework.Example(t.Context(), "order/migrate-then-serve.yaml")
	require.NoError(t, err)
	deployment, err := framework.Typed[appsv1.Deployment](objects[0])
	require.NoError(t, err)
	migrate := &deployment.Spec.Template.Spec.Containers[1]
	require.Contains(t, migrate.Args[0], "sleep 3\n")
	migrate.Args[0] = strings.Replace(migrate.Args[0], "sleep 3\n", "until test -e /tmp/go; do sleep 1; done\n", 1)
	createDeployment(t, namespace, deployment)
	require.NoError(t, cluster.Create(t.Context(), namespace, objects[1]))

	p := podOfApp(t, namespace, "migrate-then-serve")
	require.Equal(t, "Injected by init-container; order: migrate -> web", p.Annotations[pod.StatusAnnotation])
	p = waitUntilRunning(t, namespace, p.Name)
	// Its livenessProbe fails each second, and three failures would kill it.
	saysThatItWaits(t, p, "web", "migrate:ready")
	status := containerStatus(t, p, "web")
	require.Zero(t, status.RestartCount)
	require.False(t, status.Ready)
	require.Equal(t, new(false), status.Started)
	require.False(t, endpoints(t, namespace, "migrate-then-serve")[p.Status.PodIP])
	require.Contains(t, entrypointIn(t, p, "web", "status"), `"phase":"Waiting"`)

	execIn(t, namespace, p.Name, "migrate", "touch", "/tmp/go")
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "migrate-then-serve"))
	require.Zero(t, containerStatus(t, p, "web").RestartCount)
	require.Contains(t, logs(t, namespace, p.Name, "web"), "schema 2\n")
	eventually(t, patience, "the server to be an endpoint", func() error {
		if all := endpoints(t, namespace, "migrate-then-serve"); !all[p.Status.PodIP] {
			return fmt.Errorf("the endpoints are %v", all)
		}
		return nil
	})
}

func TestTheExampleOfAMigrationServes(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	createExample(t, namespace, "order/migrate-then-serve.yaml")
	require.NoError(t, cluster.WaitForDeployment(t.Context(), namespace, "migrate-then-serve"))
	p := podOfApp(t, namespace, "migrate-then-serve")
	require.Equal(t, "schema 2\n", printed(t, namespace, p.Name, "web"))
	require.Zero(t, containerStatus(t, p, "web").RestartCount)
}

func TestAFailureThatIsFinalFailsWhoWaits(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	for _, condition := range []string{"started", "ready", "completed"} {
		name := "waits-until-" + condition
		createPod(t, namespace, orderedPod(name, map[string]string{"depends-on/web": "db:" + condition, "ready-when/db": "tcp://:5432"},
			busybox(t, "web", "echo", "never"), busybox(t, "db", "/nothing")))
	}
	for _, condition := range []string{"started", "ready", "completed"} {
		p := waitUntilDone(t, namespace, "waits-until-"+condition)
		require.Equal(t, int32(127), ended(t, p, "db").ExitCode)
		require.Equal(t, int32(123), ended(t, p, "web").ExitCode, condition)
		said := logs(t, namespace, p.Name, "web")
		require.NotContains(t, said, "never")
		require.Contains(t, said, "entrypointer: waiting for db:"+condition+" (it exited with 127)")
	}
	// Whoever wants no more than its end goes on.
	createPod(t, namespace, orderedPod("waits-until-exited", map[string]string{"depends-on/web": "db:exited"},
		busybox(t, "web", "echo", "after all"), busybox(t, "db", "sh", "-c", "exit 7")))
	require.Equal(t, "after all\n", printed(t, namespace, waitUntilDone(t, namespace, "waits-until-exited").Name, "web"))
}

func TestAWaitHasALongestTime(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	createPod(t, namespace, orderedPod("impatient", map[string]string{
		"depends-on/web": "db:ready", "ready-when/db": "file:///tmp/ready", "depends-on-timeout/web": "2s",
	}, busybox(t, "web", "echo", "never"), busybox(t, "db", "sleep", "5")))
	p := waitUntilDone(t, namespace, "impatient")
	require.Equal(t, int32(124), ended(t, p, "web").ExitCode)
	require.Contains(t, logs(t, namespace, p.Name, "web"), "entrypointer: waiting for db:ready")
}

// The database's first life ends before it is ready, with or without its supervisor. It
// isn't its last.
func TestADependencyThatIsKilledIsWaitedForInItsNextLife(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	for name, dies := range map[string]string{
		"oom":    "exec tail /dev/zero",
		"killed": "kill -9 $PPID; sleep 60", // the supervisor, which isn't PID 1 there
	} {
		db := busybox(t, "db", "sh", "-c", "if mkdir /data/first; then sleep 2; "+dies+"; fi; echo second >/data/life; until test -e /data/done; do sleep 1; done")
		db.Resources.Limits = resources("memory", "64Mi")
		web := busybox(t, "web", "sh", "-c", "cat /data/life; touch /data/done")
		p := orderedPod(name, map[string]string{"depends-on/web": "db:ready", "ready-when/db": "file:///data/life"}, web, db)
		p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		p.Spec.ShareProcessNamespace = new(name == "killed")
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		for at := range p.Spec.Containers {
			p.Spec.Containers[at].VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/data"}}
		}
		createPod(t, namespace, p)
	}
	for _, name := range []string{"oom", "killed"} {
		p := waitForPhase(t, namespace, name, corev1.PodSucceeded)
		require.Equal(t, int32(1), containerStatus(t, p, "db").RestartCount, name)
		require.Equal(t, int32(137), containerStatus(t, p, "db").LastTerminationState.Terminated.ExitCode, name)
		require.Zero(t, containerStatus(t, p, "web").RestartCount, name)
		require.Equal(t, "second\n", printed(t, namespace, name, "web"))
	}
}

func TestAnOrderThatCanNotComeTrueIsRefusedInWords(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	for name, test := range map[string]struct {
		annotations map[string]string
		says        string
	}{
		"circle":   {map[string]string{"depends-on/web": "db:started", "depends-on/db": "web:started"}, "web -> db -> web"},
		"nobody":   {map[string]string{"depends-on/web": "dbb:started"}, `the pod has no container "dbb" in spec.containers; it has "web", "db"`},
		"no-probe": {map[string]string{"depends-on/web": "db:ready"}, "it has no readinessProbe; set annotation ready-when.entrypointer.dev/db"},
		"wrong":    {map[string]string{"depends-on/web": "db:healthy"}, "a condition is " + conditions.All.String()},
		"replaced": {map[string]string{"depends-on/web": "db:completed", "mode/db": "exec"}, "the container has no supervisor that reports this condition"},
	} {
		_, err := wouldBecome(t, namespace, orderedPod(name, test.annotations, busybox(t, "web", "true"), busybox(t, "db", "true")))
		require.ErrorContains(t, err, test.says)
		require.ErrorContains(t, err, fmt.Sprintf("pod %q", name))
	}
}

func TestAnOrderIsInjectedOnce(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	p := orderedPod("once", map[string]string{"depends-on/web": "db:completed"}, busybox(t, "web", "true"), busybox(t, "db", "true"))
	once := createPod(t, namespace, p)
	require.Equal(t, "Injected by init-container; order: db -> web", once.Annotations[pod.StatusAnnotation])
	p.Name, p.Spec, p.Annotations = "twice", *once.Spec.DeepCopy(), once.Annotations
	twice := createPod(t, namespace, p)
	require.True(t, equality.Semantic.DeepEqual(once.Spec, twice.Spec), "once: %+v; twice: %+v", once.Spec, twice.Spec)
	require.Equal(t, once.Annotations, twice.Annotations)
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "twice").Status.Phase)
}

// Knative's own probes are queue-proxy's.
func TestAKnativeServiceOfTwoContainersStartsInOrder(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	service := &servingv1.Service{ObjectMeta: metav1.ObjectMeta{Name: "ordered"}}
	service.Spec.Template.Annotations = map[string]string{
		"autoscaling.knative.dev/min-scale":   "1",
		"depends-on.entrypointer.dev/web":     "cache:ready",
		"ready-when.entrypointer.dev/cache":   `["wget", "-qO", "/dev/null", "http://127.0.0.1:9000/warm"]`,
		"entrypointer.dev/depends-on-timeout": "1m",
	}
	web := busybox(t, "web", "sh", "-ec", "mkdir /www; wget -qO /www/index.html http://127.0.0.1:9000/warm; exec httpd -f -p 8080 -h /www")
	web.Ports = []corev1.ContainerPort{{ContainerPort: 8080}}
	cache := busybox(t, "cache", "sh", "-ec", "mkdir /www; httpd -p 9000 -h /www; sleep 3; echo warm >/www/warm; exec tail -f /dev/null")
	service.Spec.Template.Spec.Containers = []corev1.Container{web, cache}
	_, err := cluster.Serving.ServingV1().Services(namespace).Create(t.Context(), service, metav1.CreateOptions{})
	require.NoError(t, err)
	ready := readyService(t, namespace, "ordered")
	require.Equal(t, "warm\n", waitForAnswer(t, ready))
	p := servingPod(t, ready)
	require.Equal(t, "Injected by init-container; order: cache -> web", p.Annotations[pod.StatusAnnotation])
	require.Zero(t, containerStatus(t, p, "web").RestartCount)
}
