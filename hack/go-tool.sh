#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Prints the path of a Go program, which it builds if the cache doesn't have it:
#   hack/go-tool.sh github.com/google/ko@v0.19.1
# Versions live side by side, and all checkouts on a machine share them.
set -euo pipefail

if (($# != 1)) || [[ $1 != ?*@v?* ]]; then
  echo "usage: $0 <package>@<version>" >&2
  exit 2
fi
package=$1
name=$(basename "${package%@*}")
version=${package##*@}
tools="${ENTRYPOINTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/entrypointer}/tools"
dir="$tools/$name@$version"

if [[ ! -x $dir/$name ]]; then
  echo "building $name $version" >&2
  mkdir -p "$tools"
  # A directory that appears when it is complete: no half-written program is run.
  partial=$(mktemp -d "$tools/.$name-XXXXXX")
  trap 'rm -rf "$partial"' EXIT
  # What is set for this module, or for another platform, doesn't apply to a tool.
  (cd / && GOBIN=$partial GOWORK=off GOFLAGS="-buildvcs=false -trimpath" GOOS='' GOARCH='' CGO_ENABLED=0 \
    go install -ldflags="-s -w" "$package") >&2
  chmod 755 "$partial"
  # Somebody else may have been faster.
  [[ -d $dir ]] || mv "$partial" "$dir"
fi
echo "$dir/$name"
