// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// meddle is a mutating webhook of somebody else's, for the pods of one
// namespace. API servers call webhooks in the order of the names of their
// configurations, so the first letter decides whether it comes before ours.
func meddle(t *testing.T, name, namespace string, change func(*corev1.PodSpec)) {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admissionv1.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		review.Response = meddledWith(review.Request, change)
		_ = json.NewEncoder(w).Encode(review)
	}))
	ip := reachableAddress(t)
	listener, err := net.Listen("tcp", net.JoinHostPort(ip.String(), "0"))
	require.NoError(t, err)
	require.NoError(t, server.Listener.Close())
	server.Listener = listener
	certificate, key, err := cert.GenerateSelfSignedCertKey("meddler", []net.IP{ip}, nil)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	register(t, name, namespace, server.URL, certificate)
}

func register(t *testing.T, name, namespace, address string, ca []byte) {
	t.Helper()
	configurations := cluster.Kube.AdmissionregistrationV1().MutatingWebhookConfigurations()
	created, err := configurations.Create(t.Context(), &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{GenerateName: name + "-", Labels: map[string]string{ours: "true"}},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name:                    "meddler.example.test",
			AdmissionReviewVersions: []string{"v1"},
			ClientConfig:            admissionregistrationv1.WebhookClientConfig{URL: &address, CABundle: ca},
			SideEffects:             new(admissionregistrationv1.SideEffectClassNone),
			ReinvocationPolicy:      new(admissionregistrationv1.IfNeededReinvocationPolicy),
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
			Rules: []admissionregistrationv1.RuleWithOperations{{
				Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
				Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}},
			}},
		}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := configurations.Delete(ctx, created.Name, metav1.DeleteOptions{}); err != nil {
			t.Logf("deleting webhook %q: %v", created.Name, err)
		}
	})
}

// meddledWith answers with the difference that a change makes.
func meddledWith(request *admissionv1.AdmissionRequest, change func(*corev1.PodSpec)) *admissionv1.AdmissionResponse {
	refusal := func(err error) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{UID: request.UID, Result: &metav1.Status{Message: err.Error()}}
	}
	var p corev1.Pod
	if err := json.Unmarshal(request.Object.Raw, &p); err != nil {
		return refusal(err)
	}
	before, err := json.Marshal(p)
	if err != nil {
		return refusal(err)
	}
	change(&p.Spec)
	after, err := json.Marshal(p)
	if err != nil {
		return refusal(err)
	}
	operations, err := jsonpatch.CreatePatch(before, after)
	if err != nil {
		return refusal(err)
	}
	patch, err := json.Marshal(operations)
	if err != nil {
		return refusal(err)
	}
	response := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	if len(operations) > 0 {
		response.Patch, response.PatchType = patch, new(admissionv1.PatchTypeJSONPatch)
	}
	return response
}

// meddled is a namespace that opted in, and where a webhook has its turn before
// or after ours.
func meddled(t *testing.T, turn string, change func(*corev1.PodSpec)) string {
	t.Helper()
	namespace := optedInNamespace(t)
	meddle(t, map[string]string{"before": "a", "after": "z"}[turn], namespace, change)
	return namespace
}

// createMeddled creates a pod once the API server calls the webhook.
func createMeddled(t *testing.T, namespace string, p *corev1.Pod, meddledWith func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	eventually(t, time.Minute, "the API server to call the other webhook", func() error {
		seen, err := wouldBecome(t, namespace, p)
		if err == nil && !meddledWith(seen) {
			return errors.New("it doesn't yet")
		}
		return err
	})
	return createPod(t, namespace, p)
}

func hasContainer(containers []corev1.Container, name string) bool {
	return slices.ContainsFunc(containers, func(c corev1.Container) bool { return c.Name == name })
}

// firstIfMissing puts a container at the top, unless it is there.
func firstIfMissing(containers *[]corev1.Container, c corev1.Container) {
	if !hasContainer(*containers, c.Name) {
		*containers = slices.Insert(*containers, 0, c)
	}
}

func containerNames(containers []corev1.Container) (names []string) {
	for _, c := range containers {
		names = append(names, c.Name)
	}
	return names
}

// readlink is a command that tells which program is PID 1.
var readlink = []string{"readlink", "/proc/1/exe"}

func TestAProxyThatAnotherWebhookInjectsStaysUnwrapped(t *testing.T) {
	t.Parallel()
	for _, turn := range []string{"before", "after"} {
		t.Run(turn, func(t *testing.T) {
			t.Parallel()
			proxy := busybox(t, "istio-proxy", readlink...)
			namespace := meddled(t, turn, func(spec *corev1.PodSpec) { firstIfMissing(&spec.Containers, proxy) })
			created := createMeddled(t, namespace, askingPod("meshed", busybox(t, "main", readlink...)), func(p *corev1.Pod) bool {
				return hasContainer(p.Spec.Containers, "istio-proxy")
			})
			requireWrapped(t, created, "main")
			require.Equal(t, []string{"istio-proxy", "main"}, containerNames(created.Spec.Containers))
			require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "meshed").Status.Phase)
			require.Equal(t, "/bin/busybox\n", logs(t, namespace, "meshed", "istio-proxy"))
			require.Equal(t, pod.EntrypointPath+"\n", logs(t, namespace, "meshed", "main"))
		})
	}
}

