// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"gomodules.xyz/jsonpatch/v2"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/entrypointer/entrypointer/internal/offline"
	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/why"
	"github.com/entrypointer/entrypointer/pkg/pod"
)

const injectExamples = `  kubectl entrypointer inject -f deployment.yaml
  kubectl entrypointer inject -f deployment.yaml -o yaml
  kustomize build . | kubectl entrypointer inject -f -
  kubectl entrypointer inject -f deployment.yaml --offline --config config-entrypointer.yaml`

const injectDescription = `Print what entrypointer would change in the pods of the objects of a file, which need not
exist. Nothing is created: the API server is asked by a dry run, for which you need the
right to create pods.

The output shows what entrypointer changes: as a diff, as a JSON patch (RFC 6902), or as
the pods with these changes. Defaults of the API server are left out, and so are changes of
other webhooks.

With --offline, no cluster is asked: the plugin decides by the same code, with the
operator's configuration from a file (--config), annotations of the namespace, and images
that are looked up with your own credentials. That a cluster has a log service or claims,
and that its nodes can mount images, isn't known then; the init container is shown.

The exit code is 0 if all of the pods would be wrapped, 79 if one wouldn't, or would be
refused, 64 for wrong arguments, and 1 if that couldn't be found out.`

// The formats of the command's output.
const (
	asDiff  = "diff"
	asPatch = "patch"
	asJSON  = "json"
	asYAML  = "yaml"
)

// injectSettings are the values of the flags.
type injectSettings struct {
	file, output       string
	offline            bool
	config             string
	annotations        map[string]string
	copier, entrypoint string
}

func injectCommand() *cobra.Command {
	var s injectSettings
	var from *cluster
	command := &cobra.Command{
		Use: "inject -f FILE", Short: "Show what would be changed in pods", Long: injectDescription, Example: injectExamples,
		Args: usageArgs(func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("%q is too much: inject reads a file, -f FILE; kubectl entrypointer why asks about objects that exist", args[0])
			}
			return nil
		}),
		RunE: func(command *cobra.Command, _ []string) error {
			if err := s.check(command); err != nil {
				return &usageError{err}
			}
			manifests, err := readManifests(s.file, command.InOrStdin())
			if err != nil {
				return err
			}
			show, namespace, err := s.shower(command.Context(), from)
			if err != nil {
				return err
			}
			p := previewer{out: command.OutOrStdout(), format: s.output}
			var answers []*why.Answer
			err = inNamespaces(command, namespace, manifests, func(namespace string, m why.Manifest) error {
				before := m.Pod.DeepCopy()
				after, answer, err := show(namespace, m)
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
			return orFinding(err, verdict(answers))
		},
	}
	flags := command.Flags()
	flags.StringVarP(&s.file, "filename", "f", "", "the file, - for stdin")
	flags.StringVarP(&s.output, "output", "o", asDiff, "diff, patch, json or yaml")
	flags.BoolVar(&s.offline, "offline", false, "decide without a cluster")
	flags.StringVar(&s.config, "config", "", "offline: a file with the ConfigMap config-entrypointer; without it, the default configuration")
	flags.StringToStringVar(&s.annotations, "namespace-annotations", nil, "offline: the annotations of the namespace, which opts in by entrypointer.dev/inject=true unless they say something else")
	flags.StringVar(&s.copier, "copier-image", unknownImage, "offline: the image of the init container, which differs from install to install")
	flags.StringVar(&s.entrypoint, "entrypoint-image", unknownImage, "offline: the image that delivery image-volume mounts")
	from = kubectlFlags(command)
	completeOutput(command, asDiff, "patch", "json", "yaml")
	return command
}

// unknownImage stands for the injector's images.
const unknownImage = "entrypointer.invalid/image-of-the-injector"

func (s *injectSettings) check(command *cobra.Command) error {
	switch {
	case s.file == "":
		return errors.New("name a file by -f, - for stdin")
	case s.output != asDiff && s.output != asPatch && s.output != asJSON && s.output != asYAML:
		return fmt.Errorf("--output is %q: use diff, patch, json or yaml", s.output)
	case s.offline:
		return nil
	}
	for _, flag := range []string{"config", "namespace-annotations", "copier-image", "entrypoint-image"} {
		if command.Flags().Changed(flag) {
			return fmt.Errorf("--%s is set without --offline: a cluster knows that itself", flag)
		}
	}
	return nil
}

// shower returns the function that decides on a pod, and kubectl's namespace.
func (s *injectSettings) shower(ctx context.Context, from *cluster) (show func(namespace string, m why.Manifest) (*corev1.Pod, *why.Answer, error), namespace string, _ error) {
	if !s.offline {
		client, err := from.connect()
		if err != nil {
			return nil, "", err
		}
		return func(namespace string, m why.Manifest) (*corev1.Pod, *why.Answer, error) {
			cluster := why.Cluster{Client: *client}
			cluster.Namespace = namespace
			return cluster.Preview(ctx, m)
		}, client.Namespace, nil
	}
	annotations := map[string]string{pod.InjectAnnotation: string(pod.OwnedPods)}
	maps.Copy(annotations, s.annotations)
	options := offline.Options{Annotations: annotations, CopierImage: s.copier, EntrypointImage: s.entrypoint}
	if s.config != "" {
		file, err := os.Open(s.config)
		if err != nil {
			return nil, "", err
		}
		defer file.Close()
		if options.Config, err = offline.ReadConfig(file); err != nil {
			return nil, "", fmt.Errorf("reading %s: %w", s.config, err)
		}
	}
	namespace, _, err := from.config().Namespace()
	if err != nil {
		namespace = "default" // there may be no kubeconfig
	}
	return func(namespace string, m why.Manifest) (*corev1.Pod, *why.Answer, error) {
		result, err := options.Inject(ctx, namespace, m.Pod)
		return why.Decided(m, namespace, result, err)
	}, namespace, nil
}

// A previewer prints pods as they would be.
type previewer struct {
	out     io.Writer
	format  string
	printed bool
}

// print prints what is changed in a pod by entrypointer.
func (p *previewer) print(name string, before, after *corev1.Pod) error {
	wrapped := pod.OursAlone(before, after)
	operations := pod.Patch(before, wrapped)
	if operations == nil {
		operations = []jsonpatch.Operation{} // "[]"
	}
	var documents [3][]byte
	for at, object := range []any{operations, before, wrapped} {
		document, err := json.Marshal(object)
		if err != nil {
			return fmt.Errorf("showing %s: %w", name, err)
		}
		documents[at] = document
	}
	text, err := p.text(name, documents[0], documents[1], documents[2])
	if err != nil {
		return err
	}
	if p.printed && p.format == asYAML {
		text = "---\n" + text
	}
	p.printed = true
	if p.format == asJSON || p.format == asPatch {
		text = printable.JSON(text)
	}
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
		FromFile: name, ToFile: name + ", as admitted", Context: 3,
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
