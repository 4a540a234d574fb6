#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Runs the tests that depend most on a version on each of these versions, and says what became
# of it. The cluster that runs is ended first, and none is left.
set -uo pipefail
(($# > 0)) || { echo "usage: $0 VERSION..., 1.34 for instance, which is one of Kubernetes, tekton-1.0 or knative-0.47" >&2; exit 2; }

log=$(mktemp)
trap 'rm -f "$log"' EXIT
results=()
failed=0
for version in "$@"; do
  project=kubernetes
  [[ $version == *-* ]] && project=${version%-*}
  setting=${project^^}=${version##*-}
  make --no-print-directory down || exit
  start=$SECONDS
  make --no-print-directory up "$setting" || { results+=("$version doesn't start"); failed=1; continue; }
  up=$((SECONDS - start))
  result=passed
  make --no-print-directory e2e "$setting" ARGS="-v -run '$(hack/e2e-core.sh "$project")'" | tee "$log" || { result=failed failed=1; }
  passed=$(grep -c '^--- PASS' "$log")
  skipped=$(grep -c '^--- SKIP' "$log")
  results+=("$(printf '%-12s %-7s %3d passed, %d skipped; up in %d s, tests in %d s' \
    "$version" "$result" "$passed" "$skipped" "$up" $((SECONDS - start - up)))")
done
make --no-print-directory down
printf '%s\n' "${results[@]}"
exit $failed