// A container that isn't known to be a proxy is one to wrap, whoever added it.
func TestAContainerThatAnotherWebhookAddsIsWrapped(t *testing.T) {
	t.Parallel()
	for _, turn := range []string{"before", "after"} {
		t.Run(turn, func(t *testing.T) {
			t.Parallel()
			extra := busybox(t, "extra", readlink...)
			namespace := meddled(t, turn, func(spec *corev1.PodSpec) {
				if !hasContainer(spec.Containers, "extra") {
					spec.Containers = append(spec.Containers, extra)
				}
			})
			created := createMeddled(t, namespace, askingPod("extended", busybox(t, "main", readlink...)), func(p *corev1.Pod) bool {
				return hasContainer(p.Spec.Containers, "extra")
			})
			requireWrapped(t, created, "main", "extra")
			requireOnceOfEverything(t, created)
			require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "extended").Status.Phase)
			require.Equal(t, pod.EntrypointPath+"\n", logs(t, namespace, "extended", "extra"))
			require.Equal(t, pod.EntrypointPath+"\n", logs(t, namespace, "extended", "main"))
		})
	}
}

// Whatever is called again, and how often: what we add is there once.
func requireOnceOfEverything(t *testing.T, p *corev1.Pod) {
	t.Helper()
	count := func(what string, names []string, name string) {
		t.Helper()
		require.Len(t, slices.DeleteFunc(names, func(other string) bool { return other != name }), 1, "%s %q of pod %s", what, name, p.Name)
	}
	count("init containers", containerNames(p.Spec.InitContainers), pod.InitContainerName)
	var volumes []string
	for _, v := range p.Spec.Volumes {
		volumes = append(volumes, v.Name)
	}
	count("volumes", volumes, pod.VolumeName)
	for _, c := range p.Spec.Containers {
		if !slices.Equal(c.Command, []string{pod.EntrypointPath}) {
			continue
		}
		var mounts []string
		for _, m := range c.VolumeMounts {
			mounts = append(mounts, m.Name)
		}
		count("mounts in "+c.Name, mounts, pod.VolumeName)
		require.NotContains(t, strings.Join(c.Args, " "), pod.EntrypointPath, "wrapped twice")
	}
}

func TestAnInitContainerOfAnotherWebhookMayComeFirst(t *testing.T) {
	t.Parallel()
	always := corev1.ContainerRestartPolicyAlways
	for name, theirs := range map[string]func() corev1.Container{
		"init container": func() corev1.Container { return busybox(t, "theirs", readlink...) },
		"native sidecar": func() corev1.Container {
			c := busybox(t, "theirs", "sh", "-c", "readlink /proc/1/exe; "+forever[2])
			c.RestartPolicy = &always
			return c
		},
	} {
		for _, turn := range []string{"before", "after"} {
			t.Run(name+" "+turn, func(t *testing.T) {
				t.Parallel()
				c := theirs()
				namespace := meddled(t, turn, func(spec *corev1.PodSpec) { firstIfMissing(&spec.InitContainers, c) })
				created := createMeddled(t, namespace, askingPod("initialised", busybox(t, "main", readlink...)), func(p *corev1.Pod) bool {
					return hasContainer(p.Spec.InitContainers, "theirs")
				})
				requireOnceOfEverything(t, created)
				require.ElementsMatch(t, []string{"theirs", pod.InitContainerName}, containerNames(created.Spec.InitContainers))
				require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "initialised").Status.Phase)
				require.Equal(t, "/bin/busybox\n", logs(t, namespace, "initialised", "theirs"))
				require.Equal(t, pod.EntrypointPath+"\n", logs(t, namespace, "initialised", "main"))
			})
		}
	}
}

// Some webhooks change every container that they see, ours too: image, pull
// policy, environment, mounts. To change it back would start a fight.
func TestWhatAnotherWebhookAddsToOurInitContainerStays(t *testing.T) {
	t.Parallel()
	for _, turn := range []string{"before", "after"} {
		t.Run(turn, func(t *testing.T) {
			t.Parallel()
			namespace := meddled(t, turn, func(spec *corev1.PodSpec) {
				for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
					for i := range containers {
						if len(containers[i].Env) == 0 {
							containers[i].Env = []corev1.EnvVar{{Name: "CLUSTER", Value: "of-tests"}}
						}
						containers[i].ImagePullPolicy = corev1.PullIfNotPresent
					}
				}
			})
			created := createMeddled(t, namespace, askingPod("touched", busybox(t, "main", "sh", "-c", "readlink /proc/1/exe; echo $CLUSTER")), func(p *corev1.Pod) bool {
				return len(p.Spec.Containers[0].Env) > 0
			})
			requireOnceOfEverything(t, created)
			requireWrapped(t, created, "main")
			require.Equal(t, []corev1.EnvVar{{Name: "CLUSTER", Value: "of-tests"}}, created.Spec.InitContainers[0].Env)
			require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "touched").Status.Phase)
			require.Equal(t, pod.EntrypointPath+"\nof-tests\n", logs(t, namespace, "touched", "main"))
		})
	}
}

