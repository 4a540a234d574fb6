// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The kubelet looks every ten seconds at what pods use of the disk. What the
// supervisor takes there, it would take from a pod that uses nearly all that it may.
func TestAPodWhoseDiskIsLimitedIsNotEvictedForTheEntrypoint(t *testing.T) {
	t.Parallel()
	both := newPair(t)
	limits := map[string]string{"1Mi": "true", "200Mi": "dd if=/dev/zero of=/tmp/most bs=1M count=199"}
	for limit, use := range limits {
		p := askingPod("limited-"+strings.ToLower(limit), busybox(t, "main", "sh", "-c", "readlink /proc/1/exe; "+use+"; sleep 45"))
		p.Spec.Containers[0].Resources = guaranteed("cpu", "10m", "memory", "32Mi", "ephemeral-storage", limit)
		_, wrapped := both.create(t, p)
		requireWrapped(t, wrapped, "main")
	}
	for limit := range limits {
		for _, namespace := range []string{both.plain, both.optedIn} {
			done := waitUntilDone(t, namespace, "limited-"+strings.ToLower(limit))
			require.Equal(t, corev1.PodSucceeded, done.Status.Phase, "%s: %s", done.Status.Reason, done.Status.Message)
			require.Equal(t, corev1.PodQOSGuaranteed, done.Status.QOSClass)
		}
	}
}

// resources are a list of resources: names and quantities in turn.
func resources(words ...string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for i := 0; i+1 < len(words); i += 2 {
		list[corev1.ResourceName(words[i])] = resource.MustParse(words[i+1])
	}
	return list
}

// guaranteed are requests and limits that are the same.
func guaranteed(words ...string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: resources(words...), Limits: resources(words...)}
}

func TestAGuaranteedPodStaysGuaranteedAndWithinItsQuota(t *testing.T) {
	t.Parallel()
	namespace := optedInNamespace(t)
	createQuota(t, namespace, corev1.ResourceQuotaSpec{Hard: resources(
		"requests.cpu", "150m", "limits.cpu", "150m", "requests.memory", "96Mi", "limits.memory", "96Mi",
		"requests.ephemeral-storage", "48Mi", "pods", "1")})
	p := askingPod("guaranteed", busybox(t, "small", "true"), busybox(t, "large", "true"))
	p.Spec.Containers[0].Resources = guaranteed("cpu", "50m", "memory", "64Mi", "ephemeral-storage", "16Mi")
	p.Spec.Containers[1].Resources = guaranteed("cpu", "100m", "memory", "32Mi", "ephemeral-storage", "32Mi")
	createOnceAllowed(t, namespace, p)
	done := waitUntilDone(t, namespace, "guaranteed")
	require.Equal(t, corev1.PodQOSGuaranteed, done.Status.QOSClass)
	require.Equal(t, corev1.PodSucceeded, done.Status.Phase)
	requireWrapped(t, done, "small", "large")
}

func createQuota(t *testing.T, namespace string, spec corev1.ResourceQuotaSpec) {
	t.Helper()
	_, err := cluster.Kube.CoreV1().ResourceQuotas(namespace).Create(t.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "quota-"}, Spec: spec,
	}, metav1.CreateOptions{})
	require.NoError(t, err)
}

// createOnceAllowed waits until a quota or a limit range is in force.
func createOnceAllowed(t *testing.T, namespace string, p *corev1.Pod) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("namespace %q to admit pod %q", namespace, p.Name), func() error {
		_, err := cluster.Kube.CoreV1().Pods(namespace).Create(t.Context(), p, metav1.CreateOptions{})
		return err
	})
}

