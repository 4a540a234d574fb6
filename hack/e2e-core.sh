#!/usr/bin/env bash
# Copyright The entrypointer Authors
# SPDX-License-Identifier: Apache-2.0

# Prints a regular expression for the end-to-end tests that depend most on the version of
# Kubernetes: admission and its policies, deliveries, what pods cost and may do, how the
# kubelet starts, restarts and stops containers, logs through the API server, Tekton,
# Knative.
set -euo pipefail

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
