// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ship

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAPipeThatHasTakenAFilesPlaceHoldsNobodyUp(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.Empty(t, readRegular(pipe))
}

func TestWhichFileDoesNotAnswerIsSaidUntilItDoes(t *testing.T) {
	answers := make(chan struct{})
	said := make(chan string)
	s := newSecrets(secretSources{paths: []string{"/mnt/first", "/mnt/second"}}, nil, nil, func(name string) { said <- name })
	s.files.read = func(name string) string {
		if name == "/mnt/second" {
			<-answers
		}
		return "secret of " + name
	}
	read := make(chan bool)
	go func() { read <- s.read() }()
	for range 2 {
		require.Equal(t, "/mnt/second", <-said)
	}
	close(answers)
	for done := false; !done; {
		select {
		case <-said: // it was about to be
		case more := <-read:
			require.True(t, more)
			done = true
		}
	}
	require.Equal(t, "******************** *********************", masked(s, "secret of /mnt/first secret of /mnt/second"))
}