// What a quota has counted is what the cluster thinks that pods cost.
func TestWhatPodsCostIsWhatTheyCostUnwrapped(t *testing.T) {
	t.Parallel()
	both := newPair(t)
	overhead := runtimeClass(t, resources("cpu", "30m", "memory", "20Mi"))
	variants := map[string]struct {
		class  corev1.PodQOSClass
		change func(*corev1.PodSpec)
	}{
		"guaranteed": {corev1.PodQOSGuaranteed, func(spec *corev1.PodSpec) {
			spec.Containers[0].Resources = guaranteed("cpu", "20m", "memory", "40Mi")
			spec.Containers[1].Resources = guaranteed("cpu", "30m", "memory", "20Mi")
		}},
		"burstable": {corev1.PodQOSBurstable, func(spec *corev1.PodSpec) {
			spec.Containers[0].Resources = corev1.ResourceRequirements{
				Requests: resources("cpu", "10m", "memory", "20Mi"), Limits: resources("cpu", "90m", "memory", "30Mi"),
			}
			spec.Containers[1].Resources = corev1.ResourceRequirements{
				Requests: resources("cpu", "11m", "memory", "10Mi"), Limits: resources("cpu", "12m", "memory", "90Mi"),
			}
		}},
		"best-effort": {corev1.PodQOSBestEffort, func(*corev1.PodSpec) {}},
		"of-the-pod": {corev1.PodQOSGuaranteed, func(spec *corev1.PodSpec) {
			whole := guaranteed("cpu", "60m", "memory", "60Mi")
			spec.Resources = &whole
		}},
		"of-the-pod-and-a-container": {corev1.PodQOSBurstable, func(spec *corev1.PodSpec) {
			spec.Resources = &corev1.ResourceRequirements{
				Requests: resources("cpu", "50m", "memory", "50Mi"), Limits: resources("cpu", "70m", "memory", "70Mi"),
			}
			spec.Containers[1].Resources = guaranteed("cpu", "40m", "memory", "40Mi")
		}},
		"with-overhead": {corev1.PodQOSGuaranteed, func(spec *corev1.PodSpec) {
			spec.RuntimeClassName = &overhead
			spec.Containers[0].Resources = guaranteed("cpu", "20m", "memory", "20Mi")
			spec.Containers[1].Resources = guaranteed("cpu", "20m", "memory", "20Mi")
		}},
		"with-an-init-container": {corev1.PodQOSGuaranteed, func(spec *corev1.PodSpec) {
			large := busybox(t, "prepares", "true")
			large.Resources = guaranteed("cpu", "80m", "memory", "80Mi")
			spec.InitContainers = []corev1.Container{large}
			spec.Containers[0].Resources = guaranteed("cpu", "20m", "memory", "20Mi")
			spec.Containers[1].Resources = guaranteed("cpu", "20m", "memory", "20Mi")
		}},
	}
	for _, namespace := range []string{both.plain, both.optedIn} {
		createQuota(t, namespace, corev1.ResourceQuotaSpec{
			Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeNotBestEffort},
			Hard:   resources("pods", "100", "requests.cpu", "10", "limits.cpu", "10", "requests.memory", "10Gi", "limits.memory", "10Gi"),
		})
		createQuota(t, namespace, corev1.ResourceQuotaSpec{
			Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopeBestEffort}, Hard: resources("pods", "100"),
		})
	}
	for name, variant := range variants {
		p := askingPod(name, busybox(t, "first", forever...), busybox(t, "second", forever...))
		variant.change(&p.Spec)
		for _, namespace := range []string{both.plain, both.optedIn} {
			createOnceAllowed(t, namespace, p)
		}
	}
	for name, variant := range variants {
		plain, wrapped := waitUntilRunning(t, both.plain, name), waitUntilRunning(t, both.optedIn, name)
		requireWrapped(t, wrapped, "first", "second")
		require.Equal(t, variant.class, plain.Status.QOSClass, name)
		require.Equal(t, variant.class, wrapped.Status.QOSClass, name)
		require.Equal(t, plain.Spec.Overhead, wrapped.Spec.Overhead, name)
		for i, c := range plain.Spec.Containers {
			require.Equal(t, c.Resources, wrapped.Spec.Containers[i].Resources, "container %s of %s", c.Name, name)
		}
	}
	require.Equal(t, counted(t, both.plain, len(variants)), counted(t, both.optedIn, len(variants)))
}

