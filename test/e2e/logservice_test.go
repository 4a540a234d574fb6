// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/test/framework"
)

// A logClient talks to the log service, which it knows by the pinned CA alone.
type logClient struct {
	t       *testing.T
	client  *http.Client
	address string
}

func logService(t *testing.T) *logClient {
	t.Helper()
	require.NoError(t, cluster.WaitForDeployment(t.Context(), endpoint.Namespace, framework.LogService))
	e, err := cluster.LogEndpoint(t.Context())
	require.NoError(t, err)
	require.Equal(t, "https://logs.entrypointer-logs.svc", e.Address)
	client, err := cluster.LogClient(t.Context(), framework.LogPort)
	require.NoError(t, err)
	return &logClient{t, client, e.Address}
}

// do sends a request. Headers are keys and values in turn.
func (c *logClient) do(method, path, token, body string, headers ...string) (status int, answer string) {
	c.t.Helper()
	status, answer, err := c.try(method, path, token, body, headers...)
	require.NoError(c.t, err)
	return status, answer
}

func (c *logClient) try(method, path, token, body string, headers ...string) (status int, answer string, err error) {
	request, err := http.NewRequestWithContext(c.t.Context(), method, c.address+path, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Authorization", "Bearer "+token)
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := c.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	all, err := io.ReadAll(response.Body)
	return response.StatusCode, string(all), err
}

// stream makes one, and returns its path.
func (c *logClient) stream(token, body string) string {
	c.t.Helper()
	status, answer := c.do(http.MethodPost, "/logs", token, body)
	require.Equal(c.t, http.StatusOK, status, answer)
	var made struct{ ID string }
	require.NoError(c.t, json.Unmarshal([]byte(answer), &made))
	return "/logs/" + made.ID
}

// patch writes at an offset.
func (c *logClient) patch(path, token, data, contentRange string) (status int, answer string) {
	c.t.Helper()
	return c.do(http.MethodPatch, path+"/data", token, data, "Content-Range", contentRange, "Content-Type", "application/octet-stream")
}

// text is what somebody reads of a stream.
func (c *logClient) text(path, token string) string {
	c.t.Helper()
	status, answer := c.do(http.MethodGet, path+"/data", token, "")
	require.Equal(c.t, http.StatusOK, status, answer)
	return answer
}

func tokenOf(t *testing.T, namespace, account, audience string, p *corev1.Pod) string {
	t.Helper()
	token, err := cluster.TokenOf(t.Context(), namespace, account, audience, p)
	require.NoError(t, err)
	return token
}

// reader makes a service account, which may read logs in its namespace if it is
// bound, and returns a token of it.
func reader(t *testing.T, namespace, name string, bound bool) string {
	t.Helper()
	_, err := cluster.Kube.CoreV1().ServiceAccounts(namespace).Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	require.NoError(t, err)
	if bound {
		_, err = cluster.Kube.RbacV1().RoleBindings(namespace).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: namespace}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		}, metav1.CreateOptions{})
		require.NoError(t, err)
	}
	return tokenOf(t, namespace, name, "", nil)
}

func TestAPodsLogsAreWrittenByItAndReadByWhoMay(t *testing.T) {
	t.Parallel()
	service, namespace := logService(t), plainNamespace(t)
	prints := createPod(t, namespace, plainPod("prints", busybox(t, "main", forever...)))
	other := createPod(t, namespace, plainPod("other", busybox(t, "main", forever...)))
	waitUntilRunning(t, namespace, "prints")
	token := tokenOf(t, namespace, "default", endpoint.Audience, prints)

	path := service.stream(token, `{"name":"stdout","container":"main","start":"1"}`)
	for _, part := range []struct{ data, at string }{{"world\n", "bytes 6-11/12"}, {"hello ", "bytes 0-5/*"}} {
		status, answer := service.patch(path, token, part.data, part.at)
		require.Equal(t, http.StatusAccepted, status, answer)
	}

	// Who may not write.
	for name, test := range map[string]struct {
		token  string
		status int
	}{
		"another pod's token": {tokenOf(t, namespace, "default", endpoint.Audience, other), http.StatusNotFound},
		"another audience's":  {tokenOf(t, namespace, "default", "vault", prints), http.StatusUnauthorized},
		"the API server's":    {tokenOf(t, namespace, "default", "", prints), http.StatusUnauthorized},
		"one of no pod":       {tokenOf(t, namespace, "default", endpoint.Audience, nil), http.StatusUnauthorized},
		"a forged one":        {token[:len(token)-8] + "AAAAAAAA", http.StatusUnauthorized},
	} {
		status, answer := service.patch(path, test.token, "x", "bytes 0-0/*")
		require.Equal(t, test.status, status, "%s: %s", name, answer)
	}

	// Who may read.
	may, mayNot := reader(t, namespace, "may", true), reader(t, namespace, "may-not", false)
	list := fmt.Sprintf("/logs?namespace=%s&pod=prints", namespace)
	eventually(t, 30*time.Second, "the RoleBinding to be heard of", func() error {
		status, answer, err := service.try(http.MethodGet, list, may, "")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("%d: %s", status, answer)
		}
		return err
	})
	require.Equal(t, "hello world\n", service.text(path, may))
	_, answer := service.do(http.MethodGet, list, may, "")
	require.JSONEq(t, fmt.Sprintf(`{"logs":[{"id":%q,"name":"stdout","container":"main","start":"1","pod":"prints","namespace":%q,"podUID":%q}]}`,
		strings.TrimPrefix(path, "/logs/"), namespace, prints.UID), answer)
	for _, what := range []string{path, path + "/data", list} {
		status, answer := service.do(http.MethodGet, what, mayNot, "")
		require.Equal(t, http.StatusForbidden, status, answer)
		status, answer = service.do(http.MethodGet, what, token, "")
		require.Equal(t, http.StatusUnauthorized, status, answer, "what writes doesn't read")
	}

	// The pod is gone, its log stays. It begins no stream any more, and what its token writes
	// meanwhile changes nothing that is stored.
	unused := tokenOf(t, namespace, "default", endpoint.Audience, prints) // the service knows nothing of it yet
	now := int64(0)
	require.NoError(t, cluster.Kube.CoreV1().Pods(namespace).Delete(t.Context(), "prints", metav1.DeleteOptions{GracePeriodSeconds: &now}))
	waitUntilPodIsGone(t, namespace, "prints")
	service.patch(path, unused, "x", "bytes 0-0/*")
	eventually(t, 2*time.Minute, "the pod to begin no stream any more", func() error {
		status, answer, err := service.try(http.MethodPost, "/logs", unused, `{"name":"late","container":"main","start":"1"}`)
		if err == nil && status != http.StatusUnauthorized {
			err = fmt.Errorf("%d: %s", status, answer)
		}
		return err
	})
	require.Equal(t, "hello world\n", service.text(path, may))
}

