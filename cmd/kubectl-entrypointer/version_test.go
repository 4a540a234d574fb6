// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/check"
	"github.com/entrypointer/entrypointer/internal/objects/objectstest"
	"github.com/entrypointer/entrypointer/test/jsonschema"
)

// clusterOf is a cluster with an injector of a version, and no log service.
func clusterOf(version string) http.Handler {
	mux := http.NewServeMux()
	const namespace = "/namespaces/entrypointer-system"
	mux.HandleFunc("GET /apis/apps/v1"+namespace+"/deployments/injector", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{}`) })
	mux.HandleFunc("GET /api/v1"+namespace+"/pods", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"items":[{"metadata":{"name":"injector-1","labels":{"app.kubernetes.io/name":"injector"}}}]}`)
	})
	mux.HandleFunc("GET /api/v1"+namespace+"/pods/injector-1:9090/proxy/metrics", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE entrypointer_build_info gauge\nentrypointer_build_info{version=%q} 1\n", version)
	})
	return mux
}

func TestTheVersionsOfPluginAndClusterAreCompared(t *testing.T) {
	t.Parallel()
	config := kubeconfig(t, clusterOf("v1.2.3"))
	out, _, err := runsCommand(versionCommand(), "", "--kubeconfig", config)
	require.NoError(t, err)
	require.Equal(t, "plugin       devel\ninjector     v1.2.3 (1 replica)\nlog service  isn't installed\n", out)

	out, _, err = runsCommand(versionCommand(), "", "--kubeconfig", config, "-o", "json")
	require.NoError(t, err)
	var versions check.Versions
	require.NoError(t, json.Unmarshal([]byte(out), &versions))
	require.Equal(t, []check.Replicas{{Version: "v1.2.3", Count: 1}}, versions.Programs[0].Replicas)
	require.NoError(t, jsonschema.CheckValue(cliSchema, "version", versions))
	out, _, err = runsCommand(versionCommand(), "", "--kubeconfig", config, "-o", "yaml")
	require.NoError(t, err)
	require.Contains(t, out, "plugin: devel\n")
}

func TestTheVersionOfThePluginNeedsNoCluster(t *testing.T) {
	t.Parallel()
	out, _, err := runsCommand(versionCommand(), "", "--kubeconfig", "/nowhere", "--client")
	require.NoError(t, err)
	require.Equal(t, "plugin       devel\n", out)
	_, _, err = runsCommand(versionCommand(), "", "--kubeconfig", "/nowhere")
	require.Equal(t, exitFailure, exitCode(err))
	_, _, err = runsCommand(versionCommand(), "", "-o", "wide")
	require.Equal(t, exitUsage, exitCode(err))
	_, _, err = runsCommand(versionCommand(), "", "now")
	require.Equal(t, exitUsage, exitCode(err))
}

func TestWhoMayNotReadTheVersionsIsToldWhichRightIsMissing(t *testing.T) {
	t.Parallel()
	config := kubeconfig(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		objectstest.Refuse(w, http.StatusForbidden, r.URL.Path+` is forbidden: User "jane" cannot do this`)
	}))
	out, _, err := runsCommand(versionCommand(), "", "--kubeconfig", config)
	require.Equal(t, exitFailure, exitCode(err))
	require.ErrorContains(t, err, "couldn't be found out")
	require.Contains(t, out, "injector     unknown\n             the version of a replica of the injector is unknown: you may not get pods/proxy -n entrypointer-system\n")
}