// runtimeClass is one whose pods cost something by themselves.
func runtimeClass(t *testing.T, overhead corev1.ResourceList) string {
	t.Helper()
	classes := cluster.Kube.NodeV1().RuntimeClasses()
	class, err := classes.Create(t.Context(), &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: map[string]string{ours: "true"}},
		Handler:    "runc",
		Overhead:   &nodev1.Overhead{PodFixed: overhead},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := classes.Delete(context.Background(), class.Name, metav1.DeleteOptions{}); err != nil {
			t.Logf("deleting runtime class %q: %v", class.Name, err)
		}
	})
	return class.Name
}

// counted is what the quotas of a namespace have counted, once it is so many pods.
func counted(t *testing.T, namespace string, pods int) (all []string) {
	t.Helper()
	eventually(t, time.Minute, fmt.Sprintf("the quotas of namespace %q to count %d pods", namespace, pods), func() error {
		quotas, err := cluster.Kube.CoreV1().ResourceQuotas(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		all = nil
		var sum int64
		for _, quota := range quotas.Items {
			sum += quota.Status.Used.Pods().Value()
			for _, name := range []string{"pods", "requests.cpu", "limits.cpu", "requests.memory", "limits.memory"} {
				if used, ok := quota.Status.Used[corev1.ResourceName(name)]; ok {
					all = append(all, fmt.Sprintf("%v %s %s", quota.Spec.Scopes, name, used.String()))
				}
			}
		}
		if sum != int64(pods) {
			return fmt.Errorf("they count %d", sum)
		}
		return nil
	})
	slices.Sort(all)
	return all
}

func TestALimitRangeAdmitsDefaultsAndRefusesAsUnwrapped(t *testing.T) {
	t.Parallel()
	both := newPair(t)
	for _, namespace := range []string{both.plain, both.optedIn} {
		_, err := cluster.Kube.CoreV1().LimitRanges(namespace).Create(t.Context(), &corev1.LimitRange{
			ObjectMeta: metav1.ObjectMeta{Name: "range"},
			Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
				{
					Type: corev1.LimitTypeContainer,
					Min:  resources("cpu", "10m", "memory", "8Mi"), Max: resources("cpu", "100m", "memory", "64Mi"),
					DefaultRequest: resources("cpu", "20m", "memory", "16Mi"), Default: resources("cpu", "40m", "memory", "32Mi"),
					MaxLimitRequestRatio: resources("cpu", "2", "memory", "2"),
				},
				// What two containers may have at most, and a little less than that at least.
				{Type: corev1.LimitTypePod, Min: resources("cpu", "40m", "memory", "24Mi"), Max: resources("cpu", "200m", "memory", "128Mi")},
			}},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
		eventually(t, time.Minute, fmt.Sprintf("the limit range of namespace %q to be in force", namespace), func() error {
			seen, err := wouldBecome(t, namespace, askingPod("probe", busybox(t, "first", "true"), busybox(t, "second", "true")))
			if err == nil && len(seen.Spec.Containers[0].Resources.Limits) == 0 {
				return errors.New("it is not")
			}
			return err
		})
	}
	first, second := guaranteed("cpu", "100m", "memory", "8Mi"), guaranteed("cpu", "10m", "memory", "64Mi")
	admitted := map[string][2]corev1.ResourceRequirements{
		"defaults": {},
		"mixed":    {first, {}},
		"extremes": {first, second},
		"requests": {{Requests: resources("cpu", "30m", "memory", "20Mi")}, {}},
		"limits":   {{Limits: resources("cpu", "30m", "memory", "20Mi")}, {}},
	}
	for name, each := range admitted {
		p := askingPod(name, busybox(t, "first", "true"), busybox(t, "second", "true"))
		p.Spec.Containers[0].Resources, p.Spec.Containers[1].Resources = each[0], each[1]
		plain, wrapped := both.create(t, p)
		for i, c := range plain.Spec.Containers {
			require.Equal(t, c.Resources, wrapped.Spec.Containers[i].Resources, "container %s of %s", c.Name, name)
		}
		require.Equal(t, plain.Status.QOSClass, wrapped.Status.QOSClass, name)
	}
	for name := range admitted {
		require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, both.optedIn, name).Status.Phase, name)
	}
	for name, change := range map[string]func(*corev1.PodSpec){
		"too-little": func(spec *corev1.PodSpec) { spec.Containers[0].Resources = guaranteed("cpu", "1m") },
		"too-much":   func(spec *corev1.PodSpec) { spec.Containers[0].Resources = guaranteed("memory", "1Gi") },
		"too-wide": func(spec *corev1.PodSpec) {
			spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: resources("cpu", "10m"), Limits: resources("cpu", "90m")}
		},
		"too-small": func(spec *corev1.PodSpec) { spec.Containers = spec.Containers[:1] },
		"too-large": func(spec *corev1.PodSpec) {
			for i := range spec.Containers {
				spec.Containers[i].Resources = guaranteed("cpu", "100m")
			}
			spec.Containers = append(spec.Containers, busybox(t, "third", "true"))
		},
	} {
		p := askingPod(name, busybox(t, "first", "true"), busybox(t, "second", "true"))
		change(&p.Spec)
		requireRefusedAlike(t, both, p)
	}
}

