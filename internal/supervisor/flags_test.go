// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/await"
	"github.com/entrypointer/entrypointer/internal/order"
	"github.com/entrypointer/entrypointer/internal/supervisor/launch"
	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
	"github.com/entrypointer/entrypointer/internal/supervisor/pause"
	"github.com/entrypointer/entrypointer/internal/supervisor/pipe"
	"github.com/entrypointer/entrypointer/internal/supervisor/startorder"
	"github.com/entrypointer/entrypointer/pkg/conditions"
	"github.com/entrypointer/entrypointer/pkg/exitcodes"
)

// with returns the options of a command line with this flag only.
func with(change func(*options)) *options {
	o := defaults()
	change(o)
	return o
}

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want *options
		err  string // a part of it
	}{
		"a command":                {[]string{"--", "a", "b"}, with(func(o *options) { o.argv = []string{"a", "b"} }), ""},
		"no command":               {[]string{"--"}, with(func(o *options) { o.argv = []string{} }), ""},
		"to the letter":            {[]string{"--", "--", "-mode"}, with(func(o *options) { o.argv = []string{"--", "-mode"} }), ""},
		"value apart":              {[]string{"-mode", "exec", "--"}, with(func(o *options) { o.mode, o.argv = modeExec, []string{} }), ""},
		"value joined":             {[]string{"--mode=exec", "--"}, with(func(o *options) { o.mode, o.argv = modeExec, []string{} }), ""},
		"last one wins":            {[]string{"-mode=exec", "-mode=supervise", "--"}, with(func(o *options) { o.argv = []string{} }), ""},
		"help needs no command":    {[]string{"-help"}, &options{help: true}, ""},
		"version needs no command": {[]string{"--version", "-nope"}, &options{version: true}, ""},
		"waiting": {
			[]string{"-wait-file=/a", "-wait-content=/b", "-wait-abort=/c", "-wait-abort-content=/e", "-wait-timeout=1m", "-post-file=/d", "--"},
			with(func(o *options) {
				o.argv = []string{}
				o.handoff.Wait = await.Files{All: []await.File{{Path: "/a"}, {Path: "/b", Content: true}}, Abort: []await.File{{Path: "/c"}, {Path: "/e", Content: true}}}
				o.handoff.Limit = time.Minute
				o.tekton.PostFile = "/d"
			}), "",
		},
		"the environment": {
			[]string{"-unset-env=A", "-env=B=", "-env", "C=a=b", "-env-file=/e", "--"},
			with(func(o *options) {
				o.argv = []string{}
				o.env = launch.Edits{Unset: []string{"A"}, Files: []string{"/e"}, Set: []string{"B=", "C=a=b"}}
			}), "",
		},
		"hooks": {
			[]string{"-before-start=sh", "-before-start-arg=-c", "-before-start-arg", "true", "-before-start=b", "-before-start-timeout=5s", "--"},
			with(func(o *options) {
				o.argv = []string{}
				o.hooks.Argvs, o.hooks.Timeout = [][]string{{"sh", "-c", "true"}, {"b"}}, 5*time.Second
			}), "",
		},
		"limits": {
			[]string{"-timeout=1h30m", "-grace-period=1s", "-success-exit-codes=3,10-12", "--"},
			with(func(o *options) {
				o.argv = []string{}
				o.timeout.After, o.ending.Grace, o.successes = 90*time.Minute, time.Second, exitcodes.Set{{From: 3, To: 3}, {From: 10, To: 12}}
			}), "",
		},
		"reports": {
			[]string{"-status-file=/s", "-termination-message=/t", "-pause=before-start,after-failure", "--"},
			with(func(o *options) {
				o.argv = []string{}
				o.report.File, o.report.TerminationMessage, o.pause.Places = "/s", "/t", []string{pause.BeforeStart, pause.AfterFailure}
			}), "",
		},
		"an order": {
			[]string{
				"-depends-on=ready:/o/db", "-depends-on=completed:/o/a-b", "-final-exit-codes=0,3-255:/o/a-b", "-depends-on-timeout=30s", "-order-dir=/o/web", "-order-heartbeat",
				"-ready-http=http://:80/ok", "-ready-http-header=A: b", "-ready-period=5s", "-ready-timeout=2s", "--",
			},
			with(func(o *options) {
				o.argv = []string{}
				o.startOrder.DependsOn = []order.Dependency{{Condition: conditions.Ready, Dir: "/o/db"}, {Condition: conditions.Completed, Dir: "/o/a-b", Final: ends("0,3-255")}}
				o.startOrder.FinalEnds = []startorder.ContainerEnds{{Dir: "/o/a-b", Final: ends("0,3-255")}}
				o.startOrder.Timeout, o.presence.Dir, o.presence.Heartbeat = 30*time.Second, "/o/web", true
				o.presence.Ready = order.Probe{
					HTTP: &order.Endpoint{Port: 80}, Path: "/ok", Headers: []string{"A: b"}, Period: 5 * time.Second, Timeout: 2 * time.Second,
				}
			}), "",
		},
		"a pipe": {
			[]string{"-order-dir=/o/b", "-stdin-from=/o/a", "-stdout-to=/o/c", "-final-exit-codes=0:/o/a", "-final-exit-codes=0-255:/o/c", "--"},
			with(func(o *options) {
				o.argv, o.presence.Dir = []string{}, "/o/b"
				o.pipe = pipe.Options{From: order.Partner{Dir: "/o/a", Final: ends("0")}, To: order.Partner{Dir: "/o/c", Final: ends("0-255")}}
				o.startOrder.FinalEnds = []startorder.ContainerEnds{{Dir: "/o/a", Final: ends("0")}, {Dir: "/o/c", Final: ends("0-255")}}
			}), "",
		},
		"a command that finds out": {
			[]string{"-order-dir=/o", "-ready-exec=test", "-ready-exec=-e", "-ready-exec=", "--"},
			with(func(o *options) {
				o.argv, o.presence.Dir, o.presence.Ready.Exec = []string{}, "/o", []string{"test", "-e", ""}
			}), "",
		},

		"the end of sidecars": {
			[]string{"-order-dir=/o/a", "-end-sidecar=http://:9091/quit", "-end-sidecars-on=0-255", "-end-sidecars-when=completed:/o/b", "-wait-for=file:///x", "--"},
			with(func(o *options) {
				o.argv, o.presence.Dir = []string{}, "/o/a"
				o.sidecars.Targets, o.startOrder.WaitFor = []order.Target{targetOf("http://:9091/quit")}, []order.Target{targetOf("file:///x")}
				o.sidecars.On, o.sidecars.When = ends("0-255").Codes, []order.Dependency{{Condition: conditions.Completed, Dir: "/o/b"}}
			}), "",
		},

		"nothing":               {nil, nil, `no "--" in it`},
		"no --":                 {[]string{"-mode", "exec"}, nil, `no "--" in it`},
		"command without --":    {[]string{"ls", "--"}, nil, `parsing "ls": neither a flag nor`},
		"single dash":           {[]string{"-", "--"}, nil, `parsing "-": unknown flag`},
		"three dashes":          {[]string{"---mode=exec", "--"}, nil, `parsing "---mode=exec": unknown flag`},
		"empty argument":        {[]string{"", "--"}, nil, `parsing "": neither a flag nor`},
		"unknown":               {[]string{"-mod=exec", "--"}, nil, `parsing "-mod=exec": unknown flag`},
		"unknown value":         {[]string{"-mode=", "--"}, nil, `parsing "-mode=": unknown mode`},
		"-- is no value":        {[]string{"-mode", "--", "exec"}, nil, `parsing "-mode": it needs a value`},
		"value for a boolean":   {[]string{"-version=true"}, nil, `parsing "-version=true": it takes no value`},
		"no platform":           {[]string{"-platform=linux", "--"}, nil, `parsing "-platform=linux": not a platform`},
		"relative path":         {[]string{"-wait-file=a", "--"}, nil, `parsing "-wait-file=a": not an absolute path: use one that begins with /`},
		"no variable":           {[]string{"-env=A", "--"}, nil, `parsing "-env=A": not a variable: use NAME=VALUE`},
		"no name of one":        {[]string{"-unset-env=A=", "--"}, nil, `parsing "-unset-env=A=": not a variable name`},
		"no unit":               {[]string{"-timeout=5", "--"}, nil, `parsing "-timeout=5": not a duration: use a number above zero with a unit, such as 90s`},
		"no time":               {[]string{"-timeout=0s", "--"}, nil, `parsing "-timeout=0s": not a duration`},
		"code too high":         {[]string{"-success-exit-codes=256", "--"}, nil, `use exit codes from 1 to 255`},
		"range upside down":     {[]string{"-success-exit-codes=3-2", "--"}, nil, `use exit codes`},
		"no place":              {[]string{"-pause=after-failure,", "--"}, nil, `unknown place`},
		"arg without a hook":    {[]string{"-before-start-arg=x", "--"}, nil, `no -before-start precedes it`},
		"no URL to wait for":    {[]string{"-wait-for=https://:1/", "--"}, nil, `not a URL to wait for: use http://`},
		"no URL to post to":     {[]string{"-end-sidecar=tcp://:1", "--"}, nil, `not a URL for a POST: use http://`},
		"no outcome":            {[]string{"-end-sidecars-on=ready", "--"}, nil, `not exit codes: use codes and ranges from 0 to 255`},
		"no outcome of another": {[]string{"-end-sidecars-when=started:/o/b", "--"}, nil, `not an outcome of another container`},
		"no condition":          {[]string{"-end-sidecar=http://:1/", "--"}, nil, `use -end-sidecars-on as well`},
		"no sidecar named":      {[]string{"-end-sidecars-on=0-255", "--"}, nil, `use -end-sidecar as well`},
		"unobserved by others":  {[]string{"-end-sidecar=http://:1/", "-end-sidecars-on=0-255", "-end-sidecars-when=exited:/b", "--"}, nil, `use -order-dir as well`},
		"exec ends no sidecar":  {[]string{"-mode=exec", "-end-sidecar=http://:1/", "-end-sidecars-on=0-255", "--"}, nil, `not together with -end-sidecar`},
		"held with a sidecar":   {[]string{"-hold=1s", "-end-sidecar=http://:1/", "-end-sidecars-on=0-255", "--"}, nil, `not together with -end-sidecar`},
		"exec has no timeout":   {[]string{"-mode=exec", "-timeout=1s", "--"}, nil, `not together with -timeout`},
		"hold and a limit":      {[]string{"-hold=1s", "-wait-timeout=1s", "--"}, nil, `not together with -wait-timeout`},
		"exec holds nothing":    {[]string{"-mode=exec", "-hold=1s", "--"}, nil, `not together with -hold`},
		"no directory":          {[]string{"-depends-on=ready:db", "--"}, nil, `not a dependency: use started, ready`},
		"unclean directory":     {[]string{"-depends-on=ready:/o/../db", "--"}, nil, `not a dependency`},
		"heartbeats":            {[]string{"-order-heartbeat", "x", "--"}, nil, `parsing "x": neither a flag`},
		"no codes of a partner": {[]string{"-final-exit-codes=256:/o/a", "--"}, nil, `not exit codes of a container: use codes and ranges from 0 to 255`},
		"final, no pipe":        {[]string{"-depends-on=started:/o/b", "-final-exit-codes=0:/o/a", "--"}, nil, `no other flag names this container`},
		"no order directory":    {[]string{"-stdin-from=/o/a", "--"}, nil, `use -order-dir as well`},
		"between kernels":       {[]string{"-order-dir=/o/b", "-stdin-from=/o/a", "-order-heartbeat", "--"}, nil, `containers with kernels of their own can't share a pipe`},
		"exec has no pipe":      {[]string{"-order-dir=/o/b", "-stdin-from=/o/a", "-mode=exec", "--"}, nil, `not together with -stdin-from and -stdout-to`},
		"arg, no platform":      {[]string{"-arg=x", "--"}, nil, `parsing "-arg=x": no -platform precedes it`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(test.args)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				var f *outcome.Failure
				require.ErrorAs(t, err, &f)
				require.Equal(t, outcome.CodeOwnFailure, f.Code)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

// FuzzParse separates the arguments by newlines. Whatever they are, the command is
// everything after the first --, or there is an error of one line.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"--\necho\nhi", "-mode\nexec\n--\na", "-mode=exec\n--\n--\n-mode", "-mode\n--\nexec", "-platform\nlinux/amd64\n-arg\na\n-arg=--\n--\nx",
		"-platform=linux/arm/v7\n--", "-before-start=a\n-before-start-arg=b\n-pause=before-start\n--\nx", "-mode=exec\n-timeout=1s\n--",
		"-success-exit-codes=1,2-3\n-env=A=b\n--", "-order-heartbeat\n-depends-on=ready:/a\n--", "-order-heartbeat=\n--", "-help", "--version", "-x", "x", "", "-", "---", "-mode", "--=", "-=\n--", "-platform=\n--", "-arg=\n--",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		args := strings.Split(s, "\n")
		opts, err := parse(args)
		end := slices.Index(args, "--")
		switch {
		case err != nil:
			require.Nil(t, opts)
			require.NotContains(t, err.Error(), "\n")
		case opts.help, opts.version:
		default:
			require.GreaterOrEqual(t, end, 0)
			require.Equal(t, args[end+1:], opts.argv)
			require.Contains(t, []string{modeSupervise, modeExec}, opts.mode)
		}
	})
}

// ends are the ends with these exit codes.
func ends(codes string) (f order.FinalEnds) {
	f.Codes, _ = exitcodes.ParseAll(codes)
	return f
}
