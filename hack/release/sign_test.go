// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// signing is a release that is signed by a program in the place of cosign, whose runs are
// written to a file. make e2e-release signs with cosign, and verifies.
func signing(t *testing.T, program string) (r *release, runs func() []string) {
	t.Helper()
	folder := t.TempDir()
	cosign, log := filepath.Join(folder, "cosign"), filepath.Join(folder, "log")
	require.NoError(t, os.WriteFile(cosign, []byte("#!/bin/sh\necho \"$@\" >>"+log+"\n"+program), 0o700))
	r = &release{
		version: "v0.1.0", repository: "example.org/e", folder: t.TempDir(), cosign: cosign, key: "cosign.key", patience: time.Minute,
		images: []image{{reference: "example.org/e/injector:v0.1.0@sha256:0a"}, {reference: "example.org/e/logs:v0.1.0@sha256:0b"}},
		chart:  "example.org/e/charts/entrypointer:0.1.0@sha256:0c",
	}
	return r, func() []string {
		text, err := os.ReadFile(log)
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(strings.ReplaceAll(string(text), r.folder+"/", "")), "\n")
	}
}

func TestImagesChartChecksumsAndProvenanceAreSigned(t *testing.T) {
	r, runs := signing(t, `case $1 in
public-key) echo PEM ;;
*-blob) for last; do :; done; echo bundle >"$last"; chmod 600 "$last" ;;
esac
`)
	require.NoError(t, r.write("webhook.yaml", []byte("a")))
	require.NoError(t, r.readKey(t.Context()))
	require.NoError(t, r.writeProvenance(t.Context()))
	require.NoError(t, r.writeChecksums(t.Context()))
	unsigned, err := os.ReadFile(filepath.Join(r.folder, checksums))
	require.NoError(t, err)
	require.NoError(t, r.sign(t.Context()))
	const flags = "--key cosign.key --signing-config hack/release/signing-config.json --trusted-root hack/release/trusted-root.json --yes "
	require.Equal(t, []string{
		"public-key --key cosign.key",
		"sign " + flags + "example.org/e/injector:v0.1.0@sha256:0a example.org/e/logs:v0.1.0@sha256:0b example.org/e/charts/entrypointer:0.1.0@sha256:0c",
		"sign-blob " + flags + "SHA256SUMS --bundle SHA256SUMS.sigstore.json",
		"attest-blob " + flags + "--statement provenance.json --bundle provenance.sigstore.json",
	}, runs())
	text, err := os.ReadFile(filepath.Join(r.folder, "cosign.pub"))
	require.NoError(t, err)
	require.Equal(t, "PEM\n", string(text))
	for _, bundle := range []string{signedChecksums, signedProvenance} {
		about, err := os.Stat(filepath.Join(r.folder, bundle))
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o644), about.Mode())
	}
	signed, err := os.ReadFile(filepath.Join(r.folder, checksums))
	require.NoError(t, err)
	require.Equal(t, string(unsigned), string(signed))
	require.NotContains(t, string(signed), "sigstore")
	require.NotContains(t, string(signed), "cosign")
}

// Nobody is asked, and nothing is published: neither a service nor who trusts it is named.
func TestCosignIsToldOfNoService(t *testing.T) {
	for _, flag := range offline {
		if !strings.HasSuffix(flag, ".json") {
			continue
		}
		text, err := os.ReadFile(filepath.Join("../..", flag))
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(text, &fields))
		require.Contains(t, fields["mediaType"], "application/vnd.dev.sigstore.")
		require.Len(t, fields, 1, flag)
	}
}

func TestWithoutAKeyTheReleaseIsUnsigned(t *testing.T) {
	r := &release{folder: t.TempDir(), cosign: "/nowhere"}
	require.NoError(t, r.readKey(t.Context()))
	require.NoError(t, r.sign(t.Context()))
	files, err := r.files()
	require.NoError(t, err)
	require.Empty(t, files)
}

func TestAKeyThatCannotBeReadFailsBeforeAnythingIsBuilt(t *testing.T) {
	r, _ := signing(t, "exit 1\n")
	err := r.readKey(t.Context())
	require.ErrorContains(t, err, "reading the key cosign.key: running "+r.cosign)
	require.ErrorContains(t, err, "set COSIGN_PASSWORD to its password")
}

// A registry may never answer.
func TestCosignIsWaitedForNoLongerThanItsDeadline(t *testing.T) {
	r, _ := signing(t, "exec sleep 600\n")
	r.patience = 100 * time.Millisecond
	begin := time.Now()
	require.ErrorContains(t, r.sign(t.Context()), "signing the images and the chart: running "+r.cosign)
	require.ErrorContains(t, r.readKey(t.Context()), "it has taken longer than 100ms")
	require.Less(t, time.Since(begin), 5*time.Minute)
}
