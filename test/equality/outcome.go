// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package equality

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	pipelinev1 "github.com/tektoncd/pipeline/pkg/apis/pipeline/v1"
	"knative.dev/pkg/apis"
)

// Outcome is what became of an example, field by field: all that the status of
// its runs says, but for times, identifiers, and what the sidecars were doing
// when they were stopped.
type Outcome map[string]string

// Verdict says in a word or two what became of a run.
func (o Outcome) Verdict(run string) string {
	if o[run+"/succeeded"] == "True" {
		return o[run+"/reason"]
	}
	return "failed: " + o[run+"/reason"]
}

// AddTaskRun adds what became of a TaskRun.
func (o Outcome) AddTaskRun(path string, run *pipelinev1.TaskRun) {
	o.addTaskRunStatus(path, run.Namespace, &run.Status)
}

func (o Outcome) addTaskRunStatus(path, namespace string, status *pipelinev1.TaskRunStatus) {
	o.addCondition(path, namespace, status.GetCondition(apis.ConditionSucceeded))
	o.set(path+"/artifacts", status.Artifacts)
	for _, result := range status.Results {
		o.set(path+"/results/"+result.Name, result.Value)
	}
	for i, step := range status.Steps {
		o.addStep(fmt.Sprintf("%s/steps/%d", path, i), &step)
	}
	for _, sidecar := range status.Sidecars {
		o[path+"/sidecars/"+sidecar.Name] = sidecar.Container
	}
	for i := range status.RetriesStatus {
		o.addTaskRunStatus(fmt.Sprintf("%s/retries/%d", path, i), namespace, &status.RetriesStatus[i])
	}
}

func (o Outcome) addStep(path string, step *pipelinev1.StepState) {
	o[path+"/name"] = step.Name
	o[path+"/container"] = step.Container
	o[path+"/terminationReason"] = step.TerminationReason
	switch {
	case step.Terminated != nil:
		o[path+"/state"] = "terminated"
		o[path+"/exitCode"] = fmt.Sprint(step.Terminated.ExitCode)
		o[path+"/signal"] = fmt.Sprint(step.Terminated.Signal)
		o[path+"/reason"] = step.Terminated.Reason
	case step.Running != nil:
		o[path+"/state"] = "running"
	case step.Waiting != nil:
		o[path+"/state"] = "waiting"
		o[path+"/reason"] = step.Waiting.Reason
	}
	for _, result := range step.Results {
		o.set(path+"/results/"+result.Name, result.Value)
	}
	o.set(path+"/inputs", step.Inputs)
	o.set(path+"/outputs", step.Outputs)
}

// AddPipelineRun adds what became of a PipelineRun, without its children.
func (o Outcome) AddPipelineRun(path string, run *pipelinev1.PipelineRun) {
	status := &run.Status
	o.addCondition(path, run.Namespace, status.GetCondition(apis.ConditionSucceeded))
	for _, result := range status.Results {
		o.set(path+"/results/"+result.Name, result.Value)
	}
	for _, skipped := range status.SkippedTasks {
		o[path+"/skipped/"+skipped.Name] = string(skipped.Reason)
		o.set(path+"/skipped/"+skipped.Name+"/when", skipped.WhenExpressions)
	}
	for _, child := range status.ChildReferences {
		o[path+"/children/"+child.Name] = child.Kind + " " + child.PipelineTaskName
		o.set(path+"/children/"+child.Name+"/when", child.WhenExpressions)
	}
}

func (o Outcome) addCondition(path, namespace string, condition *apis.Condition) {
	if condition == nil {
		return
	}
	o[path+"/succeeded"] = string(condition.Status)
	o[path+"/reason"] = condition.Reason
	o[path+"/message"] = strings.ReplaceAll(condition.Message, namespace, "NAMESPACE")
}

// set sets a field that isn't text, unless it is empty.
func (o Outcome) set(path string, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		text = []byte(err.Error())
	}
	if s := string(text); s != "null" && s != "[]" && s != "{}" {
		o[path] = s
	}
}

// Comparison has what became of an example unwrapped, each time, and in one way wrapped.
type Comparison struct {
	Plain   []Outcome
	Wrapped Outcome
}

// Varies are the fields in which not even the plain runs agree: dates, random
// numbers, and what else is of the moment.
func Varies(plain []Outcome) []string {
	return fields(plain, func(field string) bool { return !agree(plain, field) })
}

// Differs are the fields in which the plain runs agree, and the wrapped one
// doesn't agree with them.
func (c Comparison) Differs() []string {
	return fields(append(slices.Clone(c.Plain), c.Wrapped), func(field string) bool {
		return agree(c.Plain, field) && c.Wrapped[field] != c.Plain[0][field]
	})
}

func fields(outcomes []Outcome, are func(string) bool) (found []string) {
	all := map[string]bool{}
	for _, outcome := range outcomes {
		for field := range outcome {
			all[field] = true
		}
	}
	for _, field := range slices.Sorted(maps.Keys(all)) {
		if are(field) {
			found = append(found, field)
		}
	}
	return found
}

func agree(outcomes []Outcome, field string) bool {
	return !slices.ContainsFunc(outcomes, func(o Outcome) bool { return o[field] != outcomes[0][field] })
}

// TimedOut tells whether a field differs in that Tekton ended something for its timeout
// in the namespace that opted in only.
func (c Comparison) TimedOut(field string) bool {
	return strings.HasSuffix(c.Wrapped[field], "Timeout") && !slices.ContainsFunc(c.Plain, func(o Outcome) bool { return o[field] == c.Wrapped[field] })
}

// Explain shows a field as it was unwrapped, and as it was wrapped.
func (c Comparison) Explain(field string) string {
	return fmt.Sprintf("%s: %s unwrapped, %s wrapped", field, values(c.Plain, field), values([]Outcome{c.Wrapped}, field))
}

// values are those of a field, each once.
func values(outcomes []Outcome, field string) string {
	var all []string
	for _, outcome := range outcomes {
		value := "missing"
		if text, ok := outcome[field]; ok {
			value = fmt.Sprintf("%q", shortened(text))
		}
		if !slices.Contains(all, value) {
			all = append(all, value)
		}
	}
	return strings.Join(all, " or ")
}

const long = 100 // bytes

func shortened(text string) string {
	if len(text) <= long {
		return text
	}
	return fmt.Sprintf("%s... (%d bytes)", text[:long], len(text))
}
