// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheAddressOfThePageIsPrinted runs the command, asks for the page that it names, and
// ends it.
func TestTheAddressOfThePageIsPrinted(t *testing.T) {
	t.Parallel()
	config := kubeconfig(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/namespaces/tenant/pods/p") {
			_, _ = io.WriteString(w, `{"metadata":{"name":"p","creationTimestamp":"2026-11-26T12:00:00Z"},"status":{"phase":"Succeeded"}}`)
			return
		}
		http.NotFound(w, r)
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, printed := io.Pipe()
	command := uiCommand()
	command.SetArgs([]string{"--kubeconfig", config, "-n", "tenant", "p"})
	command.SetOut(printed)
	command.SetErr(io.Discard)
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	address, err := url.Parse(strings.TrimSpace(line))
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1", address.Hostname())
	require.Regexp(t, `^/[A-Za-z0-9_-]{43}/namespaces/tenant/pod/p/$`, address.Path)

	response, err := http.Get(address.String())
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusOK, response.StatusCode)
	require.Contains(t, string(body), "<h1>pod/p</h1>")
	response, err = http.Get("http://" + address.Host + "/namespaces/tenant/pod/p/")
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	require.Equal(t, http.StatusNotFound, response.StatusCode)

	cancel()
	require.NoError(t, <-ended)
	_, err = (&net.Dialer{}).DialContext(t.Context(), "tcp", address.Host)
	require.Error(t, err, "the page is gone")
}

func TestAWrongObjectOrPortIsNamed(t *testing.T) {
	t.Parallel()
	config := kubeconfig(t, http.NotFoundHandler())
	for _, args := range [][]string{{"nonsense/x"}, {"a", "b"}} {
		_, _, err := runsCommand(uiCommand(), "", append([]string{"--kubeconfig", config}, args...)...)
		require.Equal(t, exitUsage, exitCode(err), args)
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	_, _, err = runsCommand(uiCommand(), "", "--kubeconfig", config, "--port", port)
	require.ErrorContains(t, err, "use another --port")
	require.Equal(t, exitFailure, exitCode(err))
}

func TestWithoutRoomForLogsThereIsNoPage(t *testing.T) {
	config := kubeconfig(t, http.NotFoundHandler())
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "absent"))
	_, _, err := runsCommand(uiCommand(), "", "--kubeconfig", config)
	require.ErrorContains(t, err, "looking for room for the logs")
	require.ErrorContains(t, err, "set TMPDIR")
	require.Equal(t, exitFailure, exitCode(err))
}

// TestAWrongAddressOfAnotherSiteIsAMistakeOfTheUser has the template of traces by the flag, and
// by the variable, and the address of a Perfetto.
func TestAWrongAddressOfAnotherSiteIsAMistakeOfTheUser(t *testing.T) {
	config := kubeconfig(t, http.NotFoundHandler())
	_, _, err := runsCommand(uiCommand(), "", "--kubeconfig", config, "--trace-url", "https://jaeger.example/")
	require.ErrorContains(t, err, "--trace-url: reading the template")
	require.ErrorContains(t, err, "it has no {traceID}")
	require.Equal(t, exitUsage, exitCode(err))
	_, _, err = runsCommand(uiCommand(), "", "--kubeconfig", config, "--perfetto-url", "ui.perfetto.dev")
	require.ErrorContains(t, err, "--perfetto-url: reading the address")
	require.Equal(t, exitUsage, exitCode(err))
	t.Setenv("ENTRYPOINTER_TRACE_URL", "file:///{traceID}")
	_, _, err = runsCommand(uiCommand(), "", "--kubeconfig", config)
	require.ErrorContains(t, err, "ENTRYPOINTER_TRACE_URL: reading the template")
	require.ErrorContains(t, err, "http or https")
}
