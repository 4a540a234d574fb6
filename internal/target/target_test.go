// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package target_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/target"
)

func TestATargetIsNamedByItsTypeAsByKubectl(t *testing.T) {
	t.Parallel()
	for named, want := range map[string]string{
		"p": "pod/p", "po/p": "pod/p", "deploy/web": "deployment/web", "Deployments/web": "deployment/web",
		"tr/build": "taskrun/build", "taskruns.tekton.dev/build": "taskrun/build", "ksvc/hello": "ksvc/hello", "sts/db": "statefulset/db",
	} {
		got, err := target.Parse(named, target.All())
		require.NoError(t, err)
		require.Equal(t, want, got.String())
	}
	for _, named := range []string{"", "pod/", "/p", "secret/p", "pod/p/q", "..", "pod/..", "pod/a%2fb"} {
		_, err := target.Parse(named, target.All())
		require.ErrorContains(t, err, "use TYPE/NAME with the type pod, deployment, ", named)
	}
}

func TestLogsAreFoundByALabelOrThePodsName(t *testing.T) {
	t.Parallel()
	require.Equal(t, "pod, taskrun, pipelinerun, ksvc, revision or workflow", target.Types(target.WithLogs()))
	_, err := target.Parse("deploy/web", target.WithLogs())
	require.ErrorContains(t, err, "use TYPE/NAME with the type pod, taskrun, ")
}
