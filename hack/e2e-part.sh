#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Prints a regular expression for one of several parts of the end-to-end tests: for each
# commit another part. A few tests, one of each capability, are in all parts.
set -euo pipefail
cd "$(dirname "$0")/.."

usage="usage: $0 PARTS [PART]"
parts=${1:?$usage}
commit=$(git rev-parse --short=7 HEAD 2>/dev/null || echo 0) # a source archive has no commits
part=${2:-$((16#${commit:0:7} % parts))}
((part < parts)) || { echo "choosing part $part of the end-to-end tests: the parts are 0 to $((parts - 1))" >&2; exit 2; }

always=(
  TestATaskRunDoesWhatItDoesUnwrapped
  TestStepsAreHandedOverInOrder
  TestAKnativeServiceScalesToZeroAndBackUnderTheEntrypoint
  TestAPodThatIsDeletedHasItsHookItsSignalAndItsGracePeriod
  TestAPodIsStoppedInTheReverseOrder
  TestAJobOfThreeContainersIsAPipeline
  TestWhatAPodPrintsIsReadAfterItIsGoneWithItsSecretsMasked
  TestAPodOfAnOptedInNamespaceNeverRunsUnwrappedWhileTheInjectorIsDown
)

# In no part, because compiling Loki, Jaeger, Cloud SQL's proxy and Istio's agent takes minutes, and CI has an
# hour from nothing compiled to the end: "make e2e" runs them, "make unit" sends logs to a
# collector, and other tests end a stand-in for Istio's proxy.
never=(
  TestAFailedRunIsFoundInLokiAndDeletedInBothPlaces
  TestAPipelineRunIsOneTraceWithAndWithoutTektonsTracing
  TestAJobCompletesBesideNeighboursOfOtherProjects
)

# Every so many tests, in the order of the files: so tests that are alike, and take as
# long, are in different parts.
mapfile -t tests < <(sed -nE 's/^func (Test[A-Za-z0-9]+)\(t \*testing\.T\).*/\1/p' test/e2e/*_test.go | grep -vxF "$(printf '%s\n' "${never[@]}")" |
  awk -v parts="$parts" -v part="$part" 'NR % parts == part')
echo "part $part of 0 to $((parts - 1)) of the end-to-end tests, ${#tests[@]} tests and ${#always[@]} that are in all parts:" \
  "make e2e ARGS=\"-run '\$($0 $parts $part)'\" runs it again" >&2

IFS='|'
printf '^(%s)\\b\n' "${always[*]}|${tests[*]}" # without a dollar sign, which make would expand
