// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package target_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
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

func TestAMistakeInATypeIsExplained(t *testing.T) {
	t.Parallel()
	for named, says := range map[string]string{
		"deplyoment/web": "; did you mean deployment/web?",
		"taskrnu/build":  "; did you mean taskrun/build?",
		"deploy":         `reading "deploy": it is a type: use deploy/NAME, or pod/deploy for a pod of this name`,
	} {
		_, err := target.Parse(named, target.All())
		require.ErrorContains(t, err, says)
	}
	_, err := target.Parse("secret/p", target.All())
	require.NotContains(t, err.Error(), "did you mean")
	got, err := target.Parse("pod/deploy", target.All())
	require.NoError(t, err)
	require.Equal(t, "pod/deploy", got.String())
}

func TestLogsAreFoundByALabelOrThePodsName(t *testing.T) {
	t.Parallel()
	of := map[string]string{}
	for _, k := range target.All() {
		require.Equal(t, k.Name == target.Pod, k.LogLabel() == "", k.Name)
		if label := k.LogLabel(); label != "" {
			require.Contains(t, loglabels.All(), label)
			require.Empty(t, of[label], "%s and %s have the same label", k.Name, of[label])
			of[label] = k.Name
		}
	}
}

// The log service names owners without this package, and the libraries of the plugin with it.
func TestTheOwnerOfLogsIsATarget(t *testing.T) {
	t.Parallel()
	for _, label := range loglabels.All() {
		owner := loglabels.OwnerOf(map[string]string{label: "x"})
		if owner == "" {
			require.Contains(t, []string{loglabels.PipelineRun, loglabels.PipelineTask, loglabels.CronJob, loglabels.TraceParent}, label)
			continue
		}
		got, err := target.Parse(owner, target.All())
		require.NoError(t, err)
		require.Equal(t, label, got.LogLabel())
		require.Equal(t, owner, got.String(), "it isn't an alias")
	}
}

func TestAPodBelongsToItsController(t *testing.T) {
	t.Parallel()
	controlled := func(kind, name string) []metav1.OwnerReference {
		return []metav1.OwnerReference{{Kind: "Other", Name: name}, {Kind: kind, Name: name, Controller: new(true)}}
	}
	for named, of := range map[string]map[bool][][]metav1.OwnerReference{
		"deploy/web": {true: {controlled("ReplicaSet", "web-7d4b9"), nil}, false: {controlled("ReplicaSet", "other-7d4b9"), controlled("Job", "web-7d4b9")}},
		"job/report": {true: {controlled("Job", "report")}, false: {controlled("Job", "report-2"), controlled("StatefulSet", "report")}},
		"taskrun/x":  {true: {nil, controlled("TaskRun", "x")}},
		"pod/x":      {true: {nil}},
	} {
		parsed, err := target.Parse(named, target.All())
		require.NoError(t, err)
		for want, owners := range of {
			for _, o := range owners {
				require.Equal(t, want, parsed.Controls(o), "%s %v", named, o)
			}
		}
	}
}
