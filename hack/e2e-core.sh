#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Prints a regular expression for the end-to-end tests that depend most on the version of
# Kubernetes: admission and its policies, deliveries, what pods cost and may do, how the
# kubelet starts, restarts and stops containers, logs through the API server, Tekton,
# Knative. With the argument "tekton" or "knative", for those that depend most on the version
# of one of these.
set -euo pipefail
cd "$(dirname "$0")/.."

# Prints an expression for the tests of files, and for those named.
tests_of() {
  local files=$1
  shift
  IFS='|'
  # shellcheck disable=SC2086 # several files
  mapfile -t tests < <(IFS=' ' && sed -nE 's/^func (Test[A-Za-z0-9]+)\(t \*testing\.T\).*/\1/p' $files)
  printf '^(%s)\\b\n' "${tests[*]}|$*" # without a dollar sign, which make would expand
}

case ${1:-kubernetes} in
  kubernetes) ;;
  tekton)
    tests_of "test/e2e/taskrun_test.go test/e2e/handoff_test.go test/e2e/firststep_test.go test/e2e/pipelinerun_test.go test/e2e/breakpoints_test.go" \
      TestInAnOutageTaskRunsWaitAndAreWrappedOnceTheInjectorIsBack TestTheStepsOfATaskRunAreReadAsTheyPrintAndAsTheClusterHasThem
    exit
    ;;
  knative)
    tests_of test/e2e/knative_test.go TestAKnativeServiceOfTwoContainersStartsInOrder TestAKnativeServicesLogsAreThereWhenItHasScaledToZero
    exit
    ;;
  *)
    echo "usage: $0 [kubernetes|tekton|knative]" >&2
    exit 2
    ;;
esac

tests=(
  # admission
  TestAnAskingPodRunsUnderTheEntrypoint
  TestPodsAreWrappedWhoeverMakesThem
  TestServerSideApplyCreatesAWrappedPod
  TestTheLabelFollowsTheAnnotationAtOnce
  TestALabelCanNotBeRemovedThroughASubresource
  TestAWebhookThatIsCalledAgainChangesNothingTwice
  TestAContainerThatAnotherWebhookAddsIsWrapped
  TestTheMirrorOfAStaticPodIsUntouched
  TestAMountOfTheSupervisorThatAllowsNoExecutionIsRefused
  # policies
  TestAPodOfAnOptedInNamespaceNeverRunsUnwrappedWhileTheInjectorIsDown
  TestInAnOutagePlainTaskRunsRunWrapped
  TestTheInjectorFindsItselfConfined
  TestWhoeverTakesTheInjectorOverCanRunNothingButCanaries
  TestAnAnnotationOrALabelWithoutEffectOnAWorkloadIsWarnedOf
  TestAnAnnotationOrALabelWithoutEffectOnATaskRunOrAPodIsWarnedOf
  # deliveries
  TestUnderAutoPodsGetImageVolumesWhileEveryNodeIsProven
  TestAnImageVolumeLeavesResultsTheirFullLength
  TestToolsAreThereForWhoeverAsks
  # what pods cost, and what they may do
  TestWhatPodsCostIsWhatTheyCostUnwrapped
  TestAGuaranteedPodStaysGuaranteedAndWithinItsQuota
  TestANamespaceThatEnforcesTheRestrictedProfileAdmitsAWrappedPod
  TestAPodWithUsersOfItsOwnRunsWhereItRunsUnwrapped
  # the kubelet
  TestAPodThatIsDeletedHasItsHookItsSignalAndItsGracePeriod
  TestATerminalIsAttachedTo
  TestAContainerThatWaitsIsKilledByNoneOfItsProbes
  TestAPodIsStoppedInTheReverseOrder
  TestWhatHasCompletedCountsInASandboxMadeAnew
  TestAJobCompletesBesideAProxyThatItEnds
  TestAJobOfThreeContainersIsAPipeline
  TestAContainerIsRestartedInPlaceOnTheExitCodesOfItsRules
  TestADependencyThatItsRulesRestartIsWaitedForInItsNextLife
  TestAPodWhoseContainersAreAllRestartedKeepsItsOrder
  TestTheStopSignalOfAContainerReachesItsCommand
  TestAStopSignalOfTheSpecIsHeldBackUntilItsTurn
  # images
  TestAPrivateImageRunsWhereThereIsAPullSecret
  TestAnImageThatWasLookedUpIsPinned
  # logs
  TestLogsAreReadThroughTheAPIServer
  TestWhatAPodPrintsIsReadAfterItIsGoneWithItsSecretsMasked
  # Tekton and Knative
  TestATaskRunDoesWhatItDoesUnwrapped
  TestStepsAreHandedOverInOrder
  TestThePodsOfAPipelineRunAreWrappedAndPassResultsOn
  TestAKnativeServiceScalesToZeroAndBackUnderTheEntrypoint
  TestAKnativeServiceOfTwoContainersStartsInOrder
)

IFS='|'
echo "^(${tests[*]})"
