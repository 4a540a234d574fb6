// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package supervisor

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
		edits environmentEdits
		want  []string
	}{
		"none":                  {environmentEdits{}, env},
		"each of a name":        {environmentEdits{unset: []string{"A", "missing"}}, []string{"B=2", "noequals", "", "AB=4"}},
		"in the first's place":  {environmentEdits{set: []string{"A="}}, []string{"A=", "B=2", "noequals", "", "AB=4"}},
		"a new one at the end":  {environmentEdits{set: []string{"C=x=y"}}, append(slices.Clip(env), "C=x=y")},
		"a file":                {environmentEdits{files: []string{file}}, []string{"A=1", "B=file", "A=3", "noequals", "", "AB=4", "F='to the letter'", "G=a=b"}},
		"unset, file, set":      {environmentEdits{unset: []string{"A", "B"}, files: []string{file}, set: []string{"F=set"}}, []string{"noequals", "", "AB=4", "F=set", "B=file", "G=a=b"}},
		"the last of a name":    {environmentEdits{set: []string{"D=1", "D=2"}}, append(slices.Clip(env), "D=2")},
		"what was unset is set": {environmentEdits{unset: []string{"AB"}, set: []string{"AB=5"}}, []string{"A=1", "B=2", "A=3", "noequals", "", "AB=5"}},
	} {
		got, err := test.edits.apply(append([]string{}, env...))
		require.NoError(t, err, name)
		require.Equal(t, test.want, got, name)
	}
}

func TestADirectoryIsAddedToTheEndOfPATH(t *testing.T) {
	const tools = "/entrypointer/tools"
	for name, test := range map[string]struct {
		edits environmentEdits
		env   []string
		want  []string
	}{
		"once":                        {environmentEdits{path: []string{tools}}, []string{"PATH=/a", "A=1"}, []string{"PATH=/a:" + tools, "A=1"}},
		"where it is already":         {environmentEdits{path: []string{tools}}, []string{"PATH=" + tools + ":/a"}, []string{"PATH=" + tools + ":/a"}},
		"where one begins like it":    {environmentEdits{path: []string{tools}}, []string{"PATH=" + tools + "2"}, []string{"PATH=" + tools + "2:" + tools}},
		"to none":                     {environmentEdits{path: []string{tools}}, []string{"A=1"}, []string{"A=1", "PATH=" + defaultPath + ":" + tools}},
		"to one that is unset":        {environmentEdits{unset: []string{"PATH"}, path: []string{tools}}, []string{"PATH=/a"}, []string{"PATH=" + defaultPath + ":" + tools}},
		"to an empty one":             {environmentEdits{path: []string{tools}}, []string{"PATH="}, []string{"PATH=:" + tools}},
		"to what a variable sets":     {environmentEdits{set: []string{"PATH=/b"}, path: []string{tools}}, []string{"PATH=/a"}, []string{"PATH=/b:" + tools}},
		"to the first, which counts":  {environmentEdits{path: []string{tools}}, []string{"PATH=/a", "PATH=/b"}, []string{"PATH=/a:" + tools}},
		"twice, and that is as once":  {environmentEdits{path: []string{tools, tools}}, []string{"PATH=/a"}, []string{"PATH=/a:" + tools}},
		"two, in the order of asking": {environmentEdits{path: []string{"/x", "/w"}}, []string{"PATH=/a"}, []string{"PATH=/a:/x:/w"}},
	} {
		got, err := test.edits.apply(test.env)
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
		_, err := environmentEdits{files: []string{dir + "/env"}}.apply(nil)
		require.ErrorContains(t, err, test.want, name)
	}
	_, err := environmentEdits{files: []string{dir + "/missing"}}.apply(nil)
	require.ErrorContains(t, err, `reading variables from "`+dir+`/missing": no such file`)
}

func TestAFIFOAsEnvFileIsRefused(t *testing.T) {
	fifo := t.TempDir() + "/fifo"
	require.NoError(t, syscall.Mkfifo(fifo, 0o600))
	for name, want := range map[string]string{fifo: "it is a pipe", "/dev/zero": "more than 1048576 bytes", t.TempDir(): "is a directory"} {
		_, err := environmentEdits{files: []string{name}}.apply(nil)
		require.ErrorContains(t, err, want, name)
	}
	got, err := environmentEdits{files: []string{"/dev/null"}}.apply([]string{"A=1"})
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
	got, err := environmentEdits{files: []string{file}, set: []string{"A7=7"}}.apply([]string{"A0=x"})
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