// requireRefusedAlike creates a pod in vain, and compares what its author reads.
func requireRefusedAlike(t *testing.T, both pair, p *corev1.Pod) {
	t.Helper()
	_, plain := wouldBecome(t, both.plain, p)
	require.Error(t, plain, p.Name)
	_, wrapped := wouldBecome(t, both.optedIn, p)
	require.Error(t, wrapped, p.Name)
	require.Equal(t, objections(plain, both.plain), objections(wrapped, both.optedIn), p.Name)
}

// objections are the parts of an error, sorted: some come in any order.
func objections(err error, namespace string) []string {
	text := strings.NewReplacer(namespace, "NAMESPACE", "[", "", "]", "").Replace(err.Error())
	_, list, _ := strings.Cut(text, "forbidden: ")
	parts := strings.Split(list, ", ")
	slices.Sort(parts)
	return parts
}

func TestAPodThatTakesTheLastDeviceOfANodeRuns(t *testing.T) {
	t.Parallel()
	const device = "e2e.entrypointer.dev/device"
	nodes := cluster.Kube.CoreV1().Nodes()
	node := aWorker(t).Name
	set := func(ctx context.Context, count string) {
		patch := fmt.Appendf(nil, `{"status":{"capacity":{%q:%s}}}`, device, count)
		_, err := nodes.Patch(ctx, node, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
		require.NoError(t, err)
	}
	set(t.Context(), `"1"`)
	t.Cleanup(func() { set(context.Background(), "null") })

	both := newPair(t)
	p := askingPod("last", busybox(t, "main", "true"))
	p.Spec.Containers[0].Resources = guaranteed(device, "1")
	// One after the other: there is no second device.
	for _, namespace := range []string{both.plain, both.optedIn} {
		createPod(t, namespace, p)
		require.Equal(t, corev1.PodSucceeded, waitUntilDone(t, namespace, p.Name).Status.Phase)
	}
	wrapped, err := cluster.Kube.CoreV1().Pods(both.optedIn).Get(t.Context(), p.Name, metav1.GetOptions{})
	require.NoError(t, err)
	requireWrapped(t, wrapped, "main")
	asked := wrapped.Spec.InitContainers[0].Resources.Limits[device]
	require.True(t, asked.IsZero(), "the init container would hold %s", asked.String())
}