// Of the tests that take something down, this one comes before all that run in parallel.
func TestLogsOutliveTheLogServicesReplica(t *testing.T) {
	service, namespace := logService(t), plainNamespace(t)
	prints := createPod(t, namespace, plainPod("prints", busybox(t, "main", forever...)))
	waitUntilRunning(t, namespace, "prints")
	token, admin := tokenOf(t, namespace, "default", endpoint.Audience, prints), reader(t, namespace, "may", true)
	path := service.stream(token, `{"name":"stdout"}`)
	status, answer := service.patch(path, token, "before\n", "bytes 0-6/*")
	require.Equal(t, http.StatusAccepted, status, answer)
	before, err := cluster.LogEndpoint(t.Context())
	require.NoError(t, err)

	former, err := cluster.LogServicePod(t.Context())
	require.NoError(t, err)

	// What says where it is comes back with the next replica.
	require.NoError(t, cluster.Kube.CoreV1().ConfigMaps(endpoint.Namespace).Delete(t.Context(), endpoint.ConfigMap, metav1.DeleteOptions{}))
	restart := fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"e2e.entrypointer.dev/restarted":%q}}}}}`, time.Now().Format(time.RFC3339Nano))
	_, err = cluster.Kube.AppsV1().Deployments(endpoint.Namespace).Patch(t.Context(), framework.LogService, types.StrategicMergePatchType, restart, metav1.PatchOptions{})
	require.NoError(t, err)
	eventually(t, patience, "another replica", func() error {
		pod, err := cluster.LogServicePod(t.Context())
		if err == nil && pod.UID == former.UID {
			err = errors.New("the former one is there")
		}
		return err
	})
	eventually(t, time.Minute, "the ConfigMap", func() error {
		after, err := cluster.LogEndpoint(t.Context())
		if err == nil && after != before {
			err = framework.Permanent(fmt.Errorf("the endpoint was %v, and is %v", before, after))
		}
		return err
	})

	service = logService(t)
	require.Equal(t, path, service.stream(token, `{"name":"stdout"}`), "the ID is the same")
	status, answer = service.patch(path, token, "after\n", "bytes 7-12/13")
	require.Equal(t, http.StatusAccepted, status, answer)
	require.Equal(t, "before\nafter\n", service.text(path, admin))
	waitUntilInjectorsKnowTheLogService(t)
}

// waitUntilInjectorsKnowTheLogService waits for those that have looked while its
// ConfigMap wasn't there. They look every 10 s. Which of them answers is chance, so
// there have to be many answers in a row.
func waitUntilInjectorsKnowTheLogService(t *testing.T) {
	t.Helper()
	namespace, _ := logsNamespace(t, "stream")
	const inARow = 20
	eventually(t, time.Minute, "all injectors to know the log service", func() error {
		for range inARow {
			seen, err := wouldBecome(t, namespace, askingPod("asks", busybox(t, "main", "true")))
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(seen.Spec.Containers[0].Args, func(arg string) bool { return strings.HasPrefix(arg, "-logs=") }) {
				return fmt.Errorf("one of them makes of a pod's arguments %q", seen.Spec.Containers[0].Args)
			}
		}
		return nil
	})
}

func TestTheLogServiceMayDoNoMoreThanItHasTo(t *testing.T) {
	t.Parallel()
	const user = "system:serviceaccount:" + endpoint.Namespace + ":logs"
	for _, namespace := range []string{endpoint.Namespace, metav1.NamespaceDefault} {
		lines := strings.Join(allowed(t, user, namespace), "\n")
		require.Contains(t, lines, "tokenreviews.authentication.k8s.io [] [] [create]")
		require.Contains(t, lines, "subjectaccessreviews.authorization.k8s.io [] [] [create]")
		if namespace == endpoint.Namespace {
			require.Contains(t, lines, "secrets [] [log-service-ca] [get]")
			require.Contains(t, lines, "secrets [] [] [create]")
			require.Contains(t, lines, "configmaps [] [log-service] [create patch]")
			require.Contains(t, lines, "configmaps [] [config-logs] [get]")
			require.Equal(t, 2, strings.Count(lines, "secrets "))
		} else {
			require.NotContains(t, lines, "secrets")
			require.NotContains(t, lines, "configmaps")
		}
		require.Contains(t, lines, "apiservices.apiregistration.k8s.io [] [v1alpha1.logs.entrypointer.dev] [get patch]")
		require.Equal(t, 1, strings.Count(lines, "apiservices"))
		require.NotContains(t, lines, "pods")
	}
}
