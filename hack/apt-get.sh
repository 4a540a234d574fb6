#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Installs Debian packages that a check needs, or says how to:
#   hack/apt-get.sh shellcheck
set -euo pipefail

if (($# == 0)); then
  echo "usage: $0 <package>..." >&2
  exit 2
fi
install=(apt-get install -y -q --no-install-recommends "$@")
if ! command -v apt-get >/dev/null || ((EUID != 0)); then
  echo "$*: not installed; install it with your system's package manager (on Debian, as root: ${install[*]})" >&2
  exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# Package lists may be missing or outdated; they are fetched only then.
"${install[@]}" >&2 || { apt-get update -q >&2 && "${install[@]}" >&2; }