func TestAWebhookThatIsCalledAgainChangesNothingTwice(t *testing.T) {
	t.Parallel()
	namespace := meddled(t, "after", func(spec *corev1.PodSpec) {
		spec.Subdomain = "meddled"
	})
	p := askingPod("again", busybox(t, "main", "true"), busybox(t, "image"))
	created := createMeddled(t, namespace, p, func(p *corev1.Pod) bool { return p.Spec.Subdomain != "" })
	requireOnceOfEverything(t, created)
	alone, err := wouldBecome(t, optedInNamespace(t), p)
	require.NoError(t, err)
	alone.Spec.Subdomain = "meddled"
	require.True(t, equality.Semantic.DeepEqual(alone.Spec, created.Spec), "alone: %+v; meddled with: %+v", alone.Spec, created.Spec)
}

// Webhooks that send all pulls to a mirror keep the digest.
func TestAMirrorsNameForOurImageStays(t *testing.T) {
	t.Parallel()
	namespace := meddled(t, "after", func(spec *corev1.PodSpec) {
		for i, c := range spec.InitContainers {
			if name, digest, found := strings.Cut(c.Image, "@"); found && !strings.HasSuffix(name, ":mirrored") {
				spec.InitContainers[i].Image = name + ":mirrored@" + digest
			}
		}
	})
	created := createMeddled(t, namespace, askingPod("mirrored", busybox(t, "main", readlink...)), func(p *corev1.Pod) bool {
		return len(p.Spec.InitContainers) > 0 && strings.Contains(p.Spec.InitContainers[0].Image, ":mirrored@")
	})
	requireOnceOfEverything(t, created)
	require.Contains(t, created.Spec.InitContainers[0].Image, ":mirrored@")
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "mirrored").Status.Phase)
	require.Equal(t, pod.EntrypointPath+"\n", logs(t, namespace, "mirrored", "main"))
}

// The author of a pod puts a program where our init container has its own.
func TestAForgedInitContainerCopiesOurProgram(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	honest, err := wouldBecome(t, namespace, askingPod("honest", busybox(t, "main", "true")))
	require.NoError(t, err)
	requireWrapped(t, honest, "main")

	forged := askingPod("forged", busybox(t, "main", "sh", "-c", "readlink /proc/1/exe; /entrypointer/bin/entrypoint -version"))
	theirs := corev1.VolumeMount{Name: "theirs", MountPath: "/ko-app"}
	plant := busybox(t, "plant", "sh", "-c", "printf '#!/bin/sh\ncp /bin/busybox /entrypointer/bin/entrypoint' >/ko-app/copier; chmod 755 /ko-app/copier")
	plant.VolumeMounts = []corev1.VolumeMount{theirs}
	copier := honest.Spec.InitContainers[0]
	copier.VolumeMounts = []corev1.VolumeMount{{Name: pod.VolumeName, MountPath: pod.MountPath}, theirs}
	forged.Spec.InitContainers = []corev1.Container{plant, copier}
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	forged.Spec.Volumes = []corev1.Volume{{Name: pod.VolumeName, VolumeSource: empty}, {Name: "theirs", VolumeSource: empty}}

	created := createPod(t, namespace, forged)
	require.Equal(t, []corev1.VolumeMount{{Name: pod.VolumeName, MountPath: pod.MountPath}}, created.Spec.InitContainers[1].VolumeMounts)
	require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, "forged").Status.Phase)
	require.True(t, strings.HasPrefix(logs(t, namespace, "forged", "main"), pod.EntrypointPath+"\n"))
}

func TestAMountInOurPlaceIsRefusedWithBothNames(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	for _, path := range []string{"/entrypointer", "/entrypointer/bin", "/entrypointer/bin/", "/entrypointer/bin/more"} {
		p := askingPod("occupied", busybox(t, "main", "true"))
		p.Spec.Volumes = []corev1.Volume{{Name: "mine", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "mine", MountPath: path}}
		_, err := wouldBecome(t, namespace, p)
		require.ErrorContains(t, err, `"mine"`, path)
		require.ErrorContains(t, err, pod.VolumeName, path)
		require.ErrorContains(t, err, "mount it elsewhere", path)
	}
}
