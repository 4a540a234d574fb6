#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Makes a release of the last commit in two clones, in folders of different names and with
# nothing that the other has compiled, and compares all files. They have the digests of all
# images. Signatures, of a run with a key, are random. Further arguments are those of the
# program release.
set -euo pipefail

ko=${1:?usage: $0 PATH_OF_KO [ARGUMENT...]}
shift
: "${KO_DOCKER_REPO:?set it to a repository that you may push to}"

work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT
for clone in one another; do
  git clone -q "$(git rev-parse --show-toplevel)" "$work/$clone"
  (cd "$work/$clone" && GOCACHE=$work/cache-$clone go run ./hack/release -version v0.0.0-twice -folder "$work/release-$clone" -ko "$ko" "$@")
done
diff -r --exclude '*.sigstore.json' "$work/release-one" "$work/release-another"
echo "two clones of $(git rev-parse --short HEAD) made the same $(find "$work/release-one" -type f ! -name '*.sigstore.json' | wc -l) files"
