// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/logreader"
)

// settings are the flags.
type settings struct {
	container, stream, color string
	follow, prefix           bool
	tail                     int
}

const example = `  kubectl entrypointer logs pod/x
  kubectl entrypointer logs taskrun/build -f
  kubectl entrypointer logs pipelinerun/release --stream stderr
  kubectl entrypointer logs ksvc/hello --tail 20 -f`

const long = `Prints what containers have printed, from the log service, also when they are gone.
TYPE is pod (which may be left out), taskrun, pipelinerun, ksvc or revision.

Containers come in the order in which they started, and of each its stdout before its
stderr. With -f, lines come as they arrive: those of a stream are in order, and the
streams and containers are mixed. It ends when a pod or run has come to its end, and
all of its logs are there; of a ksvc or revision, when it is interrupted.

In the place of bytes that were dropped, or never came, is a line that says so.`

func logsCommand() *cobra.Command {
	var s settings
	config := genericclioptions.NewConfigFlags(true)
	command := &cobra.Command{
		Use: "logs [TYPE/]NAME", Short: "Print what containers have printed", Long: long, Example: example,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			options, err := s.options(args[0], command)
			if err != nil {
				return err
			}
			client, err := connect(config)
			if err != nil {
				return err
			}
			return client.Print(command.Context(), options)
		},
	}
	flags := command.Flags()
	flags.StringVarP(&s.container, "container", "c", "", "print the logs of this container only")
	flags.StringVar(&s.stream, "stream", "", "print stdout or stderr only")
	flags.BoolVarP(&s.follow, "follow", "f", false, "go on with what comes")
	flags.IntVar(&s.tail, "tail", -1, "begin with so many of the last lines of each stream; -1 is all")
	flags.BoolVar(&s.prefix, "prefix", false, "begin each line with its pod and container (the default where there are several, and with -f for all but pods)")
	flags.StringVar(&s.color, "color", "auto", "give each container a color: auto (on a terminal), always or never")
	config.AddFlags(flags)
	return command
}

func (s *settings) options(target string, command *cobra.Command) (o logreader.Options, err error) {
	if o.Target, err = logreader.ParseTarget(target); err != nil {
		return o, err
	}
	if s.stream != "" && s.stream != "stdout" && s.stream != "stderr" {
		return o, fmt.Errorf("--stream is %q: use stdout or stderr, or leave it out for both", s.stream)
	}
	out := command.OutOrStdout()
	o.Printer = logreader.NewPrinter(out)
	if o.Printer.Color, err = colors(s.color, out); err != nil {
		return o, err
	}
	if command.Flags().Changed("prefix") {
		o.Printer.Prefix = &s.prefix
	}
	o.Container, o.Stream, o.Follow, o.Tail, o.Warnings = s.container, s.stream, s.follow, s.tail, command.ErrOrStderr()
	return o, nil
}

func colors(when string, out io.Writer) (bool, error) {
	switch when {
	case "always", "never":
		return when == "always", nil
	case "auto":
		file, is := out.(*os.File)
		return is && os.Getenv("NO_COLOR") == "" && term.IsTerminal(int(file.Fd())), nil
	default:
		return false, errors.New("--color is " + when + ": use auto, always or never")
	}
}

// questionsAtOnce are asked without a pause: the API server has its own limits.
const questionsAtOnce = 50

// connect finds the cluster and namespace as kubectl does.
func connect(flags *genericclioptions.ConfigFlags) (*logreader.Client, error) {
	config, err := flags.ToRESTConfig()
	if err != nil {
		return nil, fmt.Errorf("finding the cluster: %w", err)
	}
	namespace, _, err := flags.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, fmt.Errorf("finding the namespace: %w", err)
	}
	config.QPS, config.Burst = questionsAtOnce, questionsAtOnce
	config.NegotiatedSerializer = scheme.Codecs.WithoutConversion() // of errors
	client, err := rest.UnversionedRESTClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making a client of the API server: %w", err)
	}
	return &logreader.Client{REST: client, Namespace: namespace}, nil
}
