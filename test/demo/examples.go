// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"knative.dev/pkg/apis"

	"github.com/entrypointer/entrypointer/test/framework"
)

// example is one of the files in examples/.
type example struct {
	title, file string
	// finish waits until it has done what it does, and looks at it.
	finish func(ctx context.Context, cluster *framework.Cluster, namespace string) (run, error)
}

// ps shows processes, in the way that package framework reads.
var ps = []string{"ps", "-o", "pid,args"}

// byWays is what runs by each delivery.
var byWays = examples[0]

var examples = []example{
	{"TaskRun steps", "taskrun.yaml", finishTaskRun},
	{"PipelineRun relay", "pipelinerun.yaml", finishPipelineRun},
	{"Knative Service hello", "service.yaml", finishService},
	{"Deployment clock", "deployment.yaml", finishDeployment},
}

func finishTaskRun(ctx context.Context, cluster *framework.Cluster, namespace string) (run, error) {
	taskRun, err := cluster.WaitForTaskRun(ctx, namespace, "steps")
	if err != nil {
		return run{}, err
	}
	r := run{verdict: verdict(taskRun.Status.GetCondition(apis.ConditionSucceeded))}
	for _, result := range taskRun.Status.Results {
		r.facts = append(r.facts, fact{"result " + result.Name, result.Value.StringVal})
	}
	r.containers, err = observeSteps(ctx, cluster, taskRun)
	return r, err
}

func finishPipelineRun(ctx context.Context, cluster *framework.Cluster, namespace string) (run, error) {
	pipelineRun, err := cluster.WaitForPipelineRun(ctx, namespace, "relay")
	if err != nil {
		return run{}, err
	}
	r := run{verdict: verdict(pipelineRun.Status.GetCondition(apis.ConditionSucceeded))}
	for _, result := range pipelineRun.Status.Results {
		r.facts = append(r.facts, fact{"result " + result.Name, result.Value.StringVal})
	}
	taskRuns, err := cluster.Tekton.TektonV1().TaskRuns(namespace).List(ctx, metav1.ListOptions{LabelSelector: "tekton.dev/pipelineRun=relay"})
	if err != nil {
		return run{}, err
	}
	slices.SortFunc(taskRuns.Items, func(a, b pipelinev1.TaskRun) int { return a.Status.StartTime.Compare(b.Status.StartTime.Time) })
	for i := range taskRuns.Items {
		steps, err := observeSteps(ctx, cluster, &taskRuns.Items[i])
		if err != nil {
			return run{}, err
		}
		r.containers = append(r.containers, steps...)
	}
	return r, nil
}

func finishService(ctx context.Context, cluster *framework.Cluster, namespace string) (run, error) {
	service, err := cluster.WaitForService(ctx, namespace, "hello")
	if err != nil {
		return run{}, err
	}
	var answer string
	err = framework.Eventually(ctx, time.Minute, "an answer from "+service.Status.URL.String(), func(ctx context.Context) (err error) {
		answer, err = cluster.Ask(ctx, service, "/")
		return err
	})
	if err != nil {
		return run{}, err
	}
	p, err := cluster.PodOf(ctx, namespace, "serving.knative.dev/service=hello")
	if err != nil {
		return run{}, err
	}
	user, err := observe(p, "user-container", answer)
	said, _ := framework.SplitProcesses(answer)
	return run{
		verdict:    verdict(service.Status.GetCondition(apis.ConditionReady)),
		containers: []container{user},
		facts:      []fact{{"HTTP answer", said}},
	}, err
}

func finishDeployment(ctx context.Context, cluster *framework.Cluster, namespace string) (run, error) {
	if err := cluster.WaitForDeployment(ctx, namespace, "clock"); err != nil {
		return run{}, err
	}
	p, err := cluster.PodOf(ctx, namespace, "app=clock")
	if err != nil {
		return run{}, err
	}
	r := run{verdict: "Available"}
	for _, name := range []string{"clock", "hello"} {
		output, err := cluster.Logs(ctx, namespace, p.Name, name)
		if err != nil {
			return run{}, err
		}
		if name == "clock" { // hello has said who runs it
			table, err := cluster.Exec(ctx, namespace, p.Name, name, ps...)
			if err != nil {
				return run{}, err
			}
			output += table
		}
		c, err := observe(p, name, output)
		if err != nil {
			return run{}, err
		}
		r.containers = append(r.containers, c)
	}
	return r, nil
}

func verdict(condition *apis.Condition) string {
	switch {
	case condition.IsTrue() && condition.Reason != "":
		return condition.Reason
	case condition.IsTrue():
		return string(condition.Type)
	default:
		return fmt.Sprintf("not %s: %s: %s", condition.Type, condition.Reason, condition.Message)
	}
}
