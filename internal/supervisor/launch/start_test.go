// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package launch

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/entrypointer/entrypointer/internal/supervisor/outcome"
)

func TestSearchPath(t *testing.T) {
	require.Equal(t, "a", searchPath([]string{"XPATH=x", "PATH=a", "PATH=b"}))
	require.Empty(t, searchPath([]string{"PATH="}))
	require.Equal(t, defaultPath, searchPath([]string{"PATH"}))
	require.Equal(t, defaultPath, searchPath(nil))
}

// TestSearchContinuesAsExecvp covers errors that a real exec seldom returns. The
// scripts of cmd/entrypoint cover the others.
func TestSearchContinuesAsExecvp(t *testing.T) {
	var env []string
	var want []string
	for i, dir := range []string{t.TempDir(), t.TempDir(), t.TempDir()} {
		path := filepath.Join(dir, "tool")
		require.NoError(t, os.WriteFile(path, nil, 0o755))
		want = append(want, path)
		if i == 0 {
			env = []string{"PATH=" + dir}
		} else {
			env[0] += ":" + dir
		}
	}
	for _, test := range []struct {
		answers []error
		tried   int
		code    int
	}{
		{[]error{nil}, 1, 0},
		{[]error{syscall.EACCES, nil}, 2, 0},
		{[]error{syscall.ENOENT, syscall.ESTALE, nil}, 3, 0},
		{[]error{syscall.E2BIG}, 1, outcome.CodeNotExecutable},
		{[]error{syscall.EAGAIN}, 1, outcome.CodeOwnFailure},
		{[]error{syscall.ENOMEM}, 1, outcome.CodeOwnFailure},
		{[]error{syscall.ENOENT, syscall.ETXTBSY}, 2, outcome.CodeNotExecutable},
		{[]error{syscall.ENOENT, syscall.EACCES, syscall.ENOENT}, 3, outcome.CodeNotExecutable},
		{[]error{syscall.ENOENT, syscall.ENOENT, syscall.ENOENT}, 3, outcome.CodeNotFound},
	} {
		var tried []string
		err := InPath("tool", env, func(path string) error {
			tried = append(tried, path)
			return test.answers[len(tried)-1]
		})
		require.Equal(t, want[:test.tried], tried)
		if test.code == 0 {
			require.NoError(t, err)
			continue
		}
		var f *outcome.Failure
		require.ErrorAs(t, err, &f, "%v", test.answers)
		require.Equal(t, test.code, f.Code, "%v: %v", test.answers, err)
		require.NotContains(t, f.Text, "\n")
	}
}
