// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package release

import (
	"fmt"
	"os"
	"testing"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/stretchr/testify/require"
)

// cosign is what the Makefile has built; users have it in PATH.
var cosign = os.Getenv("COSIGN")

// The commands are those of docs/installing.md.
const (
	verifyFiles      = "cosign verify-blob --key %s --insecure-ignore-tlog --bundle SHA256SUMS.sigstore.json SHA256SUMS && sha256sum --strict -c SHA256SUMS"
	verifyImages     = "grep -hoE '[^ ]+@sha256:[0-9a-f]{64}' *.yaml | sort -u | xargs cosign verify --key %s --insecure-ignore-tlog"
	verifyChart      = "cosign verify --key %s --insecure-ignore-tlog %s"
	verifyProvenance = "cosign verify-blob-attestation --key %s --insecure-ignore-tlog --type slsaprovenance1 --bundle provenance.sigstore.json %s"
)

// verifies runs a command in the folder of a release.
func (u *user) verifies(format string, args ...any) (printed string, err error) {
	return u.try("cd "+latest+"; "+format, args...)
}

func TestASignedReleaseIsVerifiedAndAnythingElseIsRefused(t *testing.T) {
	u := newUser(t)
	u.run("mkdir -p bin && ln -s %s bin/cosign", cosign)
	u.run("cd bin && COSIGN_PASSWORD= cosign generate-key-pair --output-key-prefix other")
	const own, other = "cosign.pub", "../bin/other.pub"
	chart := fmt.Sprintf("%s/charts/entrypointer:%s", repository, latest)

	accepted := func(format string, args ...any) {
		t.Helper()
		printed, err := u.verifies(format, args...)
		require.NoError(t, err, printed)
	}
	refused := func(says, format string, args ...any) {
		t.Helper()
		printed, err := u.verifies(format, args...)
		require.Error(t, err, printed)
		require.Contains(t, printed, says)
	}
	accepted(verifyFiles, own)
	accepted(verifyImages, own)
	accepted(verifyChart, own, chart)
	for _, file := range []string{"install.yaml", "entrypointer-" + latest + ".tgz"} {
		accepted(verifyProvenance, own, file)
	}
	accepted("test $(grep -hoE '[^ ]+@sha256:[0-9a-f]{64}' *.yaml | sort -u | wc -l) = 6")

	refused("invalid signature", verifyFiles, other)
	refused("no matching", verifyImages, other)
	refused("no matching", verifyChart, other, chart)
	refused("do not match threshold", verifyProvenance, other, "install.yaml")

	unsigned, err := name.NewTag(repository + "/unsigned:" + latest)
	require.NoError(t, err)
	image, err := random.Image(16, 1)
	require.NoError(t, err)
	require.NoError(t, remote.Write(unsigned, image, remote.WithContext(t.Context()), remote.WithAuthFromKeychain(authn.DefaultKeychain)))
	refused("no signatures found", verifyChart, own, unsigned)

	u.run("echo '# more' >>%s/install.yaml", latest)
	refused("install.yaml: FAILED", verifyFiles, own)
	refused("digest", verifyProvenance, own, "install.yaml")
	u.run("cd %s && sha256sum install.yaml >changed && sed -i '/ install.yaml$/d' SHA256SUMS && cat changed >>SHA256SUMS", latest)
	refused("invalid signature", verifyFiles, own)
}
