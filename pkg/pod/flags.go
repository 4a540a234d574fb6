// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

// The supervisor's flags that the injector sets, up to their values.
const (
	// Flags that carry words of the original argv.
	platformFlag = "-platform="
	argFlag      = "-arg="

	modeFlag = "-mode="
	modeExec = "exec" // a value

	waitFileFlag         = "-wait-file="
	waitContentFlag      = "-wait-content="
	waitEitherFlag       = "-wait-either="
	waitAbortFlag        = "-wait-abort="
	waitCancelFlag       = "-wait-abort-content="
	waitUnlessSharedFlag = "-wait-unless-shared="
	holdFlag             = "-hold="
	waitInsteadFlag      = "-wait-instead="
	turnFileFlag         = "-turn-file="
	startedFileFlag      = "-started-file="
	postFileFlag         = "-post-file="
	startFailureFlag     = "-start-failure-file="

	unsetEnvFlag = "-unset-env="
	envFileFlag  = "-env-file="
	envFlag      = "-env="

	appendPathFlag = "-append-path="

	hookFlag        = "-before-start="
	hookArgFlag     = "-before-start-arg="
	hookTimeoutFlag = "-before-start-timeout="

	dependsOnTimeoutFlag = "-depends-on-timeout="

	timeoutFlag            = "-timeout="
	gracePeriodFlag        = "-grace-period="
	timeoutResultFlag      = "-timeout-result="
	successExitCodesFlag   = "-success-exit-codes="
	statusFileFlag         = "-status-file="
	terminationMessageFlag = "-termination-message="
	pauseFlag              = "-pause="

	logsFlag          = "-logs="
	logsToFlag        = "-logs-to="
	logsIPFlag        = "-logs-ip="
	logsCAFlag        = "-logs-ca="
	logsTokenFlag     = "-logs-token=" //nolint:gosec // G101: it is no token
	logsContainerFlag = "-logs-container="
	logsLabelFlag     = "-logs-label="
	logsBufferFlag    = "-logs-buffer="
	logsWhenFullFlag  = "-logs-when-full="
	logsMessageFlag   = "-logs-message="
	logsFlushFlag     = "-logs-flush="
	logsGraceFlag     = "-logs-grace="
	maskEnvFlag       = "-mask-env="
	maskFilesFlag     = "-mask-files="
)
