// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package loglabels_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

func TestTheOwnerOfLogsIsTheObjectThatItsAuthorKnows(t *testing.T) {
	for want, has := range map[string]map[string]string{
		"":                    {loglabels.PipelineTask: "build"},
		"taskrun/build":       {loglabels.TaskRun: "build", loglabels.PipelineRun: "release", loglabels.PipelineTask: "build"},
		"ksvc/hello":          {loglabels.Service: "hello", loglabels.Revision: "hello-1", loglabels.Deployment: "hello-1-deployment", loglabels.ReplicaSet: "hello-1-deployment-7d4b9"},
		"workflow/hello":      {loglabels.Workflow: "hello"},
		"deployment/web":      {loglabels.Deployment: "web", loglabels.ReplicaSet: "web-7d4b9"},
		"replicaset/web":      {loglabels.ReplicaSet: "web"},
		"job/report-29929875": {loglabels.Job: "report-29929875", loglabels.CronJob: "report"}, // the name of the CronJob is only derived
	} {
		require.Equal(t, want, loglabels.OwnerOf(has))
	}
}

func TestASelectorRequiresALabelByWhichLogsAreFound(t *testing.T) {
	for text, want := range map[string]string{
		"tekton.dev/taskRun=build":                    "tekton.dev/taskRun=build",
		"tekton.dev/taskRun in (build)":               "tekton.dev/taskRun=build",
		"entrypointer.dev/job==a,!tekton.dev/taskRun": "entrypointer.dev/job=a",
		"tekton.dev/taskRun in (a,b)":                 "=",
		"tekton.dev/taskRun=":                         "=",
		"tekton.dev/taskRun":                          "=",
		"tekton.dev/taskRun!=build":                   "=",
		"app=web":                                     "=",
		"tekton.dev/taskRun=build,app=web":            "=",
		"tekton.dev/taskRun=build,app!=web":           "=",
		"":                                            "=",
	} {
		selector, err := labels.Parse(text)
		require.NoError(t, err)
		key, value := loglabels.Required(selector)
		require.Equal(t, want, key+"="+value, text)
	}
}
