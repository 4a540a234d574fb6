// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
	certresources "knative.dev/pkg/webhook/certificates/resources"
)

// exists says whether a file does, without waiting.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func TestWhatIsChangedIsUndone(t *testing.T) {
	changed, undone := filepath.Join(t.TempDir(), "changed"), filepath.Join(t.TempDir(), "undone")
	ctx, cancel := context.WithCancel(t.Context())
	heal, err := guarded(ctx, "touch "+changed, "touch "+undone, nil)
	require.NoError(t, err)
	require.True(t, exists(changed))
	require.False(t, exists(undone))
	cancel()
	require.NoError(t, heal(t.Context()), "also when the run was interrupted")
	require.True(t, exists(undone))
	_, err = guarded(t.Context(), "echo no such rule >&2; false", "touch "+undone, nil)
	require.ErrorContains(t, err, "no such rule")
	heal, err = guarded(t.Context(), "true", "echo stuck >&2; exit 1", nil)
	require.NoError(t, err)
	require.ErrorContains(t, heal(t.Context()), "stuck")
}

func TestAGuardSeesTheFileOfItsFault(t *testing.T) {
	directory := t.TempDir()
	file, err := os.Open(directory)
	require.NoError(t, err)
	heal, err := guarded(t.Context(), "chmod 0555 /proc/self/fd/3", "chmod 0700 /proc/self/fd/3", file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	is, err := os.Stat(directory)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o555), is.Mode().Perm())
	require.NoError(t, heal(t.Context()))
	is, err = os.Stat(directory)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), is.Mode().Perm())
}

// guardedOf makes this test's process the one that dies in the next test.
const guardedOf = "CHAOS_TEST_GUARDED"

func TestMain(m *testing.M) {
	if directory := os.Getenv(guardedOf); directory != "" {
		_, err := guarded(context.Background(), "touch "+directory+"/changed", "touch "+directory+"/undone", nil)
		fmt.Println(err)
		select {}
	}
	os.Exit(m.Run())
}

func TestWhatIsChangedIsUndoneAlsoIfTheProgramIsKilled(t *testing.T) {
	directory := t.TempDir()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), guardedOf+"="+directory)
	out, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	said := make([]byte, len("<nil>\n"))
	_, err = io.ReadFull(out, said)
	require.NoError(t, err)
	require.Equal(t, "<nil>\n", string(said))
	require.True(t, exists(filepath.Join(directory, "changed")))
	require.False(t, exists(filepath.Join(directory, "undone")))
	require.NoError(t, command.Process.Kill())
	require.Error(t, command.Wait())
	require.Eventually(t, func() bool { return exists(filepath.Join(directory, "undone")) }, time.Minute, 10*time.Millisecond)
}

func TestCertificatesOfAFaultAreOfTheWebhook(t *testing.T) {
	from, until := time.Now().Add(-time.Hour).Truncate(time.Second), time.Now().Add(time.Hour).Truncate(time.Second)
	data, err := newCertificates(from, until)
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(data[certresources.ServerCert], data[certresources.ServerKey])
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(data[certresources.CACert]))
	_, err = pair.Leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "entrypointer-webhook.entrypointer-system.svc"})
	require.NoError(t, err)
	require.True(t, pair.Leaf.NotBefore.Equal(from))
	require.True(t, pair.Leaf.NotAfter.Equal(until))
}

func TestALyingRegistryIsCaught(t *testing.T) {
	inner := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	var lie bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lie {
			lies(inner, w, r)
			return
		}
		inner.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	r := &ownRegistry{}
	require.NoError(t, r.push(server.Listener.Addr().String()+"/chaos"))
	for _, image := range []string{r.tag, r.digest} {
		reference, err := name.ParseReference(image)
		require.NoError(t, err)
		lie = false
		_, err = remote.Image(reference)
		require.NoError(t, err)
		lie = true
		read, err := remote.Image(reference)
		if err == nil {
			_, err = read.ConfigFile()
		}
		require.Error(t, err, image)
	}
	head, err := http.Head(server.URL + "/v2/chaos/manifests/latest")
	require.NoError(t, err)
	defer head.Body.Close()
	require.Equal(t, "sha256:"+string(bytes.Repeat([]byte("0123456789abcdef"), 4)), head.Header.Get("Docker-Content-Digest"))
}
