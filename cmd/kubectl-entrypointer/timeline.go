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

	"github.com/entrypointer/entrypointer/internal/podstatus"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/internal/timeline"
)

const timelineExamples = `  kubectl entrypointer timeline taskrun/build
  kubectl entrypointer timeline deployment/web
  kubectl entrypointer timeline pipelinerun/release -o svg > release.svg
  kubectl entrypointer timeline pipelinerun/release -o perfetto > release.pftrace`

var timelineDescription = `Show where the time went in the containers of an object's pods: how long each waited
and ran, image pulls, and what the hand-offs from one container to the next cost; of a
PipelineRun, its critical path as well. TYPE is ` + target.Types(target.All()) + `,
and pod by default.

The times are those of the log service, for containers that send their output, also
after their pods are gone; of supervisors, which are asked as by kubectl exec; of
Tekton; and of the kubelet, in whole seconds. What you may not read is left out, and a
note says so.

The exit code is 0 if there is a timeline, 79 if there are no pods, 64 for wrong
arguments, and 1 if that couldn't be found out.`

// defaultWidth is the width of what isn't printed on a terminal, in characters.
const defaultWidth = 120

// timelineSettings are the values of the flags.
type timelineSettings struct {
	output string
	width  int
}

func timelineCommand() *cobra.Command {
	var s timelineSettings
	var from *cluster
	command := &cobra.Command{
		Use: "timeline [TYPE/]NAME", Short: "Show where the time went in containers", Long: timelineDescription, Example: timelineExamples,
		Args: oneObject,
		RunE: func(command *cobra.Command, args []string) error {
			out := command.OutOrStdout()
			if err := s.check(out); err != nil {
				return &usageError{err}
			}
			named, client, err := from.connectFor(args[0])
			if err != nil {
				return err
			}
			reader := &timeline.Reader{Reader: *podstatus.NewReader(client)}
			t, err := reader.Read(command.Context(), named, time.Now())
			if err != nil {
				return err
			}
			if err := s.print(out, t); err != nil {
				return err
			}
			if len(t.Pods) == 0 {
				return errFinding
			}
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVarP(&s.output, "output", "o", "", "svg, perfetto, json or yaml, instead of text")
	flags.IntVar(&s.width, "width", 0, "the width of the text in characters, at least 40; that of the terminal by default")
	from = kubectlFlags(command)
	completeTargets(command, from, target.All(), 0, 1)
	completeOutput(command, "svg", "perfetto", "json", "yaml")
	return command
}

func (s *timelineSettings) check(out io.Writer) error {
	switch s.output {
	case "", "svg", asJSON, asYAML:
	case "perfetto":
		if terminalWidth(out) > 0 {
			return errors.New("--output is \"perfetto\", which isn't text: redirect it to a file")
		}
	default:
		return fmt.Errorf("--output is %q: use svg, perfetto, json or yaml, or leave it out for text", s.output)
	}
	if s.width != 0 && s.width < timeline.NarrowestText {
		return fmt.Errorf("--width is %d: use at least %d, or leave it out for the width of the terminal", s.width, timeline.NarrowestText)
	}
	return nil
}

func (s *timelineSettings) print(out io.Writer, t *timeline.Timeline) error {
	switch s.output {
	case "svg":
		return t.WriteSVG(out)
	case "perfetto":
		return t.WritePerfetto(out)
	case "":
		width := s.width
		if width == 0 {
			width = terminalWidth(out)
		}
		if width == 0 {
			width = defaultWidth
		}
		return t.Print(out, min(width, 1000))
	}
	return printDocument(out, s.output, t)
}

// terminalWidth returns the width of a terminal, 0 for what is none.
func terminalWidth(out io.Writer) int {
	file, is := out.(*os.File)
	if !is {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}
