// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/why"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

const injectExamples = `  kubectl entrypointer inject -f deployment.yaml
  kubectl entrypointer inject -f deployment.yaml -o yaml
  kustomize build . | kubectl entrypointer inject -f -`

const injectDescription = `Print what entrypointer would change in the pods of the objects of a file, which need not
exist. Nothing is created: the API server is asked by a dry run, for which you need the
right to create pods.

The output shows what entrypointer changes: as a diff, as a JSON patch (RFC 6902), or as
the pods with these changes. Defaults of the API server are left out. Volumes, mounts and
containers that other webhooks add are shown where they are beside those of entrypointer.

The exit code is 0 if all of the pods would be wrapped, 79 if one wouldn't, or would be
refused, 64 for wrong arguments, and 1 if that couldn't be found out.`

// The formats of the command's output.
const (
	asDiff  = "diff"
	asPatch = "patch"
	asJSON  = "json"
	asYAML  = "yaml"
)

func injectCommand() *cobra.Command {
	var file, output string
	var from *cluster
	command := &cobra.Command{
		Use: "inject -f FILE", Short: "Show what would be changed in pods", Long: injectDescription, Example: injectExamples,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(command *cobra.Command, _ []string) error {
			switch {
			case file == "":
				return &usageError{errors.New("name a file by -f, - for stdin")}
			case output != asDiff && output != asPatch && output != asJSON && output != asYAML:
				return &usageError{fmt.Errorf("--output is %q: use diff, patch, json or yaml", output)}
			}
			client, err := from.connect()
			if err != nil {
				return err
			}
			manifests, err := readManifests(file, command.InOrStdin())
			if err != nil {
				return err
			}
			var answers []*why.Answer
			p := previewer{out: command.OutOrStdout(), format: output}
			err = inNamespaces(&why.Cluster{Client: *client}, manifests, command.Flags().Changed("namespace"), func(cluster *why.Cluster, m why.Manifest) error {
				before := m.Pod.DeepCopy()
				after, answer, err := cluster.Preview(command.Context(), m.Name, m.Pod)
				if err != nil {
					return err
				}
				answers = append(answers, answer)
				answer.Explain(command.ErrOrStderr())
				if after == nil {
					return nil
				}
				return p.print(m.Name, before, after)
			})
			if err != nil {
				return err
			}
			return verdict(answers)
		},
	}
	flags := command.Flags()
	flags.StringVarP(&file, "filename", "f", "", "the file, - for stdin")
	flags.StringVarP(&output, "output", "o", asDiff, "diff, patch, json or yaml")
	from = kubectlFlags(command)
	return command
}

// A previewer prints pods as they would be.
type previewer struct {
	out     io.Writer
	format  string
	printed bool
}

// print prints what is changed in a pod by entrypointer.
func (p *previewer) print(name string, before, after *corev1.Pod) error {
	operations := pod.Patch(before, after)
	patch, err := json.Marshal(operations)
	if err != nil {
		return fmt.Errorf("making a patch of %s: %w", name, err)
	}
	if len(operations) == 0 {
		patch = []byte("[]")
	}
	from, err := json.Marshal(before)
	if err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return fmt.Errorf("making a patch of %s: %w", name, err)
	}
	to, err := decoded.Apply(from)
	if err != nil {
		return fmt.Errorf("applying the patch of %s: %w", name, err)
	}
	text, err := p.text(name, patch, from, to)
	if err != nil {
		return err
	}
	if p.printed && p.format == asYAML {
		text = "---\n" + text
	}
	p.printed = true
	_, err = io.WriteString(p.out, printable.Text(text))
	return err
}

func (p *previewer) text(name string, patch, from, to []byte) (string, error) {
	switch p.format {
	case asPatch:
		return indented(patch)
	case asJSON:
		return indented(to)
	}
	was, err := yaml.JSONToYAML(from)
	if err != nil {
		return "", err
	}
	would, err := yaml.JSONToYAML(to)
	if err != nil || p.format == asYAML {
		return string(would), err
	}
	return difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(string(was)), B: difflib.SplitLines(string(would)),
		FromFile: name, ToFile: name + ", wrapped", Context: 3,
	})
}

// indented returns a document of JSON with line breaks.
func indented(document []byte) (string, error) {
	var object any
	if err := json.Unmarshal(document, &object); err != nil {
		return "", err
	}
	document, err := json.MarshalIndent(object, "", "  ")
	return string(document) + "\n", err
}
