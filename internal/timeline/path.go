// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/entrypointer/entrypointer/internal/objects"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// A pipelineRun is what is read of a PipelineRun.
type pipelineRun struct {
	Status struct {
		StartTime      *metav1.Time `json:"startTime"`
		CompletionTime *metav1.Time `json:"completionTime"`
		PipelineSpec   *struct {
			Tasks   []json.RawMessage `json:"tasks"`
			Finally []json.RawMessage `json:"finally"`
		} `json:"pipelineSpec"`
	} `json:"status"`
}

// A taskRun is what is read of a TaskRun.
type taskRun struct {
	metav1.ObjectMeta `json:"metadata"`
	Status            struct {
		tried
		RetriesStatus []tried `json:"retriesStatus"`
	} `json:"status"`
}

// A tried is what the status of a TaskRun has of one of its attempts.
type tried struct {
	PodName        string       `json:"podName"`
	StartTime      *metav1.Time `json:"startTime"`
	CompletionTime *metav1.Time `json:"completionTime"`
}

// addAttempts adds the attempts of a TaskRun by the names of their pods.
func (r *taskRun) addAttempts(all map[string]attempt) {
	for _, one := range append(r.Status.RetriesStatus, r.Status.tried) {
		var a attempt
		if one.StartTime != nil {
			a.from = one.StartTime.UTC()
		}
		if one.CompletionTime != nil {
			a.to = one.CompletionTime.UTC()
		}
		all[one.PodName] = a
	}
}

// stage returns a TaskRun that has completed as a stage.
func (r *taskRun) stage() (s Stage, is bool) {
	if r.Status.StartTime == nil || r.Status.CompletionTime == nil {
		return s, false
	}
	s = Stage{TaskRun: r.Name, Task: r.Labels[loglabels.PipelineTask], From: r.Status.StartTime.UTC(), To: r.Status.CompletionTime.UTC()}
	for _, retry := range r.Status.RetriesStatus {
		if retry.StartTime != nil && retry.StartTime.UTC().Before(s.From) {
			s.From = retry.StartTime.UTC()
		}
	}
	return s, true
}

// mostTaskRuns bounds the TaskRuns of a PipelineRun that are read.
const mostTaskRuns = 2000

// readTaskRuns reads the attempts of a TaskRun, or of those of a PipelineRun, by the names
// of their pods, and the critical path of a PipelineRun.
func (r *Reader) readTaskRuns(ctx context.Context, t target.Target, to *Timeline) map[string]attempt {
	attempts := map[string]attempt{}
	switch t.Label {
	case loglabels.TaskRun:
		var run taskRun
		if err := r.Get(ctx, t, &run); err != nil {
			to.note("the start and the completion of %s aren't known: %v", t, err)
			break
		}
		run.addAttempts(attempts)
	case loglabels.PipelineRun:
		r.readPath(ctx, t, to, attempts)
	}
	return attempts
}

// readPath reads the critical path of a PipelineRun, and the attempts of its TaskRuns.
func (r *Reader) readPath(ctx context.Context, t target.Target, to *Timeline, attempts map[string]attempt) {
	var run pipelineRun
	if err := r.Get(ctx, t, &run); err != nil {
		to.note("the critical path isn't known: %v", err)
		return
	}
	var stages []Stage
	_, err := objects.Each(ctx, r.WithLabels(t.Path, "taskruns", t.Label+"="+t.Of), mostTaskRuns, func(one taskRun) {
		one.addAttempts(attempts)
		if s, is := one.stage(); is {
			stages = append(stages, s)
		}
	})
	if err != nil {
		to.note("the critical path isn't known: listing the TaskRuns of %s: %v", t, err)
		return
	}
	needs := needsOf(&run)
	if needs == nil && len(stages) > 0 {
		to.note("the status of %s has no tasks: the critical path is by times alone", t)
	}
	if run.Status.CompletionTime == nil && len(stages) > 0 {
		to.note("%s goes on: the critical path is that of the TaskRuns that have completed", t)
	}
	to.CriticalPath = criticalPath(stages, needs, run.Status.StartTime)
}

// A tasksNeeds has the tasks after which each task of a Pipeline can start.
type tasksNeeds map[string][]string

// resultOf finds a task whose result or status is used: $(tasks.build.results.digest).
var resultOf = regexp.MustCompile(`\$\(tasks\.([a-z0-9][-a-z0-9]*)\.`)

// needsOf reads the tasks of a PipelineRun, nil if its status doesn't have them.
func needsOf(run *pipelineRun) tasksNeeds {
	spec := run.Status.PipelineSpec
	if spec == nil || len(spec.Tasks) == 0 {
		return nil
	}
	needs := tasksNeeds{}
	var all []string
	for at, text := range slices.Concat(spec.Tasks, spec.Finally) {
		var task struct {
			Name     string   `json:"name"`
			RunAfter []string `json:"runAfter"`
		}
		if json.Unmarshal(text, &task) != nil {
			return nil
		}
		if at >= len(spec.Tasks) {
			needs[task.Name] = all
			continue
		}
		for _, match := range resultOf.FindAllSubmatch(text, -1) {
			task.RunAfter = append(task.RunAfter, string(match[1]))
		}
		needs[task.Name] = task.RunAfter
		all = append(all, task.Name)
	}
	return needs
}

// stagesOf has the stages of each task: several in a matrix.
func stagesOf(stages []Stage) map[string][]Stage {
	all := map[string][]Stage{}
	for _, s := range stages {
		all[s.Task] = append(all[s.Task], s)
	}
	return all
}

// before returns the stages that a stage waited for. A task that was skipped stands for
// those that it waited for.
func (n tasksNeeds) before(s Stage, byTask map[string][]Stage) (earlier []Stage) {
	asked := map[string]bool{s.Task: true}
	var ask func(task string)
	ask = func(task string) {
		for _, other := range n[task] {
			if asked[other] {
				continue
			}
			asked[other] = true
			if earlier = append(earlier, byTask[other]...); len(byTask[other]) == 0 {
				ask(other)
			}
		}
	}
	ask(s.Task)
	return earlier
}

// endedBy returns the stages that had ended when a stage started.
func endedBy(s Stage, stages []Stage) (earlier []Stage) {
	for _, e := range stages {
		if e.TaskRun != s.TaskRun && !e.To.After(s.From) && e.From.Before(s.From) {
			earlier = append(earlier, e)
		}
	}
	return earlier
}

// criticalPath goes backwards from the stage that ended last: each time to the one that
// ended last of those that it waited for. Without needs, any that had ended may be one.
func criticalPath(stages []Stage, needs tasksNeeds, began *metav1.Time) (path []Stage) {
	byTask := stagesOf(stages)
	latest := func(some []Stage) (s Stage) {
		for _, one := range some {
			if s.TaskRun == "" || one.To.After(s.To) {
				s = one
			}
		}
		return s
	}
	for s := latest(stages); s.TaskRun != "" && len(path) < len(stages); {
		candidates := endedBy(s, stages)
		if needs != nil {
			candidates = needs.before(s, byTask)
		}
		earlier := latest(candidates)
		since := earlier.To
		if earlier.TaskRun == "" && began != nil {
			since = began.UTC()
		}
		if !since.IsZero() {
			s.WaitedBefore = max(0, s.From.Sub(since).Milliseconds())
		}
		path = append(path, s)
		s = earlier
	}
	slices.Reverse(path)
	return path
}
