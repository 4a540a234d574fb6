// Copyright The entrypointer Authors
// SPDX-License-Identifier: Apache-2.0

package pod

// The entrypoint's flags that we set, up to their values.
const (
	// These carry words of the original argv.
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
	postFileFlag         = "-post-file="
	startFailureFlag     = "-start-failure-file="

	unsetEnvFlag = "-unset-env="
	envFileFlag  = "-env-file="
	envFlag      = "-env="

	appendPathFlag = "-append-path="

	hookFlag        = "-before-start="
	hookArgFlag     = "-before-start-arg="
	hookTimeoutFlag = "-before-start-timeout="

	dependsOnFlag        = "-depends-on="
	dependsOnFinalFlag   = "-depends-on-final="
	dependsOnTimeoutFlag = "-depends-on-timeout="
	orderDirFlag         = "-order-dir="
	orderHeartbeatFlag   = "-order-heartbeat="
	readyExecFlag        = "-ready-exec="
	readyTCPFlag         = "-ready-tcp="
	readyHTTPFlag        = "-ready-http="
	readyHTTPHeaderFlag  = "-ready-http-header="
	readyFileFlag        = "-ready-file="
	readyTimeoutFlag     = "-ready-timeout="

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
	logsFlushFlag     = "-logs-flush="
	logsGraceFlag     = "-logs-grace="
	maskEnvFlag       = "-mask-env="
	maskFilesFlag     = "-mask-files="
)
