// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/entrypointer/entrypointer/internal/logview"
	"github.com/entrypointer/entrypointer/internal/page"
	"github.com/entrypointer/entrypointer/internal/target"
	"github.com/entrypointer/entrypointer/internal/tracelink"
)

const uiExamples = `  kubectl entrypointer ui
  kubectl entrypointer ui -n team-a taskrun/build
  kubectl entrypointer ui --port 8001
  kubectl entrypointer ui --trace-url 'https://jaeger.example/trace/{traceID}'`

var uiDescription = `Serve a page on this machine, at the address that is printed: the runs of a namespace, also
those that are gone, where the time of each went, and what its containers printed. With TYPE/NAME, it is the address of
this run. TYPE is ` + target.Types(target.All()) + `,
and pod by default.

The page asks the API server with your own rights. It listens on 127.0.0.1 alone, and
whoever has the address can read what you can read, so keep it to yourself. The command
ends when it is interrupted, and the address is worth nothing then.`

func uiCommand() *cobra.Command {
	var port uint16
	var traceURL, perfettoURL string
	var from *cluster
	command := &cobra.Command{
		Use: "ui [[TYPE/]NAME]", Short: "Show runs and their timelines in a browser", Long: uiDescription, Example: uiExamples,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: func(command *cobra.Command, args []string) error {
			named, err := parseAll(args)
			if err != nil {
				return err
			}
			traces, err := traceTemplate(command, traceURL)
			if err != nil {
				return err
			}
			perfetto, err := page.ParsePerfetto(perfettoURL)
			if err != nil {
				return &usageError{fmt.Errorf("--perfetto-url: %w", err)}
			}
			client, err := from.connect()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(command.Context(), syscall.SIGINT, syscall.SIGTERM)
			defer stop()
			return serveUI(ctx, command, page.Options{Client: *client, Traces: traces, Perfetto: perfetto}, named, port)
		},
	}
	command.Flags().Uint16Var(&port, "port", 0, "the port on 127.0.0.1; a free one by default")
	command.Flags().StringVar(&traceURL, "trace-url", os.Getenv(traceURLVariable), "where traces are: the URL of one, with "+tracelink.Placeholder+" in the place of its id; "+traceURLVariable+" by default")
	command.Flags().StringVar(&perfettoURL, "perfetto-url", page.DefaultPerfetto, "the Perfetto in which runs can be opened; none if it is empty")
	from = kubectlFlags(command)
	completeTargets(command, from, target.All(), 0, 1)
	return command
}

// traceURLVariable is the variable with the default of --trace-url.
const traceURLVariable = "ENTRYPOINTER_TRACE_URL"

// traceTemplate parses the value of --trace-url, or of the variable in its place.
func traceTemplate(command *cobra.Command, value string) (tracelink.Template, error) {
	from := "--trace-url"
	if !command.Flags().Changed("trace-url") {
		from = traceURLVariable
	}
	template, err := tracelink.Parse(value)
	if err != nil {
		return template, &usageError{fmt.Errorf("%s: %w", from, err)}
	}
	return template, nil
}

// serveUI serves the page until ctx is done.
func serveUI(ctx context.Context, command *cobra.Command, o page.Options, named []target.Target, port uint16) error {
	if err := logview.CheckDirectory(""); err != nil {
		return fmt.Errorf("looking for room for the logs that the page shows: %w: set TMPDIR to a directory to which you can write", err)
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port)))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening on %s: %w: use another --port", address, err)
	}
	defer listener.Close()
	_, served, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		return err
	}
	token := page.NewToken()
	path := page.Path("/"+token, o.Client.Namespace, nil)
	if len(named) > 0 {
		path = page.Path("/"+token, o.Client.Namespace, &named[0])
	}
	if _, err := fmt.Fprintf(command.OutOrStdout(), "http://%s%s\n", listener.Addr(), path); err != nil {
		return err
	}
	_, _ = fmt.Fprintln(command.ErrOrStderr(), "Open this address in a browser on this machine. Ctrl-C ends the page.")
	logs := logview.New(logview.Options{})
	defer logs.Close()
	o.Base, o.Logs = "/"+token, logs
	return page.Serve(ctx, listener, page.Gate(token, served, page.New(o)))
}
