// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPageThatIsNotAsClaimedIsCountedAndShown(t *testing.T) {
	for what, spoil := range map[string]func(*openedPage){
		"":                                     func(*openedPage) {},
		"it prints an address of this machine": func(p *openedPage) { p.printed = "http://0.0.0.0:1/" },
		"there is a page, by which taskrun/steps succeeded": func(p *openedPage) {
			p.body = strings.ReplaceAll(p.body, "succeeded", "failed")
		},
		"Ctrl-C ends it": func(p *openedPage) { p.ended = false },
	} {
		p := openedPage{"http://127.0.0.1:1/", http.StatusOK, `<h1>taskrun/steps</h1><span class="state succeeded">succeeded</span>`, true}
		spoil(&p)
		var shown strings.Builder
		claimed, failed := showPage(&terminal{to: &shown, width: 80}, p)
		require.Equal(t, 3, claimed)
		if what == "" {
			require.Zero(t, failed, shown.String())
			continue
		}
		require.Equal(t, 1, failed, shown.String())
		require.Contains(t, shown.String(), cross+" "+what+", but it is not so: ")
	}
}

func TestThePageIsOpenedOnTheClusterOfTheDemo(t *testing.T) {
	const command = "go run ./cmd/kubectl-entrypointer ui -n demo taskrun/steps"
	for _, test := range []struct{ level, cluster, want string }{
		{"", "", command},
		{"1", "", `eval "$(make -s env)" && ` + command},
		{"1", "kind", `eval "$(make -s env CLUSTER=kind)" && ` + command},
	} {
		t.Setenv("MAKELEVEL", test.level)
		t.Setenv("CLUSTER", test.cluster)
		require.Equal(t, test.want, pageCommand())
		var shown strings.Builder
		showHowToOpenThePage(&terminal{to: &shown, width: 80})
		require.True(t, strings.HasSuffix(shown.String(), "  "+test.want+"\n"))
	}
	require.Equal(t, []string{"PATH=/bin"}, outsideOfMake([]string{"MAKEFLAGS=s", "PATH=/bin", "MAKELEVEL=1"}))
}

// TestThePageIsOpenedByItsCommand has an API server that knows the TaskRun, and one that doesn't.
func TestThePageIsOpenedByItsCommand(t *testing.T) {
	knows := true
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const pod = `{"metadata":{"name":"steps-pod","labels":{"tekton.dev/taskRun":"steps"}},"status":{"phase":"Succeeded"}}`
		_, what, _ := strings.Cut(r.URL.Path, "/namespaces/demo/")
		answer := map[string]string{
			"taskruns/steps": `{"metadata":{"name":"steps"},"status":{"podName":"steps-pod","conditions":[{"type":"Succeeded","status":"True"}]}}`,
			"pods/steps-pod": pod, "pods": `{"items":[` + pod + `]}`, "events": `{}`,
		}[what]
		if !knows || answer == "" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, fmt.Appendf(nil, `{"current-context":"c","contexts":[{"name":"c","context":{"cluster":"c"}}],"clusters":[{"name":"c","cluster":{"server":%q}}]}`, server.URL), 0o600))
	t.Setenv("KUBECONFIG", kubeconfig)
	t.Setenv("MAKELEVEL", "")
	for _, knows = range []bool{true, false} {
		opened, err := openPage(t.Context())
		require.NoError(t, err)
		claims := opened.claims()
		require.True(t, claims[0].holds, claims[0].but)
		require.Equal(t, knows, claims[1].holds, claims[1].but)
		require.True(t, claims[2].holds, claims[2].but)
	}
}
