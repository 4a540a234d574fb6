// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/entrypointer/entrypointer/internal/logreader"
)

// settings are the flags.
type settings struct {
	container, stream, color   string
	follow, prefix, timestamps bool
	events                     bool
	output                     string
	tail                       int
	since                      time.Duration
	sinceTime                  string
}

const example = `  kubectl entrypointer logs pod/x
  kubectl entrypointer logs taskrun/build -f
  kubectl entrypointer logs pipelinerun/release --stream stderr
  kubectl entrypointer logs ksvc/hello --tail 20 -f
  kubectl entrypointer logs pod/x --timestamps --since 10m
  kubectl entrypointer logs taskrun/build --events`

const long = `Prints what containers have printed, from the log service, also when they are gone.
TYPE is pod (which may be left out), taskrun, pipelinerun, ksvc or revision.

Lines come in the order in which they were printed, of all containers and of stdout and
stderr. What came within a few milliseconds may be in another order: a container's
stdout is before its stderr then. Of what was sent by an earlier version, the time is
when the log service got it. With -f, lines come as they arrive. It ends when a pod or
run has come to its end, and all of its logs are there; of a ksvc or revision, when it
is interrupted.

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
	flags.BoolVar(&s.timestamps, "timestamps", false, "begin each line with the time at which it came")
	flags.DurationVar(&s.since, "since", 0, "leave out what came earlier than this long ago, such as 5s, 2m or 3h")
	flags.StringVar(&s.sinceTime, "since-time", "", "leave out what came before this time (RFC 3339)")
	flags.BoolVar(&s.events, "events", false, "print what happened to the containers, and not what they printed")
	flags.StringVarP(&s.output, "output", "o", "", "with --events, json for the events as they are stored")
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
	o.Printer.Timestamps = s.timestamps
	if o.Printer.Since, err = s.begin(time.Now()); err != nil {
		return o, err
	}
	if err := s.showEvents(&o); err != nil {
		return o, err
	}
	o.Container, o.Stream, o.Follow, o.Tail, o.Warnings = s.container, s.stream, s.follow, s.tail, command.ErrOrStderr()
	return o, nil
}

// begin is the time before which nothing is printed, zero for all.
func (s *settings) begin(now time.Time) (time.Time, error) {
	switch {
	case s.since < 0:
		return time.Time{}, fmt.Errorf("--since is %s: use a duration that isn't negative", s.since)
	case s.since > 0 && s.sinceTime != "":
		return time.Time{}, errors.New("--since and --since-time are both there: use one of them")
	case s.since > 0:
		return now.Add(-s.since), nil
	case s.sinceTime == "":
		return time.Time{}, nil
	}
	begin, err := time.Parse(time.RFC3339, s.sinceTime)
	if err != nil {
		return time.Time{}, fmt.Errorf("--since-time is %q: use a time such as %s", s.sinceTime, now.UTC().Format(time.RFC3339))
	}
	return begin, nil
}

func (s *settings) showEvents(o *logreader.Options) error {
	switch {
	case s.output != "" && (s.output != "json" || !s.events):
		return fmt.Errorf("--output is %q: use json, with --events", s.output)
	case s.events && s.stream != "":
		return errors.New("--events and --stream are both there: events are a stream of their own")
	case s.events && s.output == "":
		o.Printer.Readable, o.Printer.Timestamps = true, true
	}
	o.Events = s.events
	return nil
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
