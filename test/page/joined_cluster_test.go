// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e && slow

package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
)

// joinedWithin bounds the time in which the log service joins the objects of a stream and deletes what
// was joined: objects are five minutes old when they are joined, the joined one is five minutes old when
// they are deleted, and all streams are swept every five minutes.
const joinedWithin = 25 * time.Minute

// looksManifest is a pod that sees the objects of the log service on its volume.
const looksManifest = `
apiVersion: v1
kind: Pod
metadata:
  name: looks
  namespace: ` + endpoint.Namespace + `
spec:
  affinity:
    podAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
        - topologyKey: kubernetes.io/hostname
          labelSelector: {matchLabels: {app.kubernetes.io/name: logs}}
  securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
  terminationGracePeriodSeconds: 0
  containers:
    - name: main
      image: busybox:1.37
      command: [sleep, 1h]
      securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
      volumeMounts: [{name: logs, mountPath: /logs, readOnly: true}]
  volumes: [{name: logs, persistentVolumeClaim: {claimName: logs}}]
`

// TestALinkToALineOfTheClusterSurvivesTheJoiningOfItsStream takes a link to a line of a stream of some
// hundred objects, and opens it once the log service has joined and deleted these.
func TestALinkToALineOfTheClusterSurvivesTheJoiningOfItsStream(t *testing.T) {
	if run(t, "kubectl", "-n", endpoint.Namespace, "get", "pvc/logs", "--ignore-not-found", "-o", "name") == "" {
		t.Skip("the log service has a bucket, and no volume to look into")
	}
	of := ofTheCluster(t)
	require.NoError(t, of.create("joins.yaml"))
	t.Cleanup(func() {
		_, err := command("", "kubectl", "-n", endpoint.Namespace, "delete", "pod/looks", "--ignore-not-found")
		require.NoError(t, err)
	})
	applies(t, looksManifest)
	run(t, "kubectl", "-n", endpoint.Namespace, "wait", "pod/looks", "--for=condition=Ready", "--timeout=2m")
	of.run(t, "wait", "pod/joins", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=4m")
	b := newChromium(t)
	b.visit(t, of.page+"pod/joins/", `document.querySelector(".log .count")?.textContent === "200 lines."`)
	b.search(t, "line 123.")
	link := value[string](t, b, `document.querySelector(".log .current a.n").href`)
	b.visit(t, "about:blank", `true`)

	_, stream, found := strings.Cut(link, "#log=")
	require.True(t, found, link)
	stream, _, _ = strings.Cut(stream, ":")
	objects := func() int {
		return len(strings.Fields(run(t, "kubectl", "-n", endpoint.Namespace, "exec", "looks", "--", "find", "/logs/streams/"+stream, "-type", "f")))
	}
	require.Greater(t, objects(), 120, "lines come second by second")
	for began := time.Now(); objects() > 10; time.Sleep(10 * time.Second) {
		require.Less(t, time.Since(began), joinedWithin, "the objects of the stream are joined and deleted")
	}
	inBrowsers(t, func(t *testing.T, b *browser) {
		b.visit(t, link, `document.querySelector(".log .target .t")?.textContent === "line 123."`)
		b.await(t, `document.querySelector(".log .count").textContent === "200 lines."`)
	})
}
