// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package autodelivery

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files")

// test/apiserver shows this file to PodSecurity and to the policy of config/auto.
func TestACanaryIsAsTheGoldenFileHasIt(t *testing.T) {
	of := func(name, digit string) string {
		return "registry.example.test:5000/" + name + "@sha256:" + strings.Repeat(digit, 64)
	}
	pinned := Images{Entrypoint: of("entrypoint", "1"), WithLogs: of("entrypoint-with-logs", "2")}
	p := canary(Canaries[0], home, "node", &question{id: fits.question(pinned), system: fits}, pinned,
		metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: ProofsName, UID: "uid-of-proofs"})
	text, err := json.MarshalIndent(p, "", "  ")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("testdata/canary.json", append(text, '\n'), 0o644))
	}
	golden, err := os.ReadFile("testdata/canary.json")
	require.NoError(t, err)
	require.JSONEq(t, string(golden), string(text), "run the test with -update")
}

// What is granted is about these names.
func TestTheNamesOfCanariesAreThoseThatAreGranted(t *testing.T) {
	text, err := os.ReadFile("../../config/auto/200-rbac.yaml")
	require.NoError(t, err)
	for _, name := range Canaries {
		require.Contains(t, string(text), name)
	}
	require.Contains(t, string(text), "["+strings.Join(Canaries, ", ")+"]")
	require.Contains(t, string(text), "["+ProofsName+"]")
	text, err = os.ReadFile("../../config/auto/300-delivery-proofs.yaml")
	require.NoError(t, err)
	var proofs corev1.ConfigMap
	require.NoError(t, yaml.Unmarshal(text, &proofs))
	require.Equal(t, ProofsName, proofs.Name)
	require.Nil(t, proofs.Data, "applying it again forgets nothing")
}

func TestTheResultOfACanary(t *testing.T) {
	waiting := []corev1.ContainerStatus{{Name: "entrypoint", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
	for what, test := range map[string]struct {
		status corev1.PodStatus
		age    time.Duration
		want   result
		says   string
	}{
		"it hasn't been seen by a kubelet": {corev1.PodStatus{}, 0, started, ""},
		"it waits":                         {corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waiting}, time.Minute, started, ""},
		"it runs":                          {corev1.PodStatus{Phase: corev1.PodRunning}, canaryPatience, started, ""},
		"it has run":                       {succeeded, time.Hour, proven, ""},
		"there is no kubelet":              {corev1.PodStatus{}, canaryPatience + 1, failed, "it didn't run within 2m0s"},
		"it can't pull":                    {corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: waiting}, canaryPatience + 1, failed, "it didn't run within 2m0s: container entrypoint: ImagePullBackOff"},
		"it took too long":                 {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "DeadlineExceeded", ContainerStatuses: waiting}, 0, failed, "DeadlineExceeded; container entrypoint: ImagePullBackOff"},
		"the node is full":                 {corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfpods", Message: "Node didn't have enough resource"}, 0, failed, "OutOfpods: Node didn't have"},
		"the binary isn't there":           {notFound, 0, failed, "container entrypoint ended with 128: StartError: exec: no such file"},
		"no reason":                        {corev1.PodStatus{Phase: corev1.PodFailed}, 0, failed, "its kubelet gives no reason"},
	} {
		got, says := resultOf(&corev1.Pod{Status: test.status}, test.age)
		require.Equal(t, test.want, got, what)
		require.Contains(t, says, test.says, what)
	}
}
