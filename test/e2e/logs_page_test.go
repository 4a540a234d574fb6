// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/logs/endpoint"
	"github.com/entrypointer/entrypointer/internal/logs/identity"
	"github.com/entrypointer/entrypointer/internal/logs/pageserver"
	"github.com/entrypointer/entrypointer/internal/page/pagetest"
)

// TestThePageBehindAProxyShowsToEachUserWhatTheAPIServerAllows runs the page as the log service
// does, behind a proxy that hands on the token of its session, against the API server and the log
// service of the cluster.
func TestThePageBehindAProxyShowsToEachUserWhatTheAPIServerAllows(t *testing.T) {
	t.Parallel()
	require.NoError(t, cluster.WaitForDeployment(t.Context(), endpoint.Namespace, "logs"))
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	pages := pageserver.New(pageserver.Options{
		Config: cluster.Config, Reviewer: identity.New(cluster.Kube, logger), Logger: logger, Directory: t.TempDir(), Disk: 64 << 20,
	})
	t.Cleanup(pages.Close)
	server := httptest.NewTLSServer(pages)
	t.Cleanup(server.Close)
	upstream, err := url.Parse(server.URL)
	require.NoError(t, err)
	get := pagetest.BehindAProxy(t, upstream, server.Client().Transport).Get

	namespace, viewer := logsNamespace(t, "stream")
	stranger := reader(t, namespace, "may-not", false)
	prints := createPod(t, namespace, askingPod("prints", busybox(t, "main", "echo", "one-of-the-page")))
	writer := tokenOf(t, namespace, "default", endpoint.Audience, prints)
	waitUntilDone(t, namespace, "prints")
	list, log := "/namespaces/"+namespace+"/", "/namespaces/"+namespace+"/pod/prints/logs/text"
	eventually(t, time.Minute, "the log of the pod on the page", func() error {
		if status, body := get(log, viewer); status != http.StatusOK || !strings.Contains(body, "one-of-the-page") {
			return fmt.Errorf("%d: %s", status, body)
		}
		return nil
	})
	status, body := get(list, viewer)
	require.Equal(t, http.StatusOK, status, body)
	require.Contains(t, body, "pod/prints")
	for _, path := range []string{list, log, "/namespaces/" + namespace + "/pod/prints/"} {
		status, body = get(path, stranger)
		require.Equal(t, http.StatusForbidden, status, body)
		require.NotContains(t, body, "one-of-the-page")
		for name, token := range map[string]string{"none": "", "made up": "a.b.c", "that by which the pod writes": writer} {
			status, _ = get(path, token)
			require.Equal(t, http.StatusUnauthorized, status, name)
		}
	}
	status, _ = get("/namespaces/default/pod/prints/logs/text", viewer)
	require.Equal(t, http.StatusForbidden, status, "in another namespace")

	require.NoError(t, cluster.Kube.RbacV1().RoleBindings(namespace).Delete(t.Context(), "may", metav1.DeleteOptions{}))
	// 10 seconds, and the time until the API server knows.
	eventually(t, 20*time.Second, "the end of the right", func() error {
		if status, _ := get(log, viewer); status != http.StatusForbidden {
			return errors.New("the log is still shown")
		}
		return nil
	})
}
