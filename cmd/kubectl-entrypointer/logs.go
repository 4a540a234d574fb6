// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/entrypointer/entrypointer/internal/logreader"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/pkg/loglabels"
)

// settings are the values of the flags.
type settings struct {
	container, stream, color, selector   string
	previous, follow, prefix, timestamps bool
	events                               bool
	output                               string
	tail                                 int
	since                                time.Duration
	sinceTime, until                     string
	grep                                 grepSettings
	list                                 bool
	limit                                int
}

const examples = `  kubectl entrypointer logs pod/x
  kubectl entrypointer logs taskrun/build -f
  kubectl entrypointer logs taskrun/build step-test
  kubectl entrypointer logs pipelinerun/release --stream stderr
  kubectl entrypointer logs ksvc/hello --tail 20 -f
  kubectl entrypointer logs job/report
  kubectl entrypointer logs pod/x --previous
  kubectl entrypointer logs -l app=web -f
  kubectl entrypointer logs pod/x --timestamps --since 10m
  kubectl entrypointer logs deploy/web --since-time 2026-11-26T03:00:00Z --until 2026-11-26T04:00:00Z
  kubectl entrypointer logs taskrun/build --events
  kubectl entrypointer logs taskrun/build --grep 'connection (refused|reset)' -C 3
  kubectl entrypointer logs --grep timeout --since 24h
  kubectl entrypointer logs --list --since 24h
  kubectl entrypointer logs --list cronjob/report`

var description = `Print the logs of containers from the log service, also after their pods are gone.
TYPE is ` + target.Types(target.All()) + `, and pod by default.

The lines of all containers, of stdout and of stderr, are sorted by the time at which
they were printed. Lines of the same few milliseconds may be out of order: a container's
stdout then precedes its stderr. For logs that an earlier version has sent, the time is
that of their arrival at the log service.

With -f, lines are printed as they arrive. The command ends when the pod or run has ended
and its logs are complete. For what has no end, such as a deployment or a ksvc, and with
-l, it runs until it is interrupted.

The logs of a deployment, replicaset, statefulset, daemonset, job or cronjob are found by
the controller that each pod had when it was created: of a deployment by the name of its
ReplicaSet and the label pod-template-hash, and of a cronjob by the name of the Job, which
ends with the time for which it was scheduled, in Unix minutes.

With -l, the logs of the pods with these labels are printed. The log service itself finds
logs, also of pods that are gone, by the labels
  ` + strings.Join(loglabels.OfPods(), "\n  ") + `
For other labels, the pods that exist are listed, and their logs are read: of ` + strconv.Itoa(logreader.MostSelected) + `
pods at most. For that, you need the right to list pods.

With --previous, only the logs of the run of each container before its last one are
printed. For a pod that exists, it is the run before the last restart.

With --grep, the log service searches, and only lines that match are printed, as they are
found: of one container after another, the ones that have begun last first. Without an
object, all logs of the namespace are searched, for which you need the right to get
pods/log of all its pods. The exit code is 79 if no line matches. With -f, --previous and
--tail, the plugin reads the logs and picks the lines, in the order in which they were
printed.

With --list, the pods of the namespace that have logs are listed, the newest first, also
those that are gone: all, or those of an object or of labels that the log service keeps.
FIRST and LAST are the times at which the first and the last container have begun to
print. You need the right to get pods/log of all pods of the namespace.

Where bytes were dropped or are missing, a line says so. If a container has ended, but
the end of its log is unknown, or the log service has nothing of it, stderr says so, and
the exit code is 3.`

func logsCommand() *cobra.Command {
	var s settings
	var from *cluster
	command := &cobra.Command{
		Use: "logs ([TYPE/]NAME [CONTAINER] | -l LABELS | --grep RE | --list [TYPE/NAME | -l LABELS])", Short: "Print the logs of containers", Long: description, Example: examples,
		Args: usageArgs(cobra.MaximumNArgs(2)),
		RunE: func(command *cobra.Command, args []string) error {
			if s.list {
				return s.listPods(args, command, from)
			}
			options, err := s.options(args, command)
			if err != nil {
				return &usageError{err}
			}
			client, err := from.connect()
			if err != nil {
				return err
			}
			logs := &logreader.Client{REST: client.REST, Namespace: client.Namespace}
			if !s.searches() {
				return logs.Print(command.Context(), options)
			}
			err = logs.Search(command.Context(), options, s.grep.search(s.limit))
			if errors.Is(err, logreader.ErrNothingFound) {
				return errFinding
			}
			return err
		},
	}
	flags := command.Flags()
	flags.StringVarP(&s.selector, "selector", "l", "", "print the logs of the pods with these labels, such as app=web,tier!=db")
	flags.StringVarP(&s.container, "container", "c", "", "print only the logs of this container")
	flags.StringVar(&s.stream, "stream", "", "print only stdout, or only stderr")
	flags.BoolVarP(&s.follow, "follow", "f", false, "print new lines until the pod or run has ended")
	flags.BoolVarP(&s.previous, "previous", "p", false, "print only the logs of the run of each container before its last one")
	flags.IntVar(&s.tail, "tail", -1, "the number of last lines of each stream to begin with; -1 stands for all")
	flags.BoolVar(&s.prefix, "prefix", false, "begin each line with its pod and container (the default for several containers, with -f for all types but pod, and with --grep unless one container of a pod is named)")
	flags.BoolVar(&s.timestamps, "timestamps", false, "begin each line with the time at which it was printed")
	flags.DurationVar(&s.since, "since", 0, "print only lines newer than a duration, such as 5s, 2m or 3h; with --list, pods of which a container has begun to print since then")
	flags.StringVar(&s.sinceTime, "since-time", "", "print only lines from this time on (RFC 3339)")
	flags.StringVar(&s.until, "until", "", "print only lines older than a duration, such as 5s, 2m or 3h, or from before a time (RFC 3339); with --list, pods of which a container has begun to print before")
	s.grep.register(command)
	flags.BoolVar(&s.events, "events", false, "print the events of the containers instead of their output")
	flags.StringVarP(&s.output, "output", "o", "", "with --events, json prints the events as they are stored; with --list, json or yaml prints a document, and wide more columns")
	flags.BoolVar(&s.list, "list", false, "list the pods that have logs, also those that are gone, instead of printing logs")
	flags.IntVar(&s.limit, "limit", 0, fmt.Sprintf("with --list, the number of pods (%d by default); with --grep, of lines that match (%d by default)", listedPods, foundLines))
	flags.StringVar(&s.color, "color", "auto", "print each container in its own color: auto (on a terminal), always or never")
	from = kubectlFlags(command)
	completeTargets(command, from, target.All(), 0, 1)
	completeOutput(command, "json", "yaml", wide)
	return command
}

