// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package main

import (
	"encoding/base64"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTheClustersLogSaysWhereTheOutputIs(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const usual = "entrypointer: the output is at the log service: kubectl entrypointer logs pod/POD -c main"
	require.Equal(t, usual, s.run(s.command("--", "echo", "hello")).pointer)
	require.Empty(t, s.run(s.command("-logs-container=silent", "--", "true")).pointer)
	require.Empty(t, s.run(s.command("-logs-container=both", "-logs=tee", "--", "echo", "hello")).pointer)

	s.meet(func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Set("Authorization", "Bearer "+podToken)
		return false
	})
	for claims, want := range map[string]string{
		`{"aud":["logs"],"kubernetes.io":{"namespace":"team-a","node":{"name":"n"},"pod":{"name":"build-pod","uid":"1"},"serviceaccount":{"name":"default"}}}`: "-n team-a pod/build-pod",
		`{"kubernetes.io":{"namespace":"team-a","pod":{"name":"$(reboot)"}}}`:                                                                                  "pod/POD",
		`{"sub":"somebody"}`: "pod/POD",
		`no JSON`:            "pod/POD",
	} {
		require.NoError(t, os.WriteFile(s.token, []byte("e30."+base64.RawURLEncoding.EncodeToString([]byte(claims))+".c2ln"), 0o600))
		got := s.run(s.command("-logs-container=step-a", "--", "sh", "-c", "echo hello; echo oh >&2; exit 3"))
		require.Equal(t, 3, got.code)
		require.Empty(t, got.stdout+got.stderr)
		require.Equal(t, "entrypointer: the output is at the log service: kubectl entrypointer logs "+want+" -c step-a", got.pointer)
	}
}

// messageFile is a container's empty termination message.
func messageFile(t *testing.T) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "termination-log")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	return file
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return string(text)
}

const failing = `i=0; while [ $i -lt 200 ]; do echo "line $i"; i=$((i+1)); done; sleep 2; echo "no, $PASSWORD is wrong" >&2; sleep 2; echo "giving up"; exit 3`

func TestTheTerminationMessageOfAFailureIsTheMaskedEndOfTheOutput(t *testing.T) {
	t.Parallel()
	var want strings.Builder
	for i := 122; i < 200; i++ {
		want.WriteString("line " + string(rune('0'+i/100)) + string(rune('0'+i/10%10)) + string(rune('0'+i%10)) + "\n")
	}
	want.WriteString("no, ************* is wrong\ngiving up\n")

	s := serve(t)
	file := messageFile(t)
	cmd := s.command("-logs-message="+file, "-mask-env=PASSWORD", "--", "sh", "-c", failing)
	cmd.Env = append(os.Environ(), "PASSWORD=correct horse")
	require.Equal(t, 3, s.run(cmd).code)
	require.Equal(t, want.String(), read(t, file))

	s.outage()
	file = messageFile(t)
	cmd = s.command("-logs-container=unheard", "-logs-message="+file, "-logs-flush=1h", "-logs-grace=1s", "-mask-env=PASSWORD", "--", "sh", "-c", failing)
	cmd.Env = append(os.Environ(), "PASSWORD=correct horse")
	wait := s.start(cmd)
	require.Eventually(t, func() bool { return read(t, file) == want.String() }, deadline, 20*time.Millisecond, "the service isn't needed for that")
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Equal(t, 3, wait().code)
	require.Equal(t, want.String(), read(t, file))
}

func TestAMessageHasNoMoreThanTheKubeletWouldTakeOfALog(t *testing.T) {
	s := serve(t)
	file := messageFile(t)
	cmd := s.command("-logs-message="+file, "-mask-env=PASSWORD", "--", "sh", "-c", `yes "$PASSWORD$PASSWORD" | tr -d '\n' | head -c 199992; printf 'é%.0s' $(seq 1023); printf '.'; exit 1`)
	cmd.Env = append(os.Environ(), "PASSWORD=correct horse")
	require.Equal(t, 1, s.run(cmd).code)
	require.Equal(t, "*"+strings.Repeat("é", 1023)+".", read(t, file), "a secret that begins long before")
}

func TestASuccessAndAMessageOfTheCommandsOwnStayAsTheyAre(t *testing.T) {
	t.Parallel()
	s := serve(t)
	file := messageFile(t)
	require.Zero(t, s.run(s.command("-logs-message="+file, "--", "echo", "hello")).code)
	require.Empty(t, read(t, file))
	require.Equal(t, 3, s.run(s.command("-logs-container=own", "-logs-message="+file, "--", "sh", "-c", "echo hello; printf mine > "+file+"; exit 3")).code)
	require.Equal(t, "mine", read(t, file))
	require.NoError(t, os.Truncate(file, 0))
	require.Equal(t, 3, s.run(s.command("-logs-container=silent", "-logs-message="+file, "--", "sh", "-c", "exit 3")).code)
	require.Empty(t, read(t, file))
}

func TestAMessageThatCanNotBeMaskedSaysSo(t *testing.T) {
	t.Parallel()
	s := serve(t)
	file, secret := messageFile(t), filepath.Join(t.TempDir(), "large")
	require.NoError(t, os.WriteFile(secret, make([]byte, 2<<20), 0o600))
	got := s.run(s.command("-logs-message="+file, "-logs-flush=1s", "-mask-files="+secret, "--", "sh", "-c", "echo hello; exit 3"))
	require.Equal(t, 3, got.code)
	require.Regexp(t, `^entrypointer: the end of the output isn't shown, because it couldn't be masked: .*`+secret, read(t, file))
	require.NotContains(t, read(t, file), "hello")
}
