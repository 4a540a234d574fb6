// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// The files of a signed release that an unsigned one lacks. Signatures of ECDSA have a random
// part, so these files differ from run to run. The checksums don't name them: those are the
// same with and without a key.
const (
	publicKeyFile    = "cosign.pub"
	signedChecksums  = checksums + ".sigstore.json"
	signedProvenance = "provenance.sigstore.json"
)

// offline are flags by which cosign signs with nothing but the key. By default, cosign asks
// Sigstore's repository which certificate authority, timestamps and transparency log there
// are, and publishes the signature in that log. Version 3 takes no flag against that, but a
// signing config that names no service (https://github.com/sigstore/cosign/issues/4831), and a
// trusted root that trusts none. With the root, cosign verifies by the key what it has signed.
var offline = []string{"--signing-config", "hack/release/signing-config.json", "--trusted-root", "hack/release/trusted-root.json", "--yes"}

// readKey has cosign read the key, before anything is built: the key or its password may be
// wrong.
func (r *release) readKey(ctx context.Context) error {
	if r.key == "" {
		fmt.Fprintln(os.Stderr, "the release will be unsigned: -key names a key to sign with")
		return nil
	}
	text, err := r.runCosign(ctx, "public-key", "--key", r.key)
	if err != nil {
		return fmt.Errorf("reading the key %s: %w; set COSIGN_PASSWORD to its password", r.key, err)
	}
	r.publicKey = text + "\n"
	return nil
}

// sign signs the images and the chart in the registry, the checksums, and the provenance.
func (r *release) sign(ctx context.Context) error {
	if r.key == "" {
		return nil
	}
	if err := r.write(publicKeyFile, []byte(r.publicKey)); err != nil {
		return err
	}
	withKey := append([]string{"--key", r.key}, offline...)
	inRegistry := append([]string{"sign"}, withKey...)
	for _, i := range r.images {
		inRegistry = append(inRegistry, i.reference)
	}
	if _, err := r.runCosign(ctx, append(inRegistry, r.chart)...); err != nil {
		return fmt.Errorf("signing the images and the chart: %w", err)
	}
	if err := r.signFile(ctx, signedChecksums, append(append([]string{"sign-blob"}, withKey...), filepath.Join(r.folder, checksums))); err != nil {
		return err
	}
	return r.signFile(ctx, signedProvenance, append(append([]string{"attest-blob"}, withKey...), "--statement", filepath.Join(r.folder, provenance)))
}

// signFile has cosign write a bundle, a signature with what is needed to verify it.
func (r *release) signFile(ctx context.Context, bundle string, args []string) error {
	file := filepath.Join(r.folder, bundle)
	if _, err := r.runCosign(ctx, append(args, "--bundle", file)...); err != nil {
		return fmt.Errorf("signing for %s: %w", bundle, err)
	}
	return os.Chmod(file, 0o644) // cosign makes it readable to its owner only
}

func (r *release) runCosign(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.patience, fmt.Errorf("it has taken longer than %s", r.patience))
	defer cancel()
	printed, err := output(ctx, nil, r.cosign, args...)
	if err != nil && ctx.Err() != nil {
		err = errors.Join(err, context.Cause(ctx))
	}
	return printed, err
}