func (s *settings) options(args []string, command *cobra.Command) (o logreader.Options, err error) {
	if err := s.checkLimit(command, foundLines); err != nil {
		return o, err
	}
	if err := s.choose(&o, args); err != nil {
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
	if s.previous && s.follow {
		return o, errors.New("--previous and --follow are both set: use one of them, because a run that is over prints nothing any more")
	}
	o.Printer.Timestamps = s.timestamps
	if o.Printer.Span, err = s.span(time.Now()); err != nil {
		return o, err
	}
	if err := s.match(&o, command); err != nil {
		return o, err
	}
	if err := s.showEvents(&o); err != nil {
		return o, err
	}
	o.Stream, o.Previous, o.Follow, o.Tail, o.Warnings = s.stream, s.previous, s.follow, s.tail, command.ErrOrStderr()
	return o, nil
}

// choose sets whose logs are printed, and of which container.
func (s *settings) choose(o *logreader.Options, args []string) (err error) {
	o.Container = s.container
	switch {
	case len(args) == 0 && s.selector == "" && s.searches():
		return nil
	case (len(args) > 0) == (s.selector != ""):
		return errors.New("name one object, as TYPE/NAME, or labels of pods by --selector")
	case s.selector != "":
		if o.Selector, err = labels.Parse(s.selector); err != nil {
			return fmt.Errorf("--selector is %q: use labels such as app=web,tier!=db: %w", s.selector, err)
		}
		return nil
	case len(args) == 2 && s.container != "":
		return fmt.Errorf("the container %q and --container are both set: use one of them", args[1])
	case len(args) == 2:
		o.Container = args[1]
	}
	o.Target, err = target.Parse(args[0], target.All())
	return err
}

// begin returns the time from which on lines are printed, zero for all.
func (s *settings) begin(now time.Time) (time.Time, error) {
	switch {
	case s.since < 0:
		return time.Time{}, fmt.Errorf("--since is %s: use a duration that isn't negative", s.since)
	case s.since > 0 && s.sinceTime != "":
		return time.Time{}, errors.New("--since and --since-time are both set: use one of them")
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

// span returns the span of time of which lines are printed.
func (s *settings) span(now time.Time) (span logreader.Span, err error) {
	if span.Since, err = s.begin(now); err != nil || s.until == "" {
		return span, err
	}
	if s.follow {
		return span, errors.New("--until and --follow are both set: use one of them, because following ends with the pod or run")
	}
	if span.Until, err = time.Parse(time.RFC3339, s.until); err != nil {
		before, err := time.ParseDuration(s.until)
		if err != nil || before < 0 {
			return span, fmt.Errorf("--until is %q: use a duration such as 2m, or a time such as %s", s.until, now.UTC().Format(time.RFC3339))
		}
		span.Until = now.Add(-before)
	}
	if !span.Since.Before(span.Until) {
		return span, fmt.Errorf("--until is %s, which isn't after %s of --since: use a later time", span.Until.UTC().Format(time.RFC3339), span.Since.UTC().Format(time.RFC3339))
	}
	return span, nil
}

func (s *settings) showEvents(o *logreader.Options) error {
	switch {
	case s.output != "" && (s.output != "json" || !s.events):
		return fmt.Errorf("--output is %q: use json, with --events", s.output)
	case s.events && s.stream != "":
		return errors.New("--events and --stream are both set: use one of them, because events are a stream of their own")
	case s.events && s.output == "":
		o.Printer.Readable, o.Printer.Timestamps = true, true
	}
	o.Events, o.Printer.JSON = s.events, s.output == "json"
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
