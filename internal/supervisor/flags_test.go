// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	for name, test := range map[string]struct {
		args []string
		want *options
		err  string // a part of it
	}{
		"a command":                {[]string{"--", "a", "b"}, &options{mode: modeSupervise, argv: []string{"a", "b"}}, ""},
		"no command":               {[]string{"--"}, &options{mode: modeSupervise, argv: []string{}}, ""},
		"to the letter":            {[]string{"--", "--", "-mode"}, &options{mode: modeSupervise, argv: []string{"--", "-mode"}}, ""},
		"value apart":              {[]string{"-mode", "exec", "--"}, &options{mode: modeExec, argv: []string{}}, ""},
		"value joined":             {[]string{"--mode=exec", "--"}, &options{mode: modeExec, argv: []string{}}, ""},
		"last one wins":            {[]string{"-mode=exec", "-mode=supervise", "--"}, &options{mode: modeSupervise, argv: []string{}}, ""},
		"help needs no command":    {[]string{"-help"}, &options{help: true}, ""},
		"version needs no command": {[]string{"--version", "-nope"}, &options{version: true}, ""},
		"platforms": {
			[]string{"-platform=linux/amd64", "-arg=/tini", "-arg=--", "-arg=", "-platform", "linux/arm", "--"},
			&options{mode: modeSupervise, argv: []string{}, platforms: []platformArgv{
				{"linux/amd64", []string{"/tini", "--", ""}}, {"linux/arm/v7", nil},
			}}, "",
		},

		"nothing":             {nil, nil, `no "--" in it`},
		"no --":               {[]string{"-mode", "exec"}, nil, `no "--" in it`},
		"command without --":  {[]string{"ls", "--"}, nil, `parsing "ls": not a flag`},
		"single dash":         {[]string{"-", "--"}, nil, `parsing "-": unknown flag`},
		"three dashes":        {[]string{"---mode=exec", "--"}, nil, `parsing "---mode=exec": unknown flag`},
		"empty argument":      {[]string{"", "--"}, nil, `parsing "": not a flag`},
		"unknown":             {[]string{"-mod=exec", "--"}, nil, `parsing "-mod=exec": unknown flag`},
		"unknown value":       {[]string{"-mode=", "--"}, nil, `parsing "-mode=": unknown mode`},
		"-- is no value":      {[]string{"-mode", "--", "exec"}, nil, `parsing "-mode": it needs a value`},
		"value for a boolean": {[]string{"-version=true"}, nil, `parsing "-version=true": it takes no value`},
		"no platform":         {[]string{"-platform=linux", "--"}, nil, `parsing "-platform=linux": no platform`},
		"whose argument":      {[]string{"-arg=x", "--"}, nil, `parsing "-arg=x": it belongs to no platform`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parse(test.args)
			if test.err != "" {
				require.ErrorContains(t, err, test.err)
				var f *failure
				require.ErrorAs(t, err, &f)
				require.Equal(t, exitOwnFailure, f.code)
				return
			}
			require.NoError(t, err)
			require.Equal(t, test.want, got)
		})
	}
}

// FuzzParse has its arguments separated by newlines. Whatever they are, the
// command is what follows the first --, or there is an error of one line.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"--\necho\nhi", "-mode\nexec\n--\na", "-mode=exec\n--\n--\n-mode", "-mode\n--\nexec", "-platform\nlinux/amd64\n-arg\na\n-arg=--\n--\nx",
		"-platform=linux/arm/v7\n--", "-help", "--version", "-x", "x", "", "-", "---", "-mode", "--=", "-=\n--", "-platform=\n--", "-arg=\n--",
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
