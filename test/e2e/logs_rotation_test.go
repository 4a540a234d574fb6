// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && slow

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/pkg/pod"
)

// A kubelet renews a token when four fifths of its time are over, and an API server
// gives none for less than ten minutes.
const shortestToken = 10 * time.Minute

func TestWhatIsPrintedBeforeAndAfterTheKubeletRenewsTheTokenIsStored(t *testing.T) {
	t.Parallel()
	service := logService(t)
	// Where the webhook doesn't look, a pod may have a token for a shorter time.
	wrapping, _ := logsNamespace(t, "stream")
	p, err := wouldBecome(t, wrapping, askingPod("prints", busybox(t, "main", "sh", "-c", `
		token=/entrypointer/token/token before=$(md5sum <$token) i=0
		while [ $i -lt 660 ]; do
			i=$((i+1)); echo "line $i"
			[ "$(md5sum <$token)" = "$before" ] || changed=$((changed+1))
			sleep 1
		done
		echo "$changed lines came after the first token" >&2`)))
	require.NoError(t, err)
	namespace := plainNamespace(t)
	token := reader(t, namespace, "may", true)
	seconds := int64(shortestToken.Seconds())
	for _, v := range p.Spec.Volumes {
		if v.Name == pod.TokenVolumeName {
			v.Projected.Sources[0].ServiceAccountToken.ExpirationSeconds = &seconds
		}
	}
	p.Spec.Volumes, p.Spec.Containers = withoutServiceAccount(p)
	created := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.Name}, Spec: p.Spec}
	createPod(t, namespace, created)
	time.Sleep(shortestToken)
	waitUntilDone(t, namespace, p.Name)
	texts := service.stored(token, namespace, p.Name, "main")
	var want strings.Builder
	for i := range 660 {
		fmt.Fprintf(&want, "line %d\n", i+1)
	}
	require.Equal(t, want.String(), texts["main stdout"])
	after, _, _ := strings.Cut(texts["main stderr"], " ")
	require.Regexp(t, `^[1-9]\d*$`, after, "the token was renewed")
}

// withoutServiceAccount are a pod's volumes and containers without what the API server
// has added for its service account, and will again.
func withoutServiceAccount(p *corev1.Pod) (volumes []corev1.Volume, containers []corev1.Container) {
	for _, v := range p.Spec.Volumes {
		if !strings.HasPrefix(v.Name, "kube-api-access-") {
			volumes = append(volumes, v)
		}
	}
	for _, c := range p.Spec.Containers {
		var mounts []corev1.VolumeMount
		for _, m := range c.VolumeMounts {
			if !strings.HasPrefix(m.Name, "kube-api-access-") {
				mounts = append(mounts, m)
			}
		}
		c.VolumeMounts = mounts
		containers = append(containers, c)
	}
	return volumes, containers
}
