// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package markdown

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAPagesOutputMayHaveWildcards(t *testing.T) {
	for name, test := range map[string]struct {
		shown, printed string
		want           bool
	}{
		"the same":                      {"a\nb\n", "a\nb\n", true},
		"another":                       {"a\n", "b\n", false},
		"more":                          {"a\n", "a\nb\n", false},
		"less":                          {"a\nb\n", "a\n", false},
		"other columns":                 {"NAME   AGE\n", "NAME AGE   \n", true},
		"any text in a line":            {"pod/clock-... Ready\n", "pod/clock-5d8f7 Ready\n", true},
		"no more than a line":           {"pod/clock-...\n", "pod/clock-5d8f7\nb\n", false},
		"any lines":                     {"...\na\n", "x\ny\na\n", true},
		"no line":                       {"...\na\n", "a\n", true},
		"any lines at the end":          {"a\n...\n", "a\nb\nc\n", true},
		"a line that isn't there":       {"...\na\n...\n", "b\n", false},
		"an object that is there":       {"namespace/demo created\n", "namespace/demo unchanged\n", true},
		"an object in whatever way":     {"namespace/demo created\n", "namespace/demo deleted\n", false},
		"a line of client-go's log":     {"a\nb\n", "a\nI1125 04:16:23.952118   11759 reflector.go:664] \"Warning: watch ended with error\"\nb\n", true},
		"regular expressions are words": {"a.c\n", "abc\n", false},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, test.want, Matches(test.shown, test.printed)) })
	}
}

func TestTheCommandsOfAPageRunInOneShell(t *testing.T) {
	blocks, err := Blocks(written(t, `
<!-- run first:
POD=clock-1
-->
~~~console
$ export REPOSITORY=registry.example
$ echo $REPOSITORY, POD and demo
kept, clock-1 and demo
$ pwd
/
$ echo oops >&2; false
Error: it fails
~~~

<!-- not run: it fails -->
~~~console
$ false
~~~

~~~console
$ cat <<END
POD
END
...
$ echo demonstration $REPOSITORY
demonstration kept
~~~
`))
	require.NoError(t, err)
	shell := Shell{Directory: "/", Environment: append(os.Environ(), "REPOSITORY=kept"), Names: map[string]string{"demo": "e2e-5"}}
	require.ErrorContains(t, shell.Run(t.Context(), blocks), "line 11: \"echo oops >&2; false\" prints\noops\n")
	blocks[0].Commands = blocks[0].Commands[:3]
	require.NoError(t, shell.Run(t.Context(), blocks))
}

func TestACommandThatFailsIsTheLast(t *testing.T) {
	file := t.TempDir() + "/later"
	err := Shell{}.Run(t.Context(), []Block{{Commands: []Command{{Line: 3, Text: "echo why; exit 7"}, {Text: "touch " + file}}}})
	require.ErrorContains(t, err, "line 3: running \"echo why; exit 7\"")
	require.ErrorContains(t, err, "why\n")
	err = Shell{}.Run(t.Context(), []Block{{Commands: []Command{{Line: 3, Text: "(exit 7)", Shown: "a\n"}, {Text: "touch " + file}}}})
	require.ErrorContains(t, err, "exit code 7")
	require.NoFileExists(t, file)
}

func TestACommandWithoutAnAnswerIsRunAgain(t *testing.T) {
	logged := 0
	shell := Shell{Again: "it doesn't answer", Log: func(string, ...any) { logged++ }}
	asks := Command{Line: 3, Text: `n=$((n + 1)); [ $n = 3 ] && echo "it's $n" || echo "it doesn't answer, $n"`, Shown: "it's 3\n"}
	once := Command{Line: 4, Text: `once=$((once + 1)); echo "$once of $n"`, Shown: "1 of 3\n"}
	require.NoError(t, shell.Run(t.Context(), []Block{{Commands: []Command{asks, once}}}))
	require.Equal(t, 2, logged)
	asks.Text = `echo "it doesn't answer"; (exit 7)`
	err := shell.Run(t.Context(), []Block{{Commands: []Command{asks}}})
	require.ErrorContains(t, err, "exit code 7", "not for ever")
	require.Equal(t, 2+tries-1, logged)
}

func TestACommandThatTakesTooLongEndsWithWhatItStarted(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := Shell{}.Run(ctx, []Block{{Commands: []Command{{Line: 3, Text: "echo begun; sleep 1h | cat"}}}})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "begun")
}
