// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/entrypointer/entrypointer/internal/printable"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/internal/why"
)

const whyExamples = `  kubectl entrypointer why deployment/web
  kubectl entrypointer why deployment/web job/report
  kubectl entrypointer why web-6b7f9c-x2x5k
  kubectl entrypointer why ksvc/hello -o json
  kubectl entrypointer why deployment/web -o wide
  kubectl entrypointer why -f deployment.yaml
  kubectl entrypointer why deployment/web -o json | jq -r '.answers[0].now.reason'`

var whyDescription = `Say whether the containers of objects run under entrypointer's supervisor, and why.
TYPE is ` + target.Types(target.All()) + `, and pod by default.

The API server is asked what would happen to a pod that is created now, by a dry run: for
that, you need the right to create pods. The pods that exist are compared with it. With
-f, the objects of a file are asked about, which need not exist; - stands for stdin.

The exit code is 0 if all of the pods are wrapped, 79 if one isn't, or would be refused,
64 for wrong arguments, and 1 if that couldn't be found out. It is 1 as well if there is no
answer about one of several objects; those about the others are printed.`

// whySettings are the values of the flags.
type whySettings struct {
	file, output string
}

func whyCommand() *cobra.Command {
	var s whySettings
	var from *cluster
	command := &cobra.Command{
		Use: "why ([TYPE/]NAME... | -f FILE)", Short: "Say whether pods are wrapped, and why", Long: whyDescription, Example: whyExamples,
		RunE: func(command *cobra.Command, args []string) error {
			targets, err := s.check(args)
			if err != nil {
				return err
			}
			answers, err := s.ask(command, from, targets)
			if len(answers) > 0 {
				err = errors.Join(s.print(command.OutOrStdout(), answers), err)
			}
			return orFinding(err, verdict(answers))
		},
	}
	flags := command.Flags()
	flags.StringVarP(&s.file, "filename", "f", "", "ask about the objects of a file, - for stdin")
	flags.StringVarP(&s.output, "output", "o", "", "json or yaml, instead of text, or wide: with images, from where commands come, and defaults of options")
	from = kubectlFlags(command)
	completeTargets(command, from, target.All(), 0, 0)
	completeOutput(command, "json", "yaml", wide)
	return command
}

// check returns the objects that are named.
func (s *whySettings) check(args []string) ([]target.Target, error) {
	if (len(args) > 0) == (s.file != "") {
		return nil, &usageError{errors.New("name objects, as TYPE/NAME, or a file by -f")}
	}
	if err := checkOutput(s.output, wide); err != nil {
		return nil, &usageError{err}
	}
	return parseAll(args)
}

// ask asks about the objects that are named, or those of the file. It returns an error
// beside the answers; each object that is named has one.
func (s *whySettings) ask(command *cobra.Command, from *cluster, targets []target.Target) (answers []*why.Answer, err error) {
	if s.file != "" {
		err := preview(command, from, s.file, func(_ *corev1.Pod, answer *why.Answer) { answers = append(answers, answer) })
		return answers, err
	}
	client, err := from.connect()
	if err != nil {
		return nil, err
	}
	cluster := &why.Cluster{Client: *client}
	var failures []error
	for _, t := range targets {
		answer, err := cluster.Ask(command.Context(), t)
		if err != nil {
			failures = append(failures, err)
			answer = &why.Answer{Target: t.String(), Namespace: cluster.Namespace, Error: err.Error()}
		}
		answers = append(answers, answer)
	}
	return answers, errors.Join(failures...)
}

// preview asks about the pods of the objects of a file, - for stdin, and calls each with the
// pod as it would be, nil if there would be none, and the answer.
func preview(command *cobra.Command, from *cluster, file string, each func(*corev1.Pod, *why.Answer)) error {
	client, err := from.connect()
	if err != nil {
		return err
	}
	manifests, err := readManifests(file, command.InOrStdin())
	if err != nil {
		return err
	}
	cluster := &why.Cluster{Client: *client}
	return inNamespaces(command, client.Namespace, manifests, func(namespace string, m why.Manifest) error {
		cluster.Namespace = namespace
		p, answer, err := cluster.Preview(command.Context(), m)
		if err == nil {
			each(p, answer)
		}
		return err
	})
}

// readManifests reads the objects of a file, - for stdin.
func readManifests(name string, stdin io.Reader) ([]why.Manifest, error) {
	if name == "-" {
		return why.ReadManifests(stdin)
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("%s is a directory: name a file, or print its files into -f -", name)
	}
	manifests, err := why.ReadManifests(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return manifests, nil
}

// inNamespaces calls ask for each manifest with its namespace, or with kubectl's if it has
// none. Those whose pods only a controller can make are named on stderr, and are unknown.
func inNamespaces(command *cobra.Command, kubectls string, manifests []why.Manifest, ask func(namespace string, m why.Manifest) error) (unknown error) {
	chosen := command.Flags().Changed("namespace")
	for _, m := range manifests {
		if chosen && m.Namespace != "" && m.Namespace != kubectls {
			return &usageError{fmt.Errorf("%s is in namespace %q, and --namespace is %q: leave the flag out, or remove the namespace from the file", m.Name, m.Namespace, kubectls)}
		}
		if m.Pod == nil {
			unknown = errUnknown
			fmt.Fprint(command.ErrOrStderr(), printable.Text(onceItExists(m)))
			continue
		}
		if err := ask(cmp.Or(m.Namespace, kubectls), m); err != nil {
			return fmt.Errorf("asking about %s: %w", m.Name, err)
		}
	}
	return unknown
}

// onceItExists says how to ask about an object whose pods only a controller can make.
func onceItExists(m why.Manifest) string {
	flag := ""
	if m.Namespace != "" {
		flag = " -n " + m.Namespace
	}
	return fmt.Sprintf("%s: only a controller can make its pods; create it, and ask: kubectl entrypointer why%s %s\n", printable.Line(m.Name), printable.Line(flag), printable.Line(m.Ask))
}

func (s *whySettings) print(out io.Writer, answers []*why.Answer) error {
	if s.output == "" || s.output == wide {
		answered := slices.DeleteFunc(slices.Clone(answers), func(a *why.Answer) bool { return a.Error != "" }) // which goes to stderr
		for at, answer := range answered {
			if at > 0 {
				fmt.Fprintln(out)
			}
			if err := answer.Print(out, time.Now(), s.output == wide); err != nil {
				return err
			}
		}
		return nil
	}
	return printDocument(out, s.output, why.Answers{Answers: answers})
}

// orFinding returns the error for the exit code, after a question and its answers. A finding
// counts, whatever is unknown.
func orFinding(err, finding error) error {
	if errors.Is(err, errUnknown) {
		return cmp.Or(finding, err)
	}
	return cmp.Or(err, finding)
}

// verdict returns the error for the exit code. A finding counts, whatever is unknown.
func verdict(answers []*why.Answer) error {
	if slices.ContainsFunc(answers, func(a *why.Answer) bool { return !a.IsUnknown() && !a.IsWrapped() }) {
		return errFinding
	}
	if slices.ContainsFunc(answers, (*why.Answer).IsUnknown) {
		return errUnknown
	}
	return nil
}
