// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const injectorDeployment = "/apis/apps/v1/namespaces/entrypointer-system/deployments/injector"

// labelled has the injector's Deployment say that a release was applied.
func (s *apiServer) labelled(t *testing.T, version string) {
	t.Helper()
	s.edit(t, injectorDeployment, func(o object) {
		o["metadata"].(object)["labels"].(object)["app.kubernetes.io/version"] = version
	})
}

func printed(t *testing.T, v *Versions) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, v.Print(&b))
	return b.String()
}

func TestVersionsSayWhichIsOlder(t *testing.T) {
	for own, want := range map[string]string{
		"v1.2.3": "", "v1.2.3-abcdef0": "", "devel": "",
		"v1.10.0":        "\nwarning: the cluster has v1.2.3-abcdef0, and this plugin is v1.10.0, which is newer: what it says of objects and answers may be another release's\n",
		"v1.2.3-rc.1":    "\nwarning: the cluster has v1.2.3-abcdef0, and this plugin is v1.2.3-rc.1, which is older: what it says of objects and answers may be another release's\n",
		"v1.2.3-1234567": "\nwarning: the cluster has v1.2.3-abcdef0, and this plugin is v1.2.3-1234567: what it says of objects and answers may be another release's\n",
	} {
		q := &inquiry{Client: healthy(t).client(t), own: own}
		v := q.versions(t.Context())
		require.True(t, v.AreKnown())
		require.Equal(t, "plugin       "+own+"\ninjector     v1.2.3-abcdef0 (2 replicas)\nlog service  v1.2.3-abcdef0 (1 replica)\n"+want, printed(t, v))
	}
}

func TestVersionsOfAnUpdateThatIsUnderWay(t *testing.T) {
	s := healthy(t)
	s.metrics["entrypointer-logs"] = `entrypointer_logs_build_info{version="v1.2.4"} 1` + "\n"
	q := &inquiry{Client: s.client(t), own: "v1.2.4"}
	require.Equal(t, `plugin       v1.2.4
injector     v1.2.3-abcdef0 (2 replicas)
log service  v1.2.4 (1 replica)

warning: there are replicas of v1.2.3-abcdef0, v1.2.4: an update is under way, or a part was left out of it

warning: the cluster has v1.2.3-abcdef0, and this plugin is v1.2.4, which is newer: what it says of objects and answers may be another release's
`, printed(t, q.versions(t.Context())))
}

func TestWhoMayNotAskReplicasReadsWhatWasApplied(t *testing.T) {
	s := healthy(t)
	s.labelled(t, "v1.3.0")
	delete(s.objects, "/apis/apps/v1/namespaces/entrypointer-logs/deployments/logs")
	s.forbidden = func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/proxy/metrics") }
	q := &inquiry{Client: s.client(t), own: "v1.2.3"}
	v := q.versions(t.Context())
	require.True(t, v.AreKnown())
	require.Equal(t, `plugin       v1.2.3
injector     v1.3.0, as its Deployment says
             the version of a replica of the injector is unknown: you may not get pods/proxy -n entrypointer-system
log service  isn't installed

warning: the cluster has v1.3.0, and this plugin is v1.2.3, which is older: what it says of objects and answers may be another release's
`, printed(t, v))
}

func TestTheVersionOfAReplicaThatDoesNotTellIsUnknown(t *testing.T) {
	s := healthy(t)
	s.metrics["entrypointer-system"] = "up 1\n"
	q := &inquiry{Client: s.client(t), own: "v1.2.3"}
	v := q.versions(t.Context())
	require.False(t, v.AreKnown())
	require.Contains(t, printed(t, v), "injector     unknown\n             pod injector-1 doesn't tell entrypointer_build_info\n")
}

// A checkout has the files that ko applies, and a release has others.
func TestTheCommandThatMendsAnInstallIsThatOfItsKind(t *testing.T) {
	noted := func(t *testing.T, name string) *apiServer {
		t.Helper()
		s := healthy(t)
		s.edit(t, injectorDeployment, func(o object) {
			o["metadata"].(object)["annotations"] = object{"meta.helm.sh/release-name": name, "meta.helm.sh/release-namespace": "default"}
		})
		return s
	}
	for name, test := range map[string]struct {
		cluster   *apiServer
		own, want string
	}{
		"a checkout":             {healthy(t), "v1.2.3-abcdef0", "ko apply -f config/webhook"},
		"an unknown checkout":    {healthy(t), "devel", "ko apply -f config/webhook"},
		"a release":              {healthy(t), "v1.2.3", "kubectl apply -f webhook.yaml"},
		"a chart":                {noted(t, "mine"), "v1.2.3-rc.1", "helm upgrade mine entrypointer-1.2.3-rc.1.tgz --namespace default --reset-then-reuse-values"},
		"a checkout on a chart":  {noted(t, "mine"), "devel", "ko apply -f config/webhook"},
		"a name that is no name": {noted(t, "$(touch pwned)"), "v1.2.3", ""},
	} {
		delete(test.cluster.objects, "/api/v1/namespaces/entrypointer-system/services/entrypointer-webhook")
		got := checkPart("webhook")(t.Context(), &inquiry{Client: test.cluster.client(t), own: test.own})
		require.Equal(t, []Finding{{State: Failed, Message: "Service entrypointer-system/entrypointer-webhook doesn't exist", Next: test.want}}, got.findings, name)
	}
}
