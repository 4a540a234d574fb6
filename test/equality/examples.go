// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

// Package equality runs the examples of somebody else's project, Tekton's, with
// and without the supervisor, and tells whether anybody could tell.
//
// Nothing of the examples is in this repository: they are in Tekton's module.
// Which of them run is decided by rules (see [Rule]), not by a list.
package equality

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/entrypointer/entrypointer/test/framework"
)

// Example is what is in a file of examples: one run, or several, and what they need.
type Example struct {
	Name    string                       // the path below examples/v1, without .yaml
	Needs   []*unstructured.Unstructured // in the order of the file
	Runs    []*unstructured.Unstructured // TaskRuns and PipelineRuns
	Skipped *Skipped                     // why it doesn't run here; nil if it does
}

// Directories are those of the examples, below examples/v1.
var Directories = []string{"pipelineruns", "taskruns"}

// Load reads the examples below a directory, and adapts them to the cluster.
func Load(dir string, here ClusterCapabilities) ([]Example, error) {
	var examples []Example
	for _, sub := range Directories {
		err := filepath.WalkDir(filepath.Join(dir, sub), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".yaml" {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(dir, strings.TrimSuffix(path, ".yaml"))
			if err != nil {
				return err
			}
			example, err := parse(filepath.ToSlash(name), content, here)
			examples = append(examples, example)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("reading Tekton's examples: %w", err)
		}
	}
	return examples, nil
}

func parse(name string, content []byte, here ClusterCapabilities) (Example, error) {
	objects, err := framework.Decode(content)
	if err != nil {
		return Example{}, fmt.Errorf("decoding example %q: %w", name, err)
	}
	example := Example{Name: name, Skipped: here.prepare(objects)}
	settleNames(objects)
	for _, object := range objects {
		if isRun(object) {
			example.Runs = append(example.Runs, object)
		} else {
			example.Needs = append(example.Needs, object)
		}
	}
	if len(example.Runs) == 0 {
		return Example{}, fmt.Errorf("reading example %q: there is neither a TaskRun nor a PipelineRun in it", name)
	}
	return example, nil
}

func isRun(object *unstructured.Unstructured) bool {
	return slices.Contains([]string{"TaskRun", "PipelineRun"}, object.GetKind())
}

// settleNames gives names to what leaves its name to chance, so that two runs
// of an example can be compared name by name, and leaves the namespace open.
func settleNames(objects []*unstructured.Unstructured) {
	taken := map[string]bool{}
	for _, object := range objects {
		name := object.GetName()
		if name == "" {
			base := strings.TrimRight(object.GetGenerateName(), "-")
			name = base
			for i := 2; taken[object.GetKind()+name]; i++ {
				name = fmt.Sprintf("%s-%d", base, i)
			}
		}
		taken[object.GetKind()+name] = true
		object.SetName(name)
		object.SetGenerateName("")
		object.SetNamespace("")
	}
}
