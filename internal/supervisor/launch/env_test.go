// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launch

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnvironmentEdits(t *testing.T) {
	file := t.TempDir() + "/env"
	require.NoError(t, os.WriteFile(file, []byte("# a comment\n\nF='to the letter'\r\nB=file\n  \t# another\nG=a=b\n"), 0o600))
	env := []string{"A=1", "B=2", "A=3", "noequals", "", "AB=4"}
	for name, test := range map[string]struct {
		edits Edits
		want  []string
	}{
		"none":                  {Edits{}, env},
		"each of a name":        {Edits{Unset: []string{"A", "missing"}}, []string{"B=2", "noequals", "", "AB=4"}},
		"in the first's place":  {Edits{Set: []string{"A="}}, []string{"A=", "B=2", "noequals", "", "AB=4"}},
		"a new one at the end":  {Edits{Set: []string{"C=x=y"}}, append(slices.Clip(env), "C=x=y")},
		"a file":                {Edits{Files: []string{file}}, []string{"A=1", "B=file", "A=3", "noequals", "", "AB=4", "F='to the letter'", "G=a=b"}},
		"unset, file, set":      {Edits{Unset: []string{"A", "B"}, Files: []string{file}, Set: []string{"F=set"}}, []string{"noequals", "", "AB=4", "F=set", "B=file", "G=a=b"}},
		"the last of a name":    {Edits{Set: []string{"D=1", "D=2"}}, append(slices.Clip(env), "D=2")},
		"what was unset is set": {Edits{Unset: []string{"AB"}, Set: []string{"AB=5"}}, []string{"A=1", "B=2", "A=3", "noequals", "", "AB=5"}},
	} {
		got, err := test.edits.Apply(append([]string{}, env...))
		require.NoError(t, err, name)
		require.Equal(t, test.want, got, name)
	}
}

func TestADirectoryIsAddedToTheEndOfPATH(t *testing.T) {
	const tools = "/entrypointer/tools"
	for name, test := range map[string]struct {
		edits Edits
		env   []string
		want  []string
	}{
		"once":                        {Edits{Path: []string{tools}}, []string{"PATH=/a", "A=1"}, []string{"PATH=/a:" + tools, "A=1"}},
		"where it is already":         {Edits{Path: []string{tools}}, []string{"PATH=" + tools + ":/a"}, []string{"PATH=" + tools + ":/a"}},
		"where one begins like it":    {Edits{Path: []string{tools}}, []string{"PATH=" + tools + "2"}, []string{"PATH=" + tools + "2:" + tools}},
		"to none":                     {Edits{Path: []string{tools}}, []string{"A=1"}, []string{"A=1", "PATH=" + defaultPath + ":" + tools}},
		"to one that is unset":        {Edits{Unset: []string{"PATH"}, Path: []string{tools}}, []string{"PATH=/a"}, []string{"PATH=" + defaultPath + ":" + tools}},
		"to an empty one":             {Edits{Path: []string{tools}}, []string{"PATH="}, []string{"PATH=:" + tools}},
		"to what a variable sets":     {Edits{Set: []string{"PATH=/b"}, Path: []string{tools}}, []string{"PATH=/a"}, []string{"PATH=/b:" + tools}},
		"to the first, which counts":  {Edits{Path: []string{tools}}, []string{"PATH=/a", "PATH=/b"}, []string{"PATH=/a:" + tools}},
		"twice, and that is as once":  {Edits{Path: []string{tools, tools}}, []string{"PATH=/a"}, []string{"PATH=/a:" + tools}},
		"two, in the order of asking": {Edits{Path: []string{"/x", "/w"}}, []string{"PATH=/a"}, []string{"PATH=/a:/x:/w"}},
	} {
		got, err := test.edits.Apply(test.env)
		require.NoError(t, err, name)
		require.Equal(t, test.want, got, name)
	}
}

func TestAMalformedEnvFileIsRefused(t *testing.T) {
	dir := t.TempDir()
	for name, test := range map[string]struct{ content, want string }{
		"no variable": {"A=1\nexport\n", `line 2 is not a variable: use NAME=VALUE`},
		"no name":     {"=x", "line 1 is not a variable"},
		"a zero":      {"A=\x00", "line 1 is not a variable"},
		"too long":    {strings.Repeat("A=xxxxxx\n", 1<<17), "more than 1048576 bytes"},
	} {
		require.NoError(t, os.WriteFile(dir+"/env", []byte(test.content), 0o600))
		_, err := (&Edits{Files: []string{dir + "/env"}}).Apply(nil)
		require.ErrorContains(t, err, test.want, name)
	}
	_, err := (&Edits{Files: []string{dir + "/missing"}}).Apply(nil)
	require.ErrorContains(t, err, `reading variables from "`+dir+`/missing": no such file`)
}

func TestAFIFOAsEnvFileIsRefused(t *testing.T) {
	fifo := t.TempDir() + "/fifo"
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for name, want := range map[string]string{fifo: "it is a pipe", "/dev/zero": "more than 1048576 bytes", t.TempDir(): "is a directory"} {
		_, err := (&Edits{Files: []string{name}}).Apply(nil)
		require.ErrorContains(t, err, want, name)
	}
	got, err := (&Edits{Files: []string{"/dev/null"}}).Apply([]string{"A=1"})
	require.NoError(t, err)
	require.Equal(t, []string{"A=1"}, got)
}

// TestAFullEnvFileIsReadFast took minutes when setVariables searched all variables for
// each of them.
func TestAFullEnvFileIsReadFast(t *testing.T) {
	var content []byte
	for n := 0; len(content) < maxEnvFile-10; n++ {
		content = append(strconv.AppendInt(append(content, 'A'), int64(n), 10), "=\n"...)
	}
	file := t.TempDir() + "/env"
	require.NoError(t, os.WriteFile(file, content, 0o600))
	got, err := (&Edits{Files: []string{file}, Set: []string{"A7=7"}}).Apply([]string{"A0=x"})
	require.NoError(t, err)
	require.Len(t, got, bytes.Count(content, []byte("\n")))
	require.Equal(t, []string{"A0=", "A1="}, got[:2])
	require.Equal(t, "A7=7", got[7])
}

// FuzzEnvFile checks that lines without a variable are refused, and that the others are
// kept literally.
func FuzzEnvFile(f *testing.F) {
	for _, seed := range []string{"", "A=1", "A=1\nB=2\n", "#\n", "A", "=", "A=\x00", "A=\xff\r\n", " A=1"} {
		f.Add(seed)
	}
	name := f.TempDir() + "/env"
	f.Fuzz(func(t *testing.T, content string) {
		require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
		variables, err := readEnvFile(name)
		if err != nil {
			require.NotContains(t, err.Error(), "\n")
			return
		}
		for _, kv := range variables {
			require.Contains(t, content, kv)
			require.Positive(t, strings.Index(kv, "="))
		}
	})
}
