// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/entrypointer/entrypointer/test/framework"
	"github.com/entrypointer/entrypointer/test/markdown"
)

// namespacesOfPages are the names that the pages give to namespaces. A test replaces
// each by a name of its own.
var namespacesOfPages = []string{"demo", "team-a", "grafana"}

// perPage is how long the commands of a page may take.
const perPage = 3 * time.Minute

// unanswered is what commands say of a supervisor that didn't answer in time: docs/cli.md says
// to ask again.
const unanswered = "it doesn't answer within"

func TestThePagesThatInstallShowWhatTheirCommandsPrint(t *testing.T) {
	all := blocksOfPages(t)
	for _, file := range slices.Sorted(maps.Keys(all)) {
		if installs(all[file]) {
			t.Run(file, func(t *testing.T) { requireTrue(t, all[file]) })
		}
	}
}

func TestThePagesShowWhatTheirCommandsPrint(t *testing.T) {
	t.Parallel()
	for file, blocks := range blocksOfPages(t) {
		if !installs(blocks) {
			t.Run(file, func(t *testing.T) {
				t.Parallel()
				requireTrue(t, blocks)
			})
		}
	}
}

// blocksOfPages returns the console blocks of each page that has some to run.
func blocksOfPages(t *testing.T) map[string][]markdown.Block {
	t.Helper()
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	files, err := markdown.Pages(top)
	require.NoError(t, err)
	all := map[string][]markdown.Block{}
	for _, file := range files {
		blocks, err := markdown.Blocks(filepath.Join(top, file))
		require.NoError(t, err)
		left := slices.DeleteFunc(slices.Clone(blocks), func(b markdown.Block) bool { return b.NotRun != "" })
		if len(blocks) > 0 {
			t.Logf("%s: %d of %d blocks are run", file, len(left), len(blocks))
		}
		if len(left) > 0 {
			all[file] = left
		}
	}
	require.Contains(t, all, "docs/quickstart.md")
	return all
}

// installs says whether the commands apply a part of the installation. Other tests
// don't run beside them, since some change the same objects.
func installs(blocks []markdown.Block) bool {
	return slices.ContainsFunc(blocks, func(b markdown.Block) bool {
		return slices.ContainsFunc(b.Commands, func(c markdown.Command) bool { return strings.Contains(c.Text, "-f config/") })
	})
}

func requireTrue(t *testing.T, blocks []markdown.Block) {
	t.Helper()
	top, err := framework.RepositoryRoot()
	require.NoError(t, err)
	shell := markdown.Shell{Directory: top, Environment: newPlugin(t).Environment(), Names: map[string]string{}, Again: unanswered, Log: t.Logf}
	for _, name := range namespacesOfPages {
		shell.Names[name] = "e2e-page-" + rand.String(5)
		t.Cleanup(func() { deletePagesNamespace(t, shell.Names[name]) })
	}
	ctx, cancel := context.WithTimeout(t.Context(), perPage)
	defer cancel()
	require.NoError(t, shell.Run(ctx, blocks))
}

// deletePagesNamespace deletes a namespace, which the page may have had no use for.
func deletePagesNamespace(t *testing.T, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if ns, err := cluster.Kube.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err == nil && t.Failed() {
		dump(ctx, t, ns)
	}
	err := cluster.Kube.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Logf("deleting namespace %q: %v", name, err)
	}
}
